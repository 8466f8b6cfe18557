"""Order files: two alphabets in, op tables out and back, and every mistake by row and column."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppsim.errors import FormatError
from ppsim.ops import HOST, MOVES, NONE, WITHOUT_MICROBATCH, Kind, Op, Orders, from_ops
from ppsim.ops import orderfile as dialects
from tests.goldens import Case, cases

SMALL = st.integers(0, 5)


@st.composite
def orders(draw: st.DrawFn, kinds: tuple[Kind, ...] = tuple(Kind)) -> Orders:
    """Orders whose ops are all different, one to four ranks, none empty, with fused pairs here and there."""
    every = st.builds(
        lambda kind, stage, microbatch, peer: Op(
            kind, stage, NONE if kind in WITHOUT_MICROBATCH else microbatch, 0, peer if kind in MOVES else NONE
        ),
        *(st.sampled_from(kinds), SMALL, SMALL, SMALL | st.just(HOST)),
    )
    left = draw(st.lists(every, min_size=1, max_size=40, unique=True))
    items: list[tuple[Op, ...]] = []
    while left:
        op = left.pop()
        partner = next((o for o in left if op.kind == Kind.F and o.kind in (Kind.B, Kind.I)), None)
        if partner and draw(st.booleans()):
            left.remove(partner)
            items.append((op, partner))
        else:
            items.append((op,))
    ranks = draw(st.integers(1, min(4, len(items))))
    return Orders.of([from_ops(items[rank::ranks]) for rank in range(ranks)])


def cells(text: str, **options: str) -> list[list[str]]:
    return [ops.cells() for ops in dialects.read(text, **options)]  # type: ignore[arg-type]


def message(text: str, **options: str) -> str:
    with pytest.raises(FormatError) as caught:
        dialects.read(text, **options)  # type: ignore[arg-type]
    return str(caught.value)


@given(orders(), st.sampled_from(["torch", "torch-old"]))
def test_read_is_the_inverse_of_write(order: Orders, alphabet: dialects.Alphabet) -> None:
    again = dialects.read(dialects.write(order, alphabet), alphabet)
    assert [ops.cells() for ops in again] == [ops.cells() for ops in order]
    assert [list(ops) for ops in again] == [list(ops) for ops in order]


@given(orders(), st.sampled_from(["torch", "torch-old"]))
def test_write_gives_lines_that_end_in_lf(order: Orders, alphabet: dialects.Alphabet) -> None:
    text = dialects.write(order, alphabet)
    assert text.endswith("\n")
    assert text.count("\n") == order.ranks
    assert "\r" not in text


@pytest.mark.parametrize("case", cases(), ids=str)
@pytest.mark.parametrize("alphabet", ["torch", "torch-old"])
def test_auto_recognises_the_alphabet_of_every_real_schedule(case: Case, alphabet: dialects.Alphabet) -> None:
    order = Orders.of(dialects.read(case.orders_text(), "torch"))
    again = dialects.read(dialects.write(order, alphabet))
    assert [ops.cells() for ops in again] == [ops.cells() for ops in order]


@pytest.mark.parametrize(
    ("text", "expected", "why"),
    [
        ("0F0,0B0", ["0F0", "0B0"], "no W: B is the full backward"),
        ("0F0,0I0,0W0", ["0F0", "0I0", "0W0"], "I is only in today's"),
        ("0F0,0F1,0I0,0W0,0B1", ["0F0", "0F1", "0I0", "0W0", "0B1"], "I, and a full backward beside it"),
        ("0F0,0BW0", ["0F0", "0B0"], "BW is only in the older one"),
        ("0F0,0F1,0B0,0BW1,0W0", ["0F0", "0F1", "0I0", "0B1", "0W0"], "BW makes B the input half"),
        ("0F0,0B0,0W0", ["0F0", "0I0", "0W0"], "W needs an input half, so B is it"),
        ("0F0,0W0", ["0F0", "0W0"], "nothing to tell by"),
        ("(1F1;0BW0)OVERLAP_F_B,0B2,0W2", ["(1F1;0B0)OVERLAP_F_B", "0I2", "0W2"], "also inside a pair"),
        ("0F0,0SEND_B0,0RECV_B0,0B0", ["0F0", "0SEND_B0", "0RECV_B0", "0B0"], "SEND_B is no B"),
    ],
)
def test_auto_goes_by_the_letters_present(text: str, expected: list[str], why: str) -> None:
    assert cells(text) == [expected], why


def test_the_letters_of_the_whole_file_count() -> None:
    """Rank 0 alone would read as today's alphabet: the W that tells is on rank 1."""
    assert cells("0F0,0B0\n1F0,1B0,1W0\n") == [["0F0", "0I0"], ["1F0", "1I0", "1W0"]]


