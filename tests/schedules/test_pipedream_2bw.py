"""PipeDream-2BW: two weight versions, one update per step, no flush."""

from __future__ import annotations

from typing import Any

import pytest

import ppsim
from tests.simulated import simulate


def stream(p: int, m: int, steps: int, **sections: Any) -> ppsim.Result:
    pipeline = {"steps": steps, **sections.pop("pipeline", {})}
    return simulate("pipedream_2bw", p, m, pipeline=pipeline, **sections)


def test_d34_two_versions_everywhere_and_a_delay_of_one_update() -> None:
    """100 minibatches in 25 steps of 4: (100 + p-1) · 3 ms = 309, as PipeDream; 2BW's delay is 1 on every stage."""
    result = stream(4, 4, 25, costs={"weights": "1 GB"})
    assert result.timeline.makespan == 309 * 10**6
    assert [row["weight_versions"] for row in result.per_rank()] == [2, 2, 2, 2]
    assert [row["staleness"] for row in result.per_rank()] == [1, 1, 1, 1]
    assert [row["peak_by_category"]["stash"] for row in result.per_rank()] == [10**9] * 4
    assert result.summary["period_s"] == pytest.approx(0.003)


def test_one_step_knows_one_version() -> None:
    result = stream(3, 6, 1)
    assert [row["weight_versions"] for row in result.per_rank()] == [1, 1, 1]
    assert [row["staleness"] for row in result.per_rank()] == [0, 0, 0]


def test_an_update_per_step_takes_the_optimizers_time() -> None:
    """One rank, 3 steps of 2 microbatches: 6 · 3 ms and 3 updates of 5 ms."""
    result = stream(1, 2, 3, costs={"optimizer": "5 ms"})
    assert result.timeline.makespan == (6 * 3 + 3 * 5) * 10**6
    assert result.tasks.kind.tolist().count("OPTIM") == 3


def test_gradients_of_replicas_are_summed_once_per_step() -> None:
    """One rank with a copy: each step sums 10 MB at 10 GB/s, 2(n-1)/n = 1 of it, before the next one starts: 1 ms."""
    result = stream(
        1, 2, 3,
        pipeline={"data_parallel": 2}, costs={"weights": "10 MB"}, cluster={"inter_node": {"bandwidth": "10 GB/s"}},
    )  # fmt: skip
    assert result.timeline.makespan == (6 * 3 + 3 * 1) * 10**6


def test_fewer_microbatches_than_ranks_are_refused() -> None:
    with pytest.raises(ppsim.ConfigError, match="at least as many microbatches per update as ranks") as caught:
        stream(4, 3, 5)
    assert "3 is less than 4, 4 would do" in str(caught.value)
