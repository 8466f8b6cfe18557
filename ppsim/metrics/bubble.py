"""Busy and idle time: the bubble by both of its definitions, and by span."""

from __future__ import annotations

import numpy as np

from ppsim.engine.timeline import PER_SECOND, SENDS_AND_MOVES
from ppsim.metrics.base import Run, metric
from ppsim.ops import Kind, Longs, among


def busy(run: Run) -> Longs:
    """Busy ns per rank: the time of its compute ops; sends, receives and moves are never busy."""
    plan = run.plan
    length = run.timeline.end - run.timeline.start
    if plan.ops.index.has(*SENDS_AND_MOVES):
        length[among(plan.ops.kind, SENDS_AND_MOVES)] = 0
    if plan.atomic:
        length[plan.tail] = 0
    return per_rank(length, plan.ops.offsets)


def per_rank(values: Longs, offsets: Longs) -> Longs:
    """Sums of a column over each rank's rows."""
    sums = np.zeros(len(offsets) - 1, np.int64)
    some = offsets[1:] > offsets[:-1]
    if np.any(some):
        sums[some] = np.add.reduceat(values, offsets[:-1][some])
    return sums


def recompute(run: Run) -> Longs:
    """Busy ns per rank that went into recomputation."""
    plan, timeline = run.plan, run.timeline
    out = np.zeros(plan.ops.ranks, np.int64)
    if not plan.ops.index.has(Kind.R):
        return out
    rows = np.flatnonzero(plan.ops.kind == Kind.R)
    np.add.at(out, plan.ops.rank[rows], timeline.end[rows] - timeline.start[rows])
    return out


def span(run: Run) -> Longs:
    """Ns per rank from the start of its first compute op to the end of its last; 0 where it has none."""
    plan, timeline = run.plan, run.timeline
    out = np.zeros(plan.ops.ranks, np.int64)
    if not plan.ops.index.has(*SENDS_AND_MOVES):
        some = plan.ops.offsets[1:] > plan.ops.offsets[:-1]
        out[some] = timeline.end[plan.ops.offsets[1:][some] - 1] - timeline.start[plan.ops.offsets[:-1][some]]
        return out
    computes = np.flatnonzero(~among(plan.ops.kind, SENDS_AND_MOVES))
    bounds = np.searchsorted(computes, plan.ops.offsets)
    for rank in range(plan.ops.ranks):
        mine = computes[bounds[rank] : bounds[rank + 1]]
        if len(mine):
            out[rank] = timeline.end[mine[-1]] - timeline.start[mine[0]]
    return out


def idle(run: Run) -> Longs:
    """Idle ns per rank: the makespan less its busy time."""
    return run.timeline.makespan - run.once(busy)


@metric("makespan_s", unit="s", definition="end of the last op and arrival of the last transfer")
def makespan_s(run: Run) -> float:
    """Length of the whole run."""
    return run.timeline.makespan / PER_SECOND


@metric("bubble_ratio", unit="1", definition="idle / (ranks x makespan)")
def bubble_ratio(run: Run) -> float:
    """Share of the device time that is lost."""
    return int(run.once(idle).sum()) / max(run.plan.ops.ranks * run.timeline.makespan, 1)


@metric("bubble_overhead", unit="1", definition="idle / busy")
def bubble_overhead(run: Run) -> float | None:
    """Idle over busy time; None where nothing is busy."""
    work = int(run.once(busy).sum())
    return int(run.once(idle).sum()) / work if work else None


@metric("max_span_s", unit="s", definition="largest over ranks of last end - first start")
def max_span_s(run: Run) -> float:
    """What the zero-bubble papers quote as the length of a step."""
    return int(run.once(span).max(initial=0)) / PER_SECOND