def test_a_named_alphabet_is_taken_at_its_word() -> None:
    assert cells("0F0,0B0,0W0", alphabet="torch") == [["0F0", "0B0", "0W0"]]
    assert cells("0F0,0B0", alphabet="torch-old") == [["0F0", "0I0"]]


@pytest.mark.parametrize(
    "text",
    [
        "0F0,0B0\r\n1F0,1B0\r\n",
        "0F0,0B0\r1F0,1B0",
        "0F0,0B0\n1F0,1B0\n\n  \n",
        "\ufeff0F0,0B0\n1F0,1B0\n",
        '"0F0","0B0"\n"1F0","1B0"\n',
        ' 0F0, 0B0\t\n1F0 ," 1B0 "\n',
        "0F0,,,0B0,\n,1F0,1B0\n",
        '0F0,"",,0B0\n,1F0,1B0,,\n',
    ],
)
def test_line_ends_quotes_spaces_and_idle_cells_do_not_matter(text: str) -> None:
    assert cells(text) == [["0F0", "0B0"], ["1F0", "1B0"]]


@given(orders(), st.data())
def test_what_a_csv_writer_makes_of_padded_rows_is_read(order: Orders, data: st.DataObject) -> None:
    """PyTorch dumps with csv.writer: rows of different length, None for an idle slot, CRLF."""
    quoting = data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=quoting)
    for ops in order:
        row: list[str | None] = []
        for text in ops.cells():
            row += [None] * data.draw(st.integers(0, 2)) + [text]
        writer.writerow(row + [None] * data.draw(st.integers(0, 2)))
    assert cells(out.getvalue(), alphabet="torch") == [ops.cells() for ops in order]


def test_our_own_cells_are_read() -> None:
    text = "0F0,0EVICT0>1,0LOAD0<1,0R0,0B0,0REDUCE_GRAD,0OPTIM\n1UNSHARD,1F0,1EVICT0>host,1LOAD0<host,1B0,1RESHARD\n"
    assert dialects.write(Orders.of(dialects.read(text))) == text


FORM = "is not an op; an op reads stage, kind, microbatch, as in '2F0'"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0F0,0B0\n1F0,,3X1\n", f"file:row 2, column 3: '3X1' {FORM}"),
        ("0F0junk", f"file:row 1, column 1: '0F0junk' {FORM}; did you mean '0F0'?"),
        ("0f0", f"file:row 1, column 1: '0f0' {FORM}; did you mean '0F0'?"),
        ("0F0;0B0", f"file:row 1, column 1: '0F0;0B0' {FORM}; cells are separated by commas"),
        ("0F0\t0B0", f"file:row 1, column 1: '0F0\\t0B0' {FORM}; cells are separated by commas"),
        ("0F0,0B", "file:row 1, column 2: '0B' lacks its microbatch, as in '0B0'"),
        ("(1F1;0B0)", f"file:row 1, column 1: '(1F1;0B0)' {FORM}; a fused pair reads '(7F4;0B0)OVERLAP_F_B'"),
        ("0F0\n\x1b[2J", f"file:row 2, column 1: '\\x1b[2J' {FORM}"),
        ('0F0,"0B0', f"file:row 1, column 2: '\"0B0' {FORM}"),
        ("0F0,0F0", "file:row 1, column 2: '0F0' is listed twice, first in row 1, column 1; an op runs once"),
        (
            "0F0,0B0\n1F0,0B0",
            "file:row 2, column 2: '0B0' is on two ranks (a row is a rank), first in row 1, column 2; an op runs once",
        ),
        (
            "0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B0",
            "file:row 1, column 4: '0B0' is listed twice, first in row 1, column 3; an op runs once",
        ),
        (
            "0F0,0B0,0W0,0B0",
            "file:row 1, column 4: '0B0' is listed twice, first in row 1, column 2; an op runs once",
        ),
        (
            "0REDUCE_GRAD,0REDUCE_GRAD",
            "file:row 1, column 2: '0REDUCE_GRAD' is listed twice, first in row 1, column 1; an op runs once",
        ),
        ("0F0@1", "file:row 1, column 1: '0F0@1' names a step; an order file holds one step, so leave '@1' out"),
        ("0F0\n\n1F0", "file:row 2, column 1: no op; a row is a rank and lists its ops"),
        ("0F0\n,,", "file:row 2, column 1: no op; a row is a rank and lists its ops"),
        ("", "file: no ops; an order file has a row per rank, a cell per op, as '0F0,0B0'"),
        ("\n \n", "file: no ops; an order file has a row per rank, a cell per op, as '0F0,0B0'"),
        (
            "0F0,0I0\n1F0,1BW0",
            "file:row 2, column 2: '1BW0' and, in row 1, column 2, '0I0' are of two alphabets: F, I, W, B (B the full "
            "backward) and the older F, B, W, BW (B the input half); write in one",
        ),
    ],
)
def test_a_mistake_is_named_by_row_and_column(text: str, expected: str) -> None:
    assert message(text) == expected


