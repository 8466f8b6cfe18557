"""Interleaved schedules: groups, deadlocks that groups cause, v = 1, and Primus's and other programs' figures."""

from __future__ import annotations

from typing import Any

import pytest

import ppsim
from tests.simulated import simulate


def interleaved(v: int = 2, **settings: Any) -> dict[str, Any]:
    return {"name": "interleaved_1f1b", "virtual_stages": v, **settings}


def codes(result: ppsim.Result) -> list[str]:
    return [notice.code for notice in result.notices]


def test_groups_of_two_on_four_ranks_deadlock_and_the_group_is_named() -> None:
    """Rank 3 comes to 3B0, which waits for rank 0's 4B0; rank 0 is still warming up, at 4F3, which waits for rank 3."""
    with pytest.raises(ppsim.DeadlockError) as caught:
        simulate(interleaved(group=2), 4, 8)
    lines = str(caught.value).splitlines()
    assert "  rank 0 at 4F3 waits for 3F3" in lines
    assert "  rank 3 at 3B0 waits for 4B0" in lines
    assert lines[-1].startswith("schedule.group: groups of 2 microbatches are the cause: with fewer than the 4 ranks")
    assert lines[-1].endswith("(group 4 costs nothing)")


def test_a_deadlock_that_no_group_causes_isnt_blamed_on_it() -> None:
    """Here batch normalisation makes it: F(s+1,k) waits for all F(s), whose last ones stand behind a backward."""
    with pytest.raises(ppsim.DeadlockError) as caught:
        simulate(interleaved(), 4, 8, pipeline={"batch_sync": "all"})
    assert "schedule.group" not in str(caught.value)


def test_small_groups_that_run_are_a_warning() -> None:
    """Zero bubble's shorter warm-up gets through with groups of 2; it takes longer than with 4."""
    small = simulate({"name": "interleaved_zb", "group": 2}, 4, 8)
    assert "small_group" in codes(small)
    usual = simulate("interleaved_zb", 4, 8)
    assert codes(usual) == ["halves_assumed"]
    assert small.timeline.makespan > usual.timeline.makespan == 51 * 10**6  # 3 · 8 · 2 + (4-1)


def test_a_ragged_last_group_is_a_warning_with_what_it_costs() -> None:
    """Of p=4, v=2, m=9 per rank: one group of 5 and one of 4 gives 31.5 ms, groups of 4, 4, 1 give 37."""
    costs = {"per": "rank"}
    best, ragged = simulate(interleaved(), 4, 9, costs=costs), simulate(interleaved(group=4), 4, 9, costs=costs)
    assert (best.timeline.makespan, ragged.timeline.makespan) == (31_500_000, 37_000_000)
    assert codes(best) == []
    assert codes(ragged) == ["ragged_group"]
    assert "4+4+1" in ragged.notices[0].message
    assert "group 5 costs nothing" in ragged.notices[0].message


def test_one_virtual_stage_is_1f1b_exactly() -> None:
    for p, m in ((1, 3), (4, 2), (4, 9)):
        one, plain = simulate(interleaved(1), p, m), simulate("1f1b", p, m)
        assert [table.cells() for table in one.orders] == [table.cells() for table in plain.orders]
        assert "one_virtual_stage" in codes(one)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (interleaved(group=9), "schedule.group: 9 is more than the 8 microbatches; at most 8"),
        (interleaved(1, combined=True), "schedule.combined: fuses the ops of different chunks; virtual_stages is 1"),
        ({"name": "interleaved_zb", "group": 0}, "schedule.group: 0 is too small; at least 1"),
    ],
)
def test_settings_that_are_refused(schedule: dict[str, Any], message: str) -> None:
    with pytest.raises(ppsim.ConfigError) as caught:
        simulate(schedule, 4, 8)
    assert message in str(caught.value)


PRIMUS = [
    # p, m, then ms with F, I, W = 1, 1, 1 and with 1.2, 1.4, 0.8 per rank: 1F1B, v = 2, v = 4
    (4, 8, (33, 28.5, 26.25), (37.4, 32.3, 29.75)),
    (4, 16, (57, 52.5, 50.25), (64.6, 59.5, 56.95)),
    (4, 32, (105, 100.5, 98.25), (119, 113.9, 111.35)),
    (8, 16, (69, 58.5, 53.25), (78.2, 66.3, 60.35)),
    (8, 32, (117, 106.5, 101.25), (132.6, 120.7, 114.75)),
    (8, 64, (213, 202.5, 197.25), (241.4, 229.5, 223.55)),
    (16, 32, (141, 118.5, 107.25), (159.8, 134.3, 121.55)),
    (16, 64, (237, 214.5, 203.25), (268.6, 243.1, 230.35)),
    (16, 128, (429, 406.5, 395.25), (486.2, 460.7, 447.95)),
]
"""Makespans by the schedule tables and the simulator of AMD-AGI/Primus (fd1eeab); its blog shows those of p=8, m=32."""


