"""Chimera and Hanayo: small orders by hand, memory, units, and what two weight copies cost."""

from __future__ import annotations

import pytest

import ppsim
from tests.simulated import simulate


def cells(result: ppsim.Result) -> list[str]:
    return [" ".join(table.cells()) for table in result.orders]


def test_chimera_of_two_ranks() -> None:
    """One microbatch down, one up: forwards cross, then backwards. By hand; it is also the authors' p=2 schedule."""
    assert cells(simulate("chimera", 2, 2)) == ["0F0 1F1 1B1 0B0", "0F1 1F0 1B0 0B1"]


def test_hanayo_of_two_ranks_and_one_wave() -> None:
    """Stages 0 and 3 on rank 0, 1 and 2 on rank 1; by hand: rank 1 turns around, rank 0 gets its second stage late."""
    found = cells(simulate("hanayo", 2, 2))
    assert found == ["0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1", "1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1"]


def test_hanayo_repeats_the_turn_for_every_wave() -> None:
    """Two waves on one rank are one stage after the other: chunks 0 to 3 forward, 3 to 0 back."""
    assert cells(simulate({"name": "hanayo", "waves": 2}, 1, 1)) == ["0F0 1F0 2F0 3F0 3B0 2B0 1B0 0B0"]


@pytest.mark.parametrize("p", [2, 4, 8])
def test_chimera_holds_two_weight_copies_and_p_half_plus_one_to_p_activations(p: int) -> None:
    """Chimera, table 2: weights 2 M, activations [(D/2+1), D] M_a."""
    result = simulate("chimera", p, p, costs={"weights": "1 GB", "gradients": "0 B"})
    assert [row["peak_by_category"]["weights"] for row in result.per_rank()] == [2 * 10**9] * p
    peaks = [row["peak_in_flight"] for row in result.per_rank()]
    assert (min(peaks), max(peaks)) == (p // 2 + 1, p)


@pytest.mark.parametrize("waves", [1, 2, 3])
@pytest.mark.parametrize("p", [2, 3, 8])
def test_hanayo_holds_one_weight_copy_and_the_papers_activations(p: int, waves: int) -> None:
    """Hanayo, figure 2: weights M, activations [((2W-1)P+1)/(2W), P] M_a, so stage ops (2W-1)P+1 to 2WP, for m = P."""
    result = simulate({"name": "hanayo", "waves": waves}, p, p, costs={"weights": "1 GB"})
    assert [row["peak_by_category"]["weights"] for row in result.per_rank()] == [2 * waves * 10**9] * p
    peaks = [row["peak_in_flight"] for row in result.per_rank()]
    assert peaks == [(2 * waves - 1) * p + 1 + rank for rank in range(p)]


def test_copies_sum_their_gradients_beside_each_other() -> None:
    """Ranks 0 and 3 hold stages 0 and 3. Each sends the other all of 10 MB for either stage, at 10 GB/s: 2 · 1 ms."""
    costs = {"weights": "10 MB"}
    result = simulate("chimera", 4, 4, costs=costs, cluster={"inter_node": {"bandwidth": "10 GB/s"}})
    assert result.timeline.makespan == (3 * 4 + 2 * 2 + 2) * 10**6
    sums = [t for t in result.transfers.itertuples() if "REDUCE_GRAD" in t.op]
    assert {(t.src, t.dst, t.bytes) for t in sums} == {(r, 3 - r, 10**7) for r in range(4)}
    assert all(row["waits_s"]["sync"] == 0.002 for row in result.per_rank()[1:3])


def test_overlapped_sync_starts_when_a_stages_last_backward_is_done() -> None:
    """Every rank's far stage is done a backward, 2 ms, before its near one: its 1 ms hides, the other's doesn't."""
    costs, link = {"weights": "10 MB"}, {"inter_node": {"bandwidth": "10 GB/s"}}
    result = simulate("chimera", 4, 4, costs=costs, cluster=link, runtime={"grad_sync": "overlapped"})
    assert result.timeline.makespan == (3 * 4 + 2 * 2 + 1) * 10**6


def test_a_unit_that_isnt_full_is_a_warning() -> None:
    for schedule, p, m in (("chimera", 4, 6), ("hanayo", 4, 6)):
        result = simulate(schedule, p, m)
        assert [notice.code for notice in result.notices] == ["unfilled_unit"]
        assert "the last of 6 has 2" in result.notices[0].message
        assert result.notices[0].message.endswith("8 would fill it")


@pytest.mark.parametrize(
    ("p", "m", "message"),
    [
        (3, 6, "pipeline.ranks: chimera needs an even number of ranks; 3 is odd, 4 would do"),
        (4, 5, "pipeline.microbatches: chimera needs an even number of microbatches, half for each direction; 5 is"),
    ],
)
def test_sizes_that_chimera_refuses(p: int, m: int, message: str) -> None:
    with pytest.raises(ppsim.ConfigError) as caught:
        simulate("chimera", p, m)
    assert message in str(caught.value)


def test_every_size_runs() -> None:
    """Units that aren't full, more ranks than microbatches, a single rank: nothing deadlocks, all work is done."""
    for p in (1, 2, 3, 5):
        for m in (1, 2, 4, 7):
            for waves in (1, 2):
                result = simulate({"name": "hanayo", "waves": waves}, p, m)
                assert [row["busy_s"] for row in result.per_rank()] == [3 * 2 * waves * m / 1000] * p
    for p in (2, 4, 6):
        for m in (2, 4, 10):
            assert [row["busy_s"] for row in simulate("chimera", p, m).per_rank()] == [3 * m / 1000] * p


@pytest.mark.parametrize(("m", "units_of_f"), [(4, 18), (8, 33), (12, 48)])
def test_one_wave_beats_1f1b_below_two_units_alone(m: int, units_of_f: int) -> None:
    """p = 4, F = 1 ms, B = 2 ms of a rank: m·3 busy; idle 3·2, and 3·(2 - 1) more between two units. 1F1B: (m+3)·3."""
    found = simulate("hanayo", 4, m, costs={"per": "rank"})
    assert found.timeline.makespan == units_of_f * 10**6
    assert (units_of_f < 3 * (m + 3)) == (m < 8)