def test_letters_of_the_other_alphabet_than_the_named_one() -> None:
    assert message("0F0,0BW0", alphabet="torch") == (
        f"file:row 1, column 2: '0BW0' {FORM}; BW is the full backward of the alphabet 'torch-old'"
    )
    assert message("0F0,0I0", alphabet="torch-old") == (
        "file:row 1, column 2: '0I0' is not of the alphabet 'torch-old', where the input half is B; 'torch' has I"
    )


def test_messages_quote_a_cell_as_it_was_written() -> None:
    """In the older alphabet '0B0x' would be '0I0x' in ours, which the file doesn't hold."""
    assert message("0F0,0B0x,0BW1") == f"file:row 1, column 2: '0B0x' {FORM}; did you mean '0B0'?"


def test_sync_runs_on_every_rank_that_holds_a_copy_and_unshard_as_often_as_wanted() -> None:
    bidirectional = "0REDUCE_GRAD,0OPTIM,1REDUCE_GRAD\n1REDUCE_GRAD,0REDUCE_GRAD,0OPTIM\n"
    assert dialects.write(Orders.of(dialects.read(bidirectional))) == bidirectional
    sharded = "0UNSHARD,0F0,0RESHARD,0UNSHARD,0B0,0RESHARD\n"
    assert dialects.write(Orders.of(dialects.read(sharded))) == sharded


def test_all_mistakes_come_at_once_in_the_order_of_the_file() -> None:
    """One of each sort; the label is the file's name, with its control characters shown."""
    text = "0F0,3X1\n\n0F0,0I0,0BW1,2F0@1\n"
    assert [line.split(": ")[0] for line in message(text, label="a\nb.csv").splitlines()] == [
        "a\\nb.csv:row 1, column 2",
        "a\\nb.csv:row 2, column 1",
        "a\\nb.csv:row 3, column 1",
        "a\\nb.csv:row 3, column 3",
        "a\\nb.csv:row 3, column 4",
    ]


@pytest.mark.parametrize(
    ("mistakes", "last"), [(20, "file:row 20, column 1: "), (21, "and 1 more"), (99, "and 79 more")]
)
def test_twenty_mistakes_are_shown(mistakes: int, last: str) -> None:
    lines = message("x\n" * mistakes).splitlines()
    assert len(lines) == min(mistakes, 21)
    assert lines[-1].startswith(last)


def test_an_unknown_alphabet() -> None:
    with pytest.raises(FormatError, match=r"^'torch_old' is not an alphabet here; did you mean 'torch-old'\?"):
        dialects.read("0F0", "torch_old")  # type: ignore[arg-type]
    with pytest.raises(FormatError, match=r"^'auto' is not an alphabet here; .*there are torch, torch-old$"):
        dialects.write(Orders.of(dialects.read("0F0")), "auto")
