"""Ops: text and parser are inverse, tables combine as their names say, mistakes are named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppsim.errors import FormatError
from ppsim.ops import (
    HOST,
    MOVES,
    NONE,
    WITHOUT_MICROBATCH,
    Kind,
    Op,
    Ops,
    Orders,
    alternate,
    cell,
    concat,
    from_ops,
    fuse,
    ops,
    parse_cell,
    parse_row,
)

LARGEST = 2**31 - 1
"""Columns are 32-bit."""
NUMBER = st.integers(0, LARGEST)


@st.composite
def single_ops(draw: st.DrawFn, steps: bool = True) -> Op:
    """Any op that has a text: moves have a peer, syncs no microbatch."""
    kind = draw(st.sampled_from(Kind))
    microbatch = NONE if kind in WITHOUT_MICROBATCH else draw(NUMBER)
    peer = draw(NUMBER | st.just(HOST)) if kind in MOVES else NONE
    return Op(kind, draw(NUMBER), microbatch, draw(NUMBER) if steps else 0, peer)


@st.composite
def fused_pairs(draw: st.DrawFn) -> tuple[Op, Op]:
    """A forward and a full or half backward."""
    backward = draw(st.sampled_from([Kind.B, Kind.I]))
    return Op(Kind.F, draw(NUMBER), draw(NUMBER)), Op(backward, draw(NUMBER), draw(NUMBER))


TABLES = st.lists(single_ops(steps=False) | fused_pairs(), max_size=8).map(from_ops)


def forwards(*microbatches: int) -> Ops:
    return ops(Kind.F, 0, microbatches)


def backwards(*microbatches: int) -> Ops:
    return ops(Kind.B, 0, microbatches)


@given(single_ops())
def test_text_and_parser_are_inverse(op: Op) -> None:
    assert Op.parse(str(op)) == op


@given(st.text(alphabet="0123FBIW_>@host", max_size=8))
def test_a_text_is_an_op_or_an_error_that_quotes_it(text: str) -> None:
    try:
        op = Op.parse(text)
    except FormatError as error:
        assert f"'{text}'" in str(error)
    else:
        assert Op.parse(str(op)) == op


@given(single_ops() | fused_pairs())
def test_cell_and_parse_cell_are_inverse(item: Op | tuple[Op, Op]) -> None:
    group = (item,) if isinstance(item, Op) else item
    assert parse_cell(cell(group)) == group


@given(TABLES)
def test_cells_and_parse_row_are_inverse(table: Ops) -> None:
    again = parse_row(table.cells())
    assert again.cells() == table.cells()
    assert list(again) == list(table)
    assert again.group.tolist() == table.group.tolist()


@pytest.mark.parametrize(
    ("op", "text"),
    [
        (Op(Kind.F, 2, 0), "2F0"),
        (Op(Kind.SEND_B, 1, 3), "1SEND_B3"),
        (Op(Kind.F, 2, 0, step=1), "2F0@1"),
        (Op(Kind.REDUCE_GRAD, 1), "1REDUCE_GRAD"),
        (Op(Kind.OPTIM, 0, step=2), "0OPTIM@2"),
        (Op(Kind.EVICT, 0, 2, peer=3), "0EVICT2>3"),
        (Op(Kind.LOAD, 0, 2, peer=3), "0LOAD2<3"),
        (Op(Kind.EVICT, 0, 2, peer=HOST), "0EVICT2>host"),
    ],
)
def test_the_text_of_an_op(op: Op, text: str) -> None:
    assert str(op) == text
    assert Op.parse(text) == op


FORM = "is not an op; an op reads stage, kind, microbatch, as in '2F0'"
PEER = "EVICT names its target as in '0EVICT2>3', LOAD its source as in '0LOAD2<3'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"'' {FORM}"),
        ("3X1", f"'3X1' {FORM}"),
        ("0F0junk", f"'0F0junk' {FORM}"),
        ("0F-1", f"'0F-1' {FORM}"),
        ("F0", f"'F0' {FORM}"),
        ("0f0", f"'0f0' {FORM}"),
        (" 0F0", f"' 0F0' {FORM}"),
        ("٣F0", f"'٣F0' {FORM}"),
        ("0F0\n", f"'0F0\\n' {FORM}"),
        ("\x1b[31m", f"'\\x1b[31m' {FORM}"),
        ("9" * 200, f"'{'9' * 80}' {FORM}"),
        ("0F2147483648", "'0F2147483648' has a number above 2147483647"),
        ("2147483648F0", "'2147483648F0' has a number above 2147483647"),
        ("0F", "'0F' lacks its microbatch, as in '0F0'"),
        ("1SEND_F", "'1SEND_F' lacks its microbatch, as in '1SEND_F0'"),
        ("0EVICT2", f"'0EVICT2': {PEER}"),
        ("0EVICT2<3", f"'0EVICT2<3': {PEER}"),
        ("0LOAD2>3", f"'0LOAD2>3': {PEER}"),
        ("0F2>3", f"'0F2>3': {PEER}"),
    ],
)
def test_what_is_not_an_op(text: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        Op.parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(0F0;3X1)OVERLAP_F_B", f"'3X1' {FORM}"),
        ("(0F0;0F1)OVERLAP_F_B", "'(0F0;0F1)OVERLAP_F_B': a fused pair is a forward and a backward, as in "
         "'(7F4;0B0)OVERLAP_F_B'"),
        ("(0B0;0F1)OVERLAP_F_B", "'(0B0;0F1)OVERLAP_F_B': a fused pair is a forward and a backward, as in "
         "'(7F4;0B0)OVERLAP_F_B'"),
        ("(0F0;0B1)", f"'(0F0;0B1)' {FORM}"),
        ("(0F0)OVERLAP_F_B", f"'(0F0)OVERLAP_F_B' {FORM}"),
        ("((0F0;0B1)OVERLAP_F_B;0B2)OVERLAP_F_B", f"'((0F0;0B1)OVERLAP_F_B;0B2)OVERLAP_F_B' {FORM}"),
    ],
)  # fmt: skip
def test_what_is_not_a_fused_pair(text: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_cell(text)
    assert str(caught.value) == message


def test_ops_repeats_scalars_to_the_longest_column() -> None:
    assert ops(Kind.F, 3, range(3)).cells() == ["3F0", "3F1", "3F2"]
    assert ops([Kind.I, Kind.W], 1, [4, 4]).cells() == ["1I4", "1W4"]
    assert ops(Kind.OPTIM, 0, NONE).cells() == ["0OPTIM"]
    assert len(ops(Kind.F, 0, [])) == 0


@given(st.lists(TABLES, max_size=4))
def test_concat_is_one_table_after_the_other(tables: list[Ops]) -> None:
    assert concat(*tables).cells() == [text for table in tables for text in table.cells()]


def test_concat_keeps_fused_pairs_apart() -> None:
    pair = fuse(forwards(1), backwards(0))
    assert concat(pair, forwards(2), pair).group.tolist() == [0, 0, NONE, 1, 1]


def test_alternate_takes_a_row_of_each_in_turn() -> None:
    assert alternate(forwards(4, 5), backwards(0, 1)).cells() == ["0F4", "0B0", "0F5", "0B1"]
    assert alternate(forwards(0, 1), backwards(2, 3), forwards(4, 5)).cells() == [
        *("0F0", "0B2", "0F4"),
        *("0F1", "0B3", "0F5"),
    ]
    assert len(alternate(forwards(), backwards())) == 0


@given(st.lists(NUMBER, max_size=6), st.integers(1, 4))
def test_alternate_is_concat_reordered(microbatches: list[int], tables: int) -> None:
    joined = alternate(*[ops(Kind.F, stage, np.array(microbatches, np.int32)) for stage in range(tables)])
    assert [(op.microbatch, op.stage) for op in joined] == [(k, s) for k in microbatches for s in range(tables)]


@pytest.mark.parametrize("combine", [alternate, fuse])
def test_alternate_and_fuse_want_equal_lengths(combine: object) -> None:
    with pytest.raises(ValueError, match=r"alternate needs tables of equal length, not \[2, 1\]"):
        combine(forwards(0, 1), backwards(0))  # type: ignore[operator]


def test_fuse_pairs_row_by_row_with_the_forward_first() -> None:
    pairs = fuse(forwards(4, 5), backwards(0, 1))
    assert pairs.cells() == ["(0F4;0B0)OVERLAP_F_B", "(0F5;0B1)OVERLAP_F_B"]
    assert pairs.group.tolist() == [0, 0, 1, 1]
    assert [str(op) for op in pairs] == ["0F4", "0B0", "0F5", "0B1"]


def test_slices_masks_and_rows_of_a_table() -> None:
    table = parse_row(["0F0", "0F1", "0B0", "0EVICT1>2"])
    assert table[1:3].cells() == ["0F1", "0B0"]
    assert table[::-1].cells() == ["0EVICT1>2", "0B0", "0F1", "0F0"]
    assert table[table.kind == Kind.F].cells() == ["0F0", "0F1"]
    assert table[3] == Op(Kind.EVICT, 0, 1, peer=2)
    assert table[-1] == table[3]
    assert len(table) == 4


def test_repr_shows_the_cells_and_cuts_a_long_table() -> None:
    assert repr(forwards(0, 1)) == "OpTable(0F0,0F1)"
    assert repr(forwards(*range(41))).endswith(",0F39,…)")


@given(st.lists(TABLES, min_size=1, max_size=5))
def test_orders_hold_a_table_per_rank(tables: list[Ops]) -> None:
    orders = Orders.of(tables)
    assert orders.ranks == len(tables)
    assert len(orders) == sum(len(table) for table in tables)
    assert [table.cells() for table in orders] == [table.cells() for table in tables]
    assert orders.rank(len(tables) - 1).cells() == tables[-1].cells()


def test_orders_number_fused_pairs_over_all_ranks() -> None:
    pair = fuse(forwards(1), backwards(0))
    assert Orders.of([pair, pair]).table.group.tolist() == [0, 0, 1, 1]
