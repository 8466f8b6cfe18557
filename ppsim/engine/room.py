"""What the compiled loops keep track of while they run: arrays that are made before, for them to fill.

To compile what numpy does takes Numba as long as a loop of ours. Importing this module needs Numba.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ppsim._jit import compiled
from ppsim.engine.columns import Lanes, Records, Work
from ppsim.engine.timeline import NEVER
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


QUEUES = 256
"""A power of two; more than most runs have different times that ops take, messages hold their ports, or fly."""
LINE = 64
"""Bytes that a processor fetches at once; no op and no transfer should lie in two of them."""

OP = np.dtype([("start", "i8"), ("end", "i8"), ("duration", "i8"), ("rank", "u4"), ("waiter", "i4")])
TRANSFER = np.dtype(
    [("ready", "i8"), ("start", "i8"), ("route", "u4"), ("waiter", "i4"), ("before", "i4"), ("after", "i4")]
)
PAIR = np.dtype([("when", "i8"), ("what", "i8")])
QUEUE = np.dtype([("due", "i8"), ("first", "i4"), ("last", "i4")])


class Things(NamedTuple):
    """What is known of every op and transfer, and what waits for an event.

    ``start``, ``end`` and ``ready`` are when it was; before that, below ``NEVER`` by as many needs as haven't been met.
    The ``waiter`` of an op's end, of a transfer's arrival, and, by its number, of any event is the one thing that waits
    for it, or ``~k`` where that are the ``lists[k]`` things from ``lists[k + 1]`` on; at 0 there are none.
    """

    ops: Records
    transfers: Records
    waiter: Ints
    lists: Ints
    awaited: Flags
    """Whether anything waits for an op to begin, for a transfer to start, for one to leave."""

    @classmethod
    def of(cls, work: Work) -> Things:
        """Of these sizes; nothing is filled in."""
        n, t, needs = len(work.duration), len(work.route), len(work.event)
        room = np.empty(n * OP.itemsize + t * TRANSFER.itemsize + LINE, np.uint8)
        begin = -room.__array_interface__["data"][0] % LINE
        middle, end = begin + n * OP.itemsize, begin + n * OP.itemsize + t * TRANSFER.itemsize
        waiter, lists = np.zeros(2 * n + 3 * t, np.int32), np.zeros(1 + needs + needs // 2, np.int32)
        return cls(room[begin:middle].view(OP), room[middle:end].view(TRANSFER), waiter, lists, np.zeros(3, np.bool_))


class Places(NamedTuple):
    """The row that each rank is at, if it is busy and until when, and who ends next behind it.

    Which ports are taken; of each lane who waits first and last, and whether it may have one to start.
    """

    row: Longs
    busy: Flags
    due: Longs
    behind: Ints
    taken: Flags
    head: Ints
    tail: Ints
    touched: Flags

    @classmethod
    def of(cls, work: Work, lanes: Lanes) -> Places:
        """Every rank before its first row, all ports free."""
        ranks, count = len(work.offsets) - 1, len(lanes.ports)
        busy, taken, touched = (np.zeros(size, np.bool_) for size in (ranks, len(lanes.at_ptr) - 1, count))
        head, tail = np.full((2, count), NONE, np.int32)
        due, behind = np.empty(ranks, np.int64), np.empty(ranks, np.int32)
        return cls(work.offsets[:-1].copy(), busy, due, behind, taken, head, tail, touched)


class Agenda(NamedTuple):
    """What is to be done: tell of events that have happened, put off what takes some time (how long, who), let act.

    What will end, leave or arrive waits in queues; their first ones, and what is in none, in a heap of (time, number).
    Of what takes the same time one comes after the other, so that it needs no sorting: it is appended to a queue.
    At last, the lanes that may have a transfer to start, and that (when it was ready, its number).
    """

    told: Ints
    new: Records
    met: Ints
    queues: Records
    heap: Records
    turns: Records

    @classmethod
    def of(cls, work: Work, lanes: Lanes) -> Agenda:
        """Every rank may act."""
        n, t, ranks, count = len(work.duration), len(work.route), len(work.offsets) - 1, len(lanes.ports)
        told, new = np.empty(2 * n + count + 3, np.int32), np.empty(count + 1, PAIR)
        met, queues = np.empty(2 * n + t + ranks, np.int32), np.empty(QUEUES, QUEUE)
        met[:ranks], queues["first"] = np.arange(ranks), NONE
        return cls(told, new, met, queues, np.empty(QUEUES + ranks + t + 1, PAIR), np.empty(count, PAIR))


def prepare(work: Work, things: Things, met: Ints) -> int:
    """Fill in all that is known before the run; those that can act at once are in ``met``; returns how many."""
    n, t, acts = len(things.ops), len(things.transfers), fill_in(work, things, met)
    things.ops["waiter"], things.transfers["waiter"] = things.waiter[n : 2 * n], things.waiter[2 * n + 2 * t :]
    return acts


@compiled
def fill_in(work: Work, things: Things, met: Ints) -> int:
    """All but the waiters of ops and transfers; the ranks are in ``met`` already."""
    offsets, rank_of, duration, ptr, event, route, _, _ = work
    ops, transfers, waiter, lists, awaited = things
    n, t, acts = len(ops), len(transfers), len(offsets) - 1
    for e in event:
        waiter[e] += 1
        if e < n:
            awaited[0] = True
        elif 2 * n <= e < 2 * n + 2 * t:
            awaited[1 if e < 2 * n + t else 2] = True
    size = 1 + 0 * n  # of a plain 1 Numba would work out all types a second time
    for e in range(len(waiter)):
        count = waiter[e]
        if count == 0:
            waiter[e] = NONE
        elif count > 1:
            waiter[e] = ~size
            size += 1 + count
    for thing in range(2 * n + t):
        begin, end = ptr[thing], ptr[thing + 1]
        needs = NEVER - (end - begin)
        if thing < n:
            op = ops[thing]
            op.start, op.duration, op.rank = needs, duration[thing], rank_of[thing]
        elif thing < 2 * n:
            ops[thing - n].end = needs
        else:
            transfer = transfers[thing - 2 * n]
            transfer.ready, transfer.start, transfer.route = needs, NEVER, route[thing - 2 * n]
            if needs == NEVER:
                met[acts] = len(offsets) - 1 + thing - 2 * n
                acts += 1
        for k in range(begin, end):
            place = ~waiter[event[k]]
            if place < 0:
                waiter[event[k]] = thing
            else:
                lists[place] += 1
                lists[place + lists[place]] = thing
    return acts
