"""Forwards alone: period, latency, speed-up and memory of a stream of items."""

from __future__ import annotations

import pytest

from tests.simulated import between_nodes, simulate


def test_period_latency_and_speedup() -> None:
    """Four stages of 2 ms: the first item out after 8 ms, then one every 2; (m+p-1) · 2 ms for m = 100; 800 / 206."""
    result = simulate("forward_only", 4, 100, costs={"forward": "2 ms"})
    assert result.timeline.makespan == 206 * 10**6
    assert result.summary["period_s"] == pytest.approx(0.002)
    assert result.summary["latency_s"] == 0.008
    assert result.summary["speedup"] == pytest.approx(800 / 206)
    assert result.summary["theory"]["makespan_s"] == 0.206


def test_slowest_stage_sets_the_period() -> None:
    """Stages of 1, 3, 2 ms: an item every 3 ms, the first after 6, the last of 50 after 6 + 49 · 3."""
    result = simulate("forward_only", 3, 50, costs={"forward": ["1 ms", "3 ms", "2 ms"]})
    assert result.summary["period_s"] == pytest.approx(0.003)
    assert result.summary["latency_s"] == 0.006
    assert result.timeline.makespan == 153 * 10**6


def test_d31_twice_the_bandwidth_changes_nothing_where_computing_is_the_bound() -> None:
    """Two stages of 20 ms, messages of 16 KiB, 5 us latency: 400 against 800 Gbit/s is less than 0.001."""
    costs = {"forward": "20 ms", "message": "16 KiB"}
    slow, fast = (
        simulate("forward_only", 2, 100, costs=costs, cluster=between_nodes(bandwidth=f"{rate} Gbit/s", latency="5 us"))
        for rate in (400, 800)
    )
    assert 0 <= slow.timeline.makespan / fast.timeline.makespan - 1 < 0.001
    assert slow.summary["period_s"] == pytest.approx(fast.summary["period_s"], rel=1e-3)
    assert max(link["utilization"] for link in slow.summary["links"]) < 0.001


def test_a_forward_frees_its_activation_at_its_own_end() -> None:
    """Of each microbatch only the running stage's activation is held: one at a time, and it is gone at the end."""
    result = simulate("forward_only", 3, 10, costs={"activation": "5 kB"})
    assert [row["peak_by_category"]["activations"] for row in result.per_rank()] == [5000] * 3
    assert [row["peak_in_flight"] for row in result.per_rank()] == [1] * 3


def test_nothing_is_held_for_learning() -> None:
    """Weights stay; there are no gradients, no optimizer, no gradient sync, whatever the costs say."""
    costs = {"weights": "1 GB", "optimizer_state": "6 GB", "optimizer": "7 ms"}
    result = simulate("forward_only", 2, 4, costs=costs, pipeline={"data_parallel": 2, "steps": 2})
    held = [row["peak_by_category"] for row in result.per_rank()]
    assert [(h["weights"], h["gradients"], h["optimizer"]) for h in held] == [(10**9, 0, 0)] * 2
    assert set(result.tasks.kind) == {"F"}


def test_training_has_no_item_latency() -> None:
    assert simulate("1f1b", 2, 4).summary["latency_s"] is None
