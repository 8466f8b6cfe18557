"""For every event the link that ``explain`` names before it, among what a page shows."""

from __future__ import annotations

import numpy as np

from ppsim.engine.timeline import SENDS_AND_MOVES
from ppsim.metrics import Run
from ppsim.metrics.last_need import freed_by, latest
from ppsim.ops import NONE, Longs, among
from ppsim.plan import Dependencies


def links_before(run: Run, shown: Longs) -> Longs:
    """By event the last link before it that is shown, as its number; -1 where there is none.

    ``shown``: by event the number of the link that it ends, shape (events,); -1 where that is none, or isn't shown.
    The links are those of ``critical_path.walk``: ops that keep their rank busy, and transfers.
    """
    before = _before(run)
    while len(far := np.flatnonzero((before >= 0) & (shown[before] < 0))):
        before[far] = before[before[far]]
    return np.where(before >= 0, shown[before], NONE)


def numbers(run: Run, ops: Longs, transfers: Longs) -> Longs:
    """``shown`` of ``links_before``: the numbers of ops and transfers by row, -1 where one isn't shown."""
    plan, n = run.plan, len(run.plan.ops)
    head = np.arange(n) - plan.tail
    ends = np.where(among(plan.ops.kind[head], SENDS_AND_MOVES), NONE, ops[head])
    return np.concatenate([np.full(n, NONE), ends, transfers, transfers, transfers]).astype(np.int64)


def _before(run: Run) -> Longs:
    """By event the one that it came from, as ``critical_path.chain`` follows them; -1 at time 0."""
    plan, timeline = run.plan, run.timeline
    n, times, tail = len(plan.ops), timeline.times, np.flatnonzero(plan.tail)
    start, end, sent = (_last(run, needs) for needs in (plan.start_needs, plan.end_needs, plan.transfers.needs))
    row = np.arange(1, n)
    follows = (plan.ops.rank[1:] == plan.ops.rank[:-1]) & (times[n + row - 1] > _when(times, start[1:]))
    start[1:][follows] = n + row[follows] - 1
    alone = np.flatnonzero(_when(times, end) < timeline.start + plan.duration)
    end[alone] = alone
    for events in (start, end):
        events[tail] = events[tail - 1]
    holder = np.asarray(run.once(freed_by)[0]).astype(np.int64)
    sent = np.where(holder >= 0, plan.events.left(0) + holder, sent)
    return np.concatenate([start, end, sent, sent, sent])


def _last(run: Run, needs: Dependencies) -> Longs:
    return latest(run, needs.owner, needs.event, len(needs.ptr) - 1)


def _when(times: Longs, event: Longs) -> Longs:
    """The time of each event, -1 of none."""
    return np.where(event >= 0, times[event], -1)