@pytest.mark.parametrize(("p", "m", "equal", "unequal"), PRIMUS)
def test_primus_gives_the_same_makespan_and_memory(
    p: int, m: int, equal: tuple[float, ...], unequal: tuple[float, ...]
) -> None:
    """Its peak on rank 0: p activations of a stage for 1F1B, p(1 + (p-1)/(pv)) interleaved (Korthikanti, 4.2.3)."""
    schedules = ("1f1b", interleaved(2), interleaved(4))
    for v, schedule, one, other in zip((1, 2, 4), schedules, equal, unequal, strict=True):
        for costs, expected in (
            ({"forward": "1 ms", "input_grad": "1 ms", "weight_grad": "1 ms"}, one),
            ({"forward": "1.2 ms", "input_grad": "1.4 ms", "weight_grad": "0.8 ms"}, other),
        ):
            result = simulate(schedule, p, m, engine="auto", costs={"per": "rank", "activation": "4 kB", **costs})
            assert result.timeline.makespan == round(expected * 10**6)
            peaks = [row["peak_by_category"]["activations"] / 4000 for row in result.per_rank()]
            assert peaks[0] == (p if v == 1 else p + (p - 1) / v)
            step = 1 if v == 1 else 2 / v
            assert peaks == [peaks[0] - step * rank for rank in range(p)]


SIZES = ((2, 4), (4, 8), (4, 12), (8, 16), (8, 64), (16, 64))
OTHERS = {
    # program and its schedule -> ours, F = I = W = 1, ms for the sizes above
    "PyTorch 2.13 DualPipeV": ("dualpipev", (26, 54, 78, 110, 398, 414)),
    "PyTorch 2.13 InterleavedZeroBubble": ("interleaved_zb", (25, 51, 75, 103, 391, 399)),
    "PyTorch 2.13 LoopedBFS": ("looped_bfs", (27, 57, 81, 117, 405, 429)),
    "PyTorch 2.13 ZBVZeroBubble": ("zbv", (25, 51, 75, 103, 391, 399)),
    "sail-sg zbpp zbv": ("zbv", (25, 51, 75, 103, 391, 399)),
    "minPP vshape_zb": ("zbv", (25, 51, 75, 103, 391, 399)),
    "minPP zb1f1b": ({"name": "interleaved_zb", "virtual_stages": 1}, (13, 27, 39, 55, 199, 207)),
    "Victarry zb1p": ({"name": "interleaved_zb", "virtual_stages": 1}, (13, 27, 39, 55, 199, 207)),
    "Victarry dualpipe": ("dualpipe", (12, 26, 38, 54, 198, 206)),
    "Victarry dualpipe_v": ("dualpipev", (26, 54, 78, 110, 398, 414)),
}


@pytest.mark.parametrize("program", OTHERS)
def test_other_programs_give_the_same_makespan(program: str) -> None:
    schedule, expected = OTHERS[program]
    costs = {"input_grad": "1 ms", "weight_grad": "1 ms"}
    found = tuple(simulate(schedule, p, m, engine="auto", costs=costs).timeline.makespan for p, m in SIZES)
    assert found == tuple(value * 10**6 for value in expected)


@pytest.mark.parametrize(
    ("halves", "expected"),
    [((2, 2, 1), (42, 86, 126, 174, 654, 670)), ((10, 12, 8), (252, 516, 756, 1044, 3924, 4032))],
)
def test_fixed_v_is_no_slower_than_sails(halves: tuple[int, int, int], expected: tuple[int, ...]) -> None:
    """sail-sg zbpp's `zbv` picks its order by costs."""
    costs = dict(zip(("forward", "input_grad", "weight_grad"), (f"{value} ms" for value in halves), strict=True))
    for (p, m), most in zip(SIZES, expected, strict=True):
        assert simulate("zbv", p, m, engine="auto", costs=costs).timeline.makespan <= most * 10**6
