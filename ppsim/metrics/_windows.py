"""What fill and drain are counted in: the time from barrier to barrier, else the whole run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ppsim.metrics.base import Run
from ppsim.ops import COMMUNICATION, MOVES, NONE, Kind, Longs, Numbers

_NEVER_FIRST = (*COMMUNICATION, *MOVES, Kind.UNSHARD, Kind.RESHARD)
_COUNTS = np.ones(len(Kind), bool)
"""Kinds that can be a rank's first or last op."""
_COUNTS[list(_NEVER_FIRST)] = False


@dataclass(frozen=True, eq=False)
class Windows:
    """What fill and drain are counted in: per rank from barrier to barrier, else the run; number rank * steps + step.

    ``rows[w]:rows[w + 1]`` are a window's rows, ``first`` and ``last`` its ops that count (-1: none), and it works from
    ``begins``, the start of the first, to ``ends``, the end of the last.
    """

    rank: Longs
    rows: Longs
    start: Longs
    end: Longs
    first: Longs
    last: Longs
    begins: Longs
    ends: Longs

    @classmethod
    def of(cls, run: Run) -> Windows:
        plan, timeline = run.plan, run.timeline
        steps = plan.steps if plan.barrier and not plan.asynchronous else 1
        rows, start, end = (
            plan.ops.offsets,
            np.zeros(plan.ops.ranks, np.int64),
            np.full(plan.ops.ranks, timeline.makespan),
        )
        if steps > 1:
            number = plan.ops.rank.astype(np.int64) * steps + plan.ops.step
            rows = np.searchsorted(number, np.arange(plan.ops.ranks * steps + 1))
            last = np.append(timeline.end, 0)[np.where(rows[1:] > rows[:-1], rows[1:] - 1, -1)]
            over = np.append(last.reshape(plan.ops.ranks, steps).max(axis=0)[:-1], timeline.makespan)
            start, end = np.tile(np.append(0, over[:-1]), plan.ops.ranks), np.tile(over, plan.ops.ranks)
        if not plan.ops.index.has(*_NEVER_FIRST):
            some, first, last = rows[1:] > rows[:-1], rows[:-1], rows[1:] - 1
            if some.all():
                begins, ends = timeline.start[first], timeline.end[last]
                return cls(np.repeat(np.arange(plan.ops.ranks), steps), rows, start, end, first, last, begins, ends)
            first, last = np.where(some, first, NONE), np.where(some, last, NONE)
        else:
            counting = np.flatnonzero(_COUNTS[plan.ops.kind])
            place = np.searchsorted(counting, rows)
            some = place[1:] > place[:-1]
            counting = np.append(counting, NONE)
            first, last = np.where(some, counting[place[:-1]], NONE), np.where(some, counting[place[1:] - 1], NONE)
        begins = np.where(some, timeline.start[first], end)
        ends = np.where(some, timeline.end[last], end)
        return cls(np.repeat(np.arange(plan.ops.ranks), steps), rows, start, end, first, last, begins, ends)

    def of_all(self, run: Run) -> Numbers:
        """The window of every row."""
        ops, steps = run.plan.ops, len(self.rank) // max(run.plan.ops.ranks, 1)
        return ops.rank if steps == 1 else ops.rank.astype(np.int64) * steps + ops.step


def windows(run: Run) -> Windows:
    """Those of a run."""
    return Windows.of(run)
