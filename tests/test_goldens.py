"""The golden files say what their index says, by a recurrence that shares nothing with the simulator."""

from __future__ import annotations

import pytest

from ppsim.ops import Orders, parse_row
from ppsim.ops import orderfile as dialects
from tests.goldens import FOLDER, Case, cases
from tests.reference import UNIT, makespan, peaks, times

SCHEDULES = {
    *("gpipe", "torchgpipe", "1f1b", "megatron_1f1b", "deepspeed_1f1b", "alpa_eager_1f1b", "interleaved_1f1b"),
    *("megatron_interleaved", "pipedream", "looped_bfs", "interleaved_zb", "sail_zb", "zbv", "sail_vgreedy"),
    *("dualpipe", "dualpipev", "dualpipev_deepseek", "chimera"),
}


def test_every_schedule_and_every_file_is_in_the_index() -> None:
    assert {case.schedule for case in cases()} == SCHEDULES
    assert {case.path for case in cases()} == set(FOLDER.glob("*.csv")) - {FOLDER / "index.csv"}


def test_extra_is_read_as_keys_and_values() -> None:
    combined = [case for case in cases("megatron_interleaved") if "combined" in case.path.name]
    assert [case.extra for case in combined] == [
        {"group_size": "2", "combined": "yes"},
        {"group_size": "4", "combined": "yes"},
    ]


def test_a_schedule_without_cases_is_an_error() -> None:
    with pytest.raises(KeyError, match="gpippe"):
        cases("gpippe")


@pytest.mark.parametrize("case", cases(), ids=str)
def test_file_is_read_and_written_back_to_the_same_text(case: Case) -> None:
    text = case.orders_text()
    orders = Orders.of(dialects.read(text, label=case.path.name))
    assert orders.ranks == case.ranks
    assert dialects.write(orders) == text


@pytest.mark.parametrize("case", cases(), ids=str)
def test_file_holds_every_op_of_its_sizes_once(case: Case) -> None:
    """A forward, and a backward as B or as I and W, of each stage and microbatch.

    Looped and V placements have p·v stages that see all microbatches; bidirectional ones p stages that do, held twice.
    """
    stages = case.ranks * (1 if case.extra.get("placement") == "bidirectional" else case.virtual_stages)
    every = {(stage, microbatch) for stage in range(stages) for microbatch in range(case.microbatches)}
    by_kind: dict[str, set[tuple[int, int]]] = {kind: set() for kind in "FBIWR"}
    for row in dialects.read(case.orders_text()):
        for op in row:
            by_kind[op.kind.name].add((op.stage, op.microbatch))
    assert by_kind["F"] == every
    assert by_kind["B"] | by_kind["I"] == every
    assert not by_kind["B"] & by_kind["I"]
    assert by_kind["W"] == by_kind["I"]


@pytest.mark.parametrize("case", cases(), ids=str)
def test_oracles_of_the_index_hold_by_the_recurrence(case: Case) -> None:
    rows = dialects.read(case.orders_text())
    assert makespan(rows, UNIT) == case.makespan
    assert makespan(rows, UNIT, atomic=False) == case.makespan_fb_serial
    assert tuple(peaks(rows, ("B", "I"))) == case.peak_until_b_or_i
    assert tuple(peaks(rows, ("B", "W"))) == case.peak_until_b_or_w


