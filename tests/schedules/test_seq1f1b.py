"""Seq1F1B: slices of the sequence, their order, their costs and what they save."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import ppsim
from tests.simulated import between_nodes, simulate


def sliced(k: int, **settings: Any) -> dict[str, Any]:
    return {"name": "seq1f1b", "slices": k, **settings}


def cells(result: ppsim.Result) -> list[str]:
    return [" ".join(table.cells()) for table in result.orders]


def test_one_slice_is_1f1b() -> None:
    assert cells(simulate(sliced(1), 3, 5)) == cells(simulate("1f1b", 3, 5))


def test_backwards_take_the_oldest_microbatch_its_last_slice_first() -> None:
    """Two ranks, two microbatches of two slices, 0 1 and 2 3. Equation 4: rank i warms up p - i - 2 + k slices."""
    found = cells(simulate(sliced(2), 2, 2))
    assert found == ["0F0 0F1 0F2 0B1 0F3 0B0 0B3 0B2", "1F0 1F1 1B1 1F2 1B0 1F3 1B3 1B2"]


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 8), (4, 3), (8, 16)])
def test_bubble_is_a_kth_of_1f1bs(p: int, m: int, k: int) -> None:
    """Throughput grows as k·m / (k·m + p-1) for slices of equal cost: m · 12 ms of work, (p-1) · 12/k of idle time."""
    costs = {"forward": "4 ms", "backward": "8 ms", "activation": "8 kB", "message": "4 MB"}
    result = simulate(sliced(k), p, m, costs=costs)
    assert result.timeline.makespan == m * 12 * 10**6 + (p - 1) * 12 * 10**6 // k
    assert result.theory["makespan_s"] * 1e9 == pytest.approx(result.timeline.makespan, rel=1e-12)
    # Rank r holds p-r-1 + k slices of a k-th; a message is a k-th, too; so both of them together are 1F1B's.
    peaks = [row["peak_by_category"]["activations"] for row in result.per_rank()]
    assert peaks == [8000 * min(p - 1 - r + k, m * k) // k for r in range(p)]
    assert {t.bytes for t in result.transfers.itertuples()} <= {4 * 10**6 // k}
    assert result.summary["microbatches"] == m
    assert result.summary["microbatches_per_s"] == pytest.approx(m / (result.timeline.makespan / 1e9))


def test_attention_grows_with_the_position() -> None:
    """Half of 16 ms is attention: slice j of 4 takes 8/4 + 8 · ((j+1)² - j²)/16 = 2.5, 3.5, 4.5, 5.5 ms; B twice."""
    costs = {"forward": "16 ms", "backward": "32 ms", "activation": "4 kB"}
    result = simulate(sliced(4, attention=0.5), 1, 1, costs=costs)
    lengths = (result.timeline.end - result.timeline.start).tolist()
    assert cells(result) == ["0F0 0F1 0F2 0F3 0B3 0B2 0B1 0B0"]
    assert [value / 10**6 for value in lengths] == [2.5, 3.5, 4.5, 5.5, 11, 9, 7, 5]
    assert result.theory == {}
    # What is kept goes by the slice's length, not by its time.
    assert result.per_rank()[0]["peak_by_category"]["activations"] == 4000


def test_shorter_slices_at_the_end_can_take_as_long() -> None:
    """All attention: a prefix x takes x². Of 7 and 3 tenths the times are nearly equal, 0.49 and 0.51 of 100 ms.

    Messages are 0.7 and 0.3 of 1 MB.
    """
    costs = {"forward": "100 ms", "backward": "200 ms", "message": "1 MB"}
    result = simulate(sliced(2, attention=1, lengths=[7, 3]), 2, 1, costs=costs)
    forwards = result.tasks[(result.tasks.kind == "F") & (result.tasks["rank"] == 0)]
    assert (forwards.end_s - forwards.start_s).tolist() == pytest.approx([0.049, 0.051])
    assert sorted({t.bytes for t in result.transfers.itertuples()}) == [300_000, 700_000]


def test_slices_and_lengths_of_microbatches_multiply() -> None:
    """A microbatch of half the length has slices of half the time: 1 rank, (1 + 0.5) · 12 ms."""
    costs = {"forward": "4 ms", "backward": "8 ms"}
    result = simulate(sliced(2), 1, 2, pipeline={"microbatch_weights": [1, 0.5]}, costs=costs)
    assert result.timeline.makespan == 18 * 10**6


def test_except_last_spares_all_slices_of_the_last_microbatch() -> None:
    """One rank, 3 microbatches of 12 ms; two of them, all their slices, are recomputed: 2 · 4 ms more."""
    sections = {"costs": {"forward": "4 ms", "backward": "8 ms"}}
    result = simulate(sliced(2), 1, 3, pipeline={"recompute": "except_last"}, **sections)
    assert result.timeline.makespan == (3 * 12 + 2 * 4) * 10**6


def test_every_slice_pays_the_latency() -> None:
    """Fill and drain of one microbatch: 2 ranks, slices of 1 and 2 ms, 1 ms of flight each way.

    Forwards 0-1, 1-2 on rank 0, 2-3, 3-4 on rank 1, its backwards 4-6, 6-8, the last one's gradient at 9: 11 ms.
    """
    costs = {"forward": "2 ms", "backward": "4 ms", "message": "1 MB"}
    result = simulate(sliced(2), 2, 1, costs=costs, cluster=between_nodes(latency="1 ms"))
    assert result.timeline.makespan == 11 * 10**6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lengths": [1, 2, 3]}, "schedule.lengths: the list has 3 values, there are 2 slices"),
        ({"attention": 1.5}, "schedule.attention: 1.5 is a share; at most 1"),
        ({"lengths": [1, 0]}, "schedule.lengths.1:"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ppsim.ConfigError) as caught:
        simulate(sliced(2, **settings), 2, 2)
    assert message in str(caught.value)


def test_shares_of_slices_sum_to_one() -> None:
    """Length and time of all slices are the whole microbatch's, for uneven ones, too."""
    from ppsim.schedules.seq1f1b import Seq1F1B

    parts = Seq1F1B(slices=3, lengths=[Fraction(5), Fraction(3), Fraction(1, 3)], attention=Fraction(2, 7)).cut()
    assert sum(part.length for part in parts) == sum(part.time for part in parts) == 1
