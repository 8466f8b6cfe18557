"""Steady-state period, bubble and throughput."""

from __future__ import annotations

from typing import Any

import pytest

from ppsim.metrics import Run, throughput
from tests.runs import simulated


def run_of(schedule: Any, p: int, m: int, pipeline: dict[str, Any] | None = None, **settings: Any) -> Run:
    return simulated(schedule, {"ranks": p, "microbatches": m, **(pipeline or {})}, **settings)


def test_a_single_step_shows_no_steady_state() -> None:
    run = run_of("1f1b", 4, 8)
    assert throughput.period_s(run) is None
    assert throughput.steady_bubble_ratio(run) is None


def test_steps_with_a_barrier_repeat_themselves() -> None:
    """3·(8+3) = 33 ms a step, of which 3/11 is idle."""
    run = run_of("1f1b", 4, 8, {"steps": 5})
    assert throughput.steady(run) == throughput.Steady(33_000_000, 165_000_000, 4)
    assert throughput.period_s(run) == 0.033
    assert throughput.steady_bubble_ratio(run) == pytest.approx(3 / 11)


def test_the_first_step_is_not_part_of_the_steady_state() -> None:
    """One rank, an op of 3 ms a step and none of idle time; the second rank of a flushless pair overlaps its fill.

    GPipe p=2, m=1, F=1, B=2 without a barrier: rank 0 is free when its B ends, at 6; the last step ends there, too. So
    each step takes 6, of which each rank works 3.
    """
    run = run_of("gpipe", 2, 1, {"steps": 4}, runtime={"barrier": False})
    assert throughput.period_s(run) == 0.006
    assert throughput.steady_bubble_ratio(run) == 0.5


def test_latency_of_a_stream_shows_in_its_period() -> None:
    """1F1B sends a round of p minibatches down and up again: 2c(p-1)/p more for each (PEERS: the 1F1B closed form)."""
    run = run_of("pipedream", 4, 200, cluster={"inter_node": {"latency": "100 us"}})
    assert throughput.period_s(run) == pytest.approx(0.003 + 2 * 0.0001 * 3 / 4)


def test_the_slowest_stage_sets_the_period_of_a_stream() -> None:
    """F + B = 2 + 5 on stage 1; ranks 0 and 2 work 3 of every 7 ms: idle (4 + 0 + 4) / 21."""
    costs = {"forward": ["1 ms", "2 ms", "1 ms"], "backward": ["2 ms", "5 ms", "2 ms"]}
    run = run_of("pipedream", 3, 100, costs=costs)
    assert throughput.period_s(run) == pytest.approx(0.007)
    assert throughput.steady_bubble_ratio(run) == pytest.approx(8 / 21)


def test_forwards_alone_are_a_stream() -> None:
    """Hennessy and Patterson: an item leaves every max(stage time), here 2 ms. Rank 0 runs ahead and never waits."""
    run = run_of("forward_only", 2, 40, costs={"forward": ["1 ms", "2 ms"]})
    assert throughput.period_s(run) == pytest.approx(0.002)
    assert throughput.steady_bubble_ratio(run) == 0


@pytest.mark.parametrize("m", [1, 4, 7])
def test_a_stream_too_short_for_a_steady_state(m: int) -> None:
    """p=4: rank 0 ends its last forward before a whole round of 4 minibatches has ended."""
    run = run_of("pipedream", 4, m)
    assert throughput.period_s(run) is None
    assert throughput.steady_bubble_ratio(run) is None


def test_microbatches_per_second_count_the_whole_run() -> None:
    """8 microbatches in 33 ms; two steps of 33 ms have 16 in 66."""
    assert throughput.microbatches_per_s(run_of("1f1b", 4, 8)) == pytest.approx(8 / 0.033)
    assert throughput.microbatches_per_s(run_of("1f1b", 4, 8, {"steps": 2})) == pytest.approx(16 / 0.066)