def closed_form(case: Case) -> int | None:
    """The makespan by formula, with F=1, B=2, I=W=1 per stage op; None where no formula is known.

    Each rank's work (3 per microbatch and stage it runs) plus a bubble. Sources of the bubbles: GPipe section 2.3 and
    Megatron-LM SC'21 section 2.2, (p-1)(F+B), also interleaved and breadth first, where it is per stage op; Zero Bubble
    table 2, (p-1)(F+I-W), and section 6, where a ZB-V rank idles only before its first op or after its last; DualPipe's
    README, (p/2-1)(FB+B-3W), on p/2 devices for the V; Chimera table 2 and section 3.1, (p-2)/(3m/2+p-2) of the whole.
    """
    p, m, v = case.ranks, case.microbatches, case.virtual_stages
    match case.schedule:
        case "gpipe" | "1f1b" | "megatron_1f1b" | "deepspeed_1f1b" | "alpa_eager_1f1b" | "pipedream":
            return 3 * (m + p - 1)
        case "torchgpipe" if case.extra["checkpoint"] == "never":
            return 3 * (m + p - 1)
        case "looped_bfs" | "interleaved_1f1b" | "megatron_interleaved" if m >= p:
            return 3 * (m * v + p - 1)
        case "interleaved_zb" if m >= p:
            return 3 * m * v + p - 1
        case "zbv" if m >= 2 * p - 1:
            return 6 * m + p - 1
        case "dualpipev" | "dualpipev_deepseek":
            return 6 * m + 2 * (p - 1)
        case "dualpipe":
            return 3 * m + 2 * (p // 2 - 1)
        case "chimera" if m == p:
            return 3 * m + 2 * (p - 2)
    return None


@pytest.mark.parametrize("case", [c for c in cases() if closed_form(c) is not None], ids=str)
def test_makespan_equals_the_closed_form_of_its_class(case: Case) -> None:
    assert case.makespan == closed_form(case)


ONE_RANK = ["0F0,0F1,0B0,0B1"]
CHAIN = ["0F0,0B0", "1F0,1B0"]


@pytest.mark.parametrize(
    ("rows", "latency", "expected", "reason"),
    [
        (ONE_RANK, 5, 6, "two forwards and two backwards, no link: 2·1 + 2·2"),
        (CHAIN, 0, 6, "one microbatch goes down and up: 1 + 1 + 2 + 2"),
        (CHAIN, 5, 16, "and crosses the link twice: 6 + 2·5"),
        (
            ["0F0,3F0,3I0,0I0,0W0,3W0", "1F0,2F0,2B0,1B0"],
            5,
            32,
            "a V: one chain of 4 F, I, 2 B, I, 2 W (12) that crosses 4 times, but not at its turn: 12 + 4·5",
        ),
        (["0F0,0B0", "1B0,1F0"], 0, None, "a backward before its own forward"),
        (
            ["0F1,0F0,0B0,0B1", "1F0,1B0,1F1,1B1"],
            0,
            10,
            "the longest chain is 0F1 0F0 1F0 1B0 1F1 1B1 0B1: 1+1+1+2+1+2+2",
        ),
        (
            ["0F0,0B0,0F1,0B1", "1F1,1B1,1F0,1B0"],
            0,
            None,
            "0B0 waits for 1B0, which stands behind 1F1, and that for 0F1",
        ),
        (["0F0,0W0"], 0, None, "a weight half without its input half"),
        (["0F0,0B0,0R0"], 0, None, "a recomputation behind the backward that needs it"),
        (["0F0,0B0", "1F0"], 0, None, "no gradient ever comes"),
    ],
)
def test_reference_by_hand(rows: list[str], latency: int, expected: int | None, reason: str) -> None:
    assert makespan([parse_row(row.split(",")) for row in rows], UNIT, latency) == expected, reason


def test_reference_recomputes_before_the_gradient_is_there() -> None:
    """p=2, m=1: 0R0 ends at 2 while 1F0 1R0 1B0 run until 5, so only the last rank's recomputation is seen: 6 + 1."""
    rows = [parse_row(["0F0", "0R0", "0B0"]), parse_row(["1F0", "1R0", "1B0"])]
    found = times(rows, UNIT)
    assert found is not None
    assert found[rows[0][1]] == (1, 2)
    assert makespan(rows, UNIT) == 7


def test_reference_of_a_fused_pair() -> None:
    """Rank 0 at 2 has 0F1 and 0B0 to do: as a pair 1F1 waits for its end, in series it starts after the forward.

    By hand: 0F0 0-1, 1F0 1-2, 1B0 2-4; the pair 4-7, 1F1 7-8, 1B1 8-10, 0B1 10-12. In series 0F1 runs at 1-2,
    0B0 at 4-6; 1F1 4-5, 1B1 5-7, 0B1 7-9.
    """
    rows = [parse_row(["0F0", "(0F1;0B0)OVERLAP_F_B", "0B1"]), parse_row(["1F0", "1B0", "1F1", "1B1"])]
    assert makespan(rows, UNIT) == 12
    assert makespan(rows, UNIT, atomic=False) == 9


@pytest.mark.parametrize(
    ("warm", "expected", "reason"),
    [
        ([64, 64], 1952, "GPipe pays each latency once: 30·(m+p-1) + 2"),
        ([2, 1], 2014, "1F1B: a round of 2 microbatches down and up takes 2·30 + 2; the first ends at 92, 31 follow"),
        ([3, 1], 1952, "eager 1F1B: a round of 3 microbatches takes 62 < 3·30, so the latency is hidden again"),
    ],
)
def test_reference_exposes_latency_where_the_order_does(warm: list[int], expected: int, reason: str) -> None:
    """p=2, m=64, F=10, B=20, latency 1; ``warm`` forwards per rank come before its first backward.

    The first round of 1F1B by hand: 0F0 0-10, 0F1 10-20, 1F0 11-21, 1B0 21-41, 1F1 41-51, 1B1 51-71, 0B1 72-92.
    """
    rows = []
    for rank, first in enumerate(warm):
        cells = [f"{rank}F{k}" for k in range(first)]
        for k in range(64):
            cells += [f"{rank}B{k}"] + ([f"{rank}F{k + first}"] if k + first < 64 else [])
        rows.append(parse_row(cells))
    assert makespan(rows, {"F": 10, "B": 20}, latency=1) == expected, reason


ASAP = (
    "0F0 0SEND_F0 2RECV_F0 0F1 0SEND_F1 2RECV_F1 2F0 2SEND_F0 2F1 2SEND_F1 2RECV_B0 2B0 2SEND_B0 2RECV_B1 2B1 2SEND_B1 "
    "0RECV_B0 0B0 0RECV_B1 0B1",
    "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 3RECV_F0 3F0 3RECV_F1 3B0 3SEND_B0 1RECV_B0 3F1 3B1 3SEND_B1 1RECV_B1 "
    "1B0 1SEND_B0 1B1 1SEND_B1",
)
LATE = (
    "0F0 0SEND_F0 0F1 0SEND_F1 2RECV_F0 2F0 2SEND_F0 2RECV_F1 2F1 2SEND_F1 2RECV_B0 2B0 2SEND_B0 2RECV_B1 2B1 2SEND_B1 "
    "0RECV_B0 0B0 0RECV_B1 0B1",
    "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 3RECV_F0 3F0 3B0 3SEND_B0 3RECV_F1 3F1 3B1 3SEND_B1 1RECV_B0 1B0 "
    "1SEND_B0 1RECV_B1 1B1 1SEND_B1",
)


@pytest.mark.parametrize(("order", "expected"), [(ASAP, 21), (LATE, 15)])
def test_reference_waits_where_a_receive_is_posted_too_early(order: tuple[str, str], expected: int) -> None:
    """The pattern of pytorch/pytorch issue 172668. With F=1, B=2, late takes the 3(mv+p-1) = 15 of interleaved 1F1B.

    Posted early, 1RECV_B0 waits for 2B0 (8-10), then 2RECV_B1 for 3B1 (11-13), 1RECV_B1 for 2B1 (13-15); then follow
    1B0 15-17, and 0B0 17-19, 0B1 19-21.
    """
    assert makespan([parse_row(row.split()) for row in order], UNIT) == expected
