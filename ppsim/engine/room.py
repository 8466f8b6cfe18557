"""What the compiled loops keep track of while they run: arrays that are made before, for them to fill.

To compile what numpy does takes Numba as long as a loop of ours. Importing this module needs Numba.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ppsim._jit import compiled
from ppsim.engine.columns import Lanes, Unsigned, Work
from ppsim.ops import NONE, Flags, Ints, Longs


class Ranks(NamedTuple):
    """For each rank the row that it is at, the next of its needs to look at and the latest one before that.

    What it waits for, the last that waits for it, and the one before it that waits for the same. Of these columns the
    last place is for transfers that no op asks for. Ranks that may run; and transfers to look at before others.
    """

    at: Longs
    seen: Longs
    latest: Longs
    awaited: Longs
    waiter: Longs
    next_waiter: Longs
    runnable: Longs
    stack: Longs

    @classmethod
    def of(cls, work: Work) -> Ranks:
        """Every rank at its first row; all may run."""
        ranks, at = len(work.offsets) - 1, work.offsets.copy()
        seen = np.zeros_like(at)
        seen[:-1] = work.ptr[at[:-1]]
        latest, awaited = np.zeros((2, ranks + 1), np.int64)
        waiter, next_waiter = np.full((2, ranks + 1), NONE, np.int64)
        stack = np.empty(len(work.route) + 1, np.int64)
        return cls(at, seen, latest, awaited, waiter, next_waiter, np.arange(ranks)[::-1].copy(), stack)


class Instant(NamedTuple):
    """What waits for each event e, ``waiting[first[e]:first[e + 1]]``; the row that each rank is at, and if it is busy.

    What will end, leave or arrive, a heap of (time, event); things whose needs are all met, to be looked at now.
    """

    first: Unsigned
    waiting: Unsigned
    at: Longs
    busy: Flags
    heap: Longs
    met: Unsigned

    @classmethod
    def of(cls, work: Work) -> Instant:
        """Every rank before its first row."""
        things, ranks, t = len(work.ptr) - 1, len(work.offsets) - 1, len(work.route)
        first, waiting = np.zeros(things + 2 * t + 1, np.uint32), np.empty(len(work.event), np.uint32)
        waiting_for(work.ptr, work.event, first, waiting)
        heap, met = np.empty((ranks + t, 2), np.int64), np.empty(things + ranks, np.uint32)
        return cls(first, waiting, work.offsets[:-1].copy(), np.zeros(ranks, np.bool_), heap, met)


class Queues(NamedTuple):
    """Which ports are taken; of each lane who waits first and last, of each transfer who waits before and after it.

    Lanes that may have one to start, and the first of each of those: (ready time, transfer).
    """

    taken: Flags
    head: Ints
    tail: Ints
    before: Ints
    after: Ints
    is_touched: Flags
    touched: Unsigned
    turns: Longs

    @classmethod
    def of(cls, work: Work, lanes: Lanes) -> Queues:
        """All ports are free."""
        count = len(lanes.ports)
        head, tail = np.full((2, count), NONE, np.int32)
        before, after = np.empty((2, len(work.route)), np.int32)
        taken, is_touched = np.zeros(len(lanes.at_ptr) - 1, np.bool_), np.zeros(count, np.bool_)
        touched, turns = np.empty(count, np.uint32), np.empty((count, 2), np.int64)
        return cls(taken, head, tail, before, after, is_touched, touched, turns)


class Times(NamedTuple):
    """When each thing was, and when each transfer started; ``NEVER`` what hasn't been.

    With ports, a thing is below ``NEVER`` by as many of its needs as haven't been met.
    """

    moment: Longs
    transfer_start: Longs


@compiled
def waiting_for(ptr: Unsigned, event: Unsigned, first: Unsigned, waiting: Unsigned) -> None:
    """Fill in what waits for each event e, ``waiting[first[e]:first[e + 1]]``; ``first`` is all zeros before."""
    for awaited in event:
        first[awaited] += 1
    for e in range(len(first) - 1):
        first[e + 1] += first[e]
    for thing in range(len(ptr) - 1):
        for k in range(ptr[thing], ptr[thing + 1]):
            first[event[k]] -= 1
            waiting[first[event[k]]] = thing
