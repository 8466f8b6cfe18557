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
    some = offsets[1:] > offsets[:-1]
    if some.all():
        return np.add.reduceat(values, offsets[:-1])
    sums = np.zeros(len(offsets) - 1, np.int64)
    if some.any():
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


def _seconds(ns: Longs) -> list[float]:
    """Each as the nearest number of seconds."""
    return [value / PER_SECOND for value in ns.tolist()]


@metric(
    scope="run",
    unit="s",
    better="low",
    definition="end of the last op and arrival of the last transfer",
    of_work=True,
)
def makespan_s(run: Run) -> float:
    """Length of the whole run."""
    return run.timeline.makespan / PER_SECOND


@metric(scope="run", unit="1", better="low", definition="idle / (ranks x makespan)")
def bubble_ratio(run: Run) -> float:
    """Share of the device time that is lost."""
    return int(run.once(idle).sum()) / max(run.plan.ops.ranks * run.timeline.makespan, 1)


@metric(scope="run", unit="1", better="low", definition="idle / busy")
def bubble_overhead(run: Run) -> float | None:
    """Idle over busy time; None where nothing is busy."""
    work = int(run.once(busy).sum())
    return int(run.once(idle).sum()) / work if work else None


@metric(scope="run", unit="s", better="low", definition="largest over ranks of last end - first start", of_work=True)
def max_span_s(run: Run) -> float:
    """What the zero-bubble papers quote as the length of a step."""
    return int(run.once(span).max(initial=0)) / PER_SECOND


@metric(scope="rank", unit="s", definition="time of its compute ops")
def busy_s(run: Run) -> list[float]:
    """Busy time of every rank."""
    return _seconds(run.once(busy))


@metric(scope="rank", unit="s", better="low", definition="busy time that recomputes; part of busy_s")
def recompute_s(run: Run) -> list[float]:
    """Recomputation of every rank."""
    return _seconds(run.once(recompute))


@metric(scope="rank", unit="s", better="low", definition="makespan - busy time")
def idle_s(run: Run) -> list[float]:
    """Idle time of every rank."""
    return _seconds(run.once(idle))


@metric(scope="rank", unit="s", better="low", definition="end of its last compute op - start of its first")
def span_s(run: Run) -> list[float]:
    """Span of every rank."""
    return _seconds(run.once(span))


@metric(scope="rank", name="bubble_ratio", unit="1", better="low", definition="idle / makespan")
def idle_share(run: Run) -> list[float]:
    """Share of every rank's time that is lost."""
    return [ns / max(run.timeline.makespan, 1) for ns in run.once(idle).tolist()]
