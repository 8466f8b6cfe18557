"""Weight versions and staleness, measured in the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppsim import metrics
from ppsim.metrics import Run, memory, staleness
from ppsim.ops import Kind
from ppsim.plan.table import Category
from tests.runs import simulated


def pipedream(p: int, m: int, vertical_sync: bool = False, **settings: Any) -> Run:
    return simulated({"name": "pipedream", "vertical_sync": vertical_sync}, {"ranks": p, "microbatches": m}, **settings)


def figures(run: Run) -> tuple[list[int], list[int]]:
    versions, stale = staleness.weight_versions(run), staleness.staleness(run)
    assert versions is not None
    assert stale is not None
    return versions.tolist(), stale.tolist()


@pytest.mark.parametrize("p", range(1, 9))
@pytest.mark.parametrize("more", [0, 1, 40])
def test_versions_and_staleness_of_a_full_pipeline(p: int, more: int) -> None:
    """public question D34, PipeDream section 3.3: p, …, 1 versions and p-1, …, 0 updates; p and p-1 with vertical sync.

    From 2p - 2 minibatches on: only then minibatch 2p - 3 starts between the backwards of p - 3 and p - 2, and the p
    versions 0 … p-2 and the current one exist at once on the first stage.
    """
    m = max(2 * p - 2, 1) + more
    assert figures(pipedream(p, m)) == (list(range(p, 0, -1)), list(range(p - 1, -1, -1)))
    assert figures(pipedream(p, m, vertical_sync=True)) == ([p] * p, [p - 1] * p)


def test_a_short_stream_sees_fewer() -> None:
    """p=4, 5 minibatches. Stage 0 runs F0-F3, B0, F4, B1-B4: versions 0, 1 and a current one; B3 lags by 3 updates."""
    assert figures(pipedream(4, 5)) == ([3, 3, 2, 1], [3, 2, 1, 0])


def test_a_flush_leaves_one_version() -> None:
    """public question D34: under a flush nothing is stale."""
    assert figures(simulated("1f1b", {"ranks": 4, "microbatches": 8})) == ([1] * 4, [0] * 4)


def test_a_measured_run_does_not_know_its_versions() -> None:
    run = simulated("1f1b", {"ranks": 2, "microbatches": 2})
    rows = metrics.rows(Run(run.plan, run.timeline), "rank")
    assert rows is not None
    assert [(row["weight_versions"], row["staleness"]) for row in rows] == [(None, None)] * 2


def test_stash_holds_one_version_less() -> None:
    """10 MB of weights a stage: 3, 2, 1, 0 versions beside the current one, which counts as weights."""
    run = pipedream(4, 20, costs={"weights": "10 MB"})
    held = run.plan.holdings
    stash = held.category == Category.STASH
    assert set(held.bytes[stash].tolist()) == {10_000_000}
    by_rank = [int(memory.peak_by_category(run)[Category.STASH, rank]) for rank in range(4)]
    assert by_rank == [30_000_000, 20_000_000, 10_000_000, 0]
    assert run.plan.static[Category.WEIGHTS].tolist() == [10_000_000] * 4


def by_the_clock(run: Run, vertical_sync: bool) -> tuple[list[int], list[int]]:
    """The figures read off the times of forwards and backwards, with one copy of each stage and ops that take time.

    A minibatch uses the number of updates that its stage (with vertical sync the first stage) has done when its forward
    there starts; it needs that version until its backward ends; a version is current until the next update.
    """
    plan, timeline = run.plan, run.timeline
    spans = {
        (int(plan.ops.kind[i]), int(plan.ops.stage[i]), int(plan.ops.microbatch[i])): (
            int(timeline.start[i]),
            int(timeline.end[i]),
        )
        for i in range(len(plan.ops))
    }
    stages = plan.placement.stages
    minibatches = range(1 + max(k for _, _, k in spans))
    updates = [sorted(spans[Kind.B, s, k][1] for k in minibatches) for s in range(stages)]

    def applied(stage: int, when: int) -> int:
        return sum(update <= when for update in updates[stage])

    versions, stale = [], []
    for stage in range(stages):
        source = 0 if vertical_sync else stage
        used = [applied(source, spans[Kind.F, source, k][0]) for k in minibatches]
        done = [spans[Kind.B, stage, k][1] for k in minibatches]
        made = [0, *updates[stage]]
        moments = sorted({0, *made})
        most = 0
        for now in moments:
            needed = {v for v, end in zip(used, done, strict=True) if made[v] <= now < end}
            most = max(most, len(needed | {applied(stage, now)}))
        versions.append(most)
        stale.append(max(applied(stage, spans[Kind.B, stage, k][0]) - used[k] for k in minibatches))
    return versions, stale


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_figures_equal_a_count_by_the_clock(data: st.DataObject) -> None:
    p = data.draw(st.integers(1, 5))
    vertical_sync = data.draw(st.booleans())
    times = st.lists(st.integers(1, 9), min_size=p, max_size=p)
    costs = {key: [f"{t} ms" for t in data.draw(times)] for key in ("forward", "backward")}
    cluster = {"inter_node": {"latency": f"{data.draw(st.integers(0, 4))} ms"}}
    run = pipedream(p, data.draw(st.integers(1, 16)), vertical_sync, costs=costs, cluster=cluster)
    assert figures(run) == by_the_clock(run, vertical_sync)


def test_versions_of_copies_count_rounds() -> None:
    """Stage 0 on 3 ranks with 2 rounds in flight: 2 versions, 1 update behind; stage 1 alone: 1 and 0.

    With vertical sync stage 1 lags by what it learns in the two rounds in flight: the backward of a round's last
    minibatch comes after 5 more updates than stage 0 knew when it entered.
    """
    settings: dict[str, Any] = {"costs": {"forward": ["3 ms", "1 ms"], "backward": ["6 ms", "2 ms"]}}
    pipeline = {"ranks": 4, "microbatches": 60}
    plain = simulated({"name": "pipedream", "replicas": [3, 1]}, pipeline, **settings)
    assert figures(plain) == ([2, 2, 2, 1], [1, 1, 1, 0])
    synced = simulated({"name": "pipedream", "replicas": [3, 1], "vertical_sync": True}, pipeline, **settings)
    assert figures(synced)[1] == [1, 1, 1, 5]


def test_rows_without_length_count_by_their_order() -> None:
    """All ops take no time: the updates that a backward lags behind are still those listed before it."""
    run = pipedream(4, 20, costs={"forward": "0 s", "backward": "0 s"})
    stale = staleness.staleness(run)
    assert np.array_equal(stale if stale is not None else [], [3, 2, 1, 0])
