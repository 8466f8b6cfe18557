"""What an op waited for, and from when to when for which part of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ppsim._jit import Loop
from ppsim.metrics._windows import Windows
from ppsim.metrics.base import Run
from ppsim.metrics.causes import Cause
from ppsim.metrics.last_need import ARRIVAL, Flags, Sort, Sorts, sorts
from ppsim.ops import Ints, Kinds, Longs, Numbers
from ppsim.plan import Dependencies

UNTIL_READY = np.full(len(Sort), Cause.UPSTREAM, np.int64)
"""By the sort of the last need: what the wait is, for a message until that is ready."""
UNTIL_READY[[Sort.MOVE, Sort.SYNC]] = Cause.MEMORY, Cause.SYNC
CAUSES_OF_PARTS = np.array([Cause.BLOCKED, Cause.UPSTREAM, Cause.QUEUE, Cause.TRANSFER], np.int64)
"""By the part of a wait; the second one's is that of ``UNTIL_READY``."""
_LEFT, _OP, _MESSAGE = int(Sort.LEFT), int(Sort.OP), int(Sort.BACKWARD)
_BLOCKED, _QUEUE, _TRANSFER = int(Cause.BLOCKED), int(Cause.QUEUE), int(Cause.TRANSFER)
_COLUMNS = 10
"""Of a wait: its five marks, then what else ``Waits`` has."""


class Waits(NamedTuple):
    """Waits of ops ``row``, each from ``marks[0]`` to ``marks[4]`` ns, in four parts, some of them of no length.

    While a message of the rank's own holds it; until what it needs is ready (``Cause`` ``until_ready``); until that
    takes its ports; until it arrives. ``last`` is the event that came last, ``transfer`` it carries, ``own_transfer``
    the one that held the rank (-1: none).
    """

    marks: Longs
    row: Longs
    until_ready: Longs
    last: Longs
    transfer: Longs
    own_transfer: Longs


class Explained(NamedTuple):
    """All waits of one sort, and their ns per window and ``Cause``, without those in its fill and drain."""

    waits: Waits
    by_window: Longs


class Spans(NamedTuple):
    """When each op waits, if at all: from ``since`` to ``until``, for what the dependencies say."""

    since: Longs
    until: Longs


class _Graph(NamedTuple):
    """What ops wait for: events, of which transfers (those ``second``, if any), and when all that was; what follows."""

    ptr: Ints
    event: Ints
    rank: Ints
    kind: Kinds
    producer: Ints
    src: Ints
    second: Flags
    times: Longs
    ready: Longs
    arrival: Sorts
    until_ready: Longs


class _Places(NamedTuple):
    """The window of each row, and from when to when each works."""

    window: Numbers
    begins: Longs
    ends: Longs


def explained(run: Run, spans: Spans, dependencies: Dependencies, windows: Windows) -> Explained:
    """The waits of rows, when what they depend on was there."""
    plan, timeline = run.plan, run.timeline
    src, second = plan.routes.src[plan.transfers.route], _second_batches(run)
    graph = _Graph(
        dependencies.ptr, dependencies.event, plan.ops.rank, plan.ops.kind, plan.transfers.producer, src, second,
        timeline.times, timeline.ready, ARRIVAL, UNTIL_READY,
    )  # fmt: skip
    room = int(np.count_nonzero(spans.until > spans.since)) * (2 if len(second) else 1)
    columns, by_window = np.empty((_COLUMNS, room), np.int64), np.zeros((len(windows.rank), len(Cause)), np.int64)
    places = _Places(windows.of_all(run), windows.begins, windows.ends)
    count = _explain.run(run.compiled)(spans, graph, places, columns, by_window)
    return Explained(Waits(columns[:5, :count], *columns[5:, :count]), by_window)


def _second_batches(run: Run) -> Flags:
    """Which transfers are in the second of two batches, one after the other; empty where none is.

    They wait for the arrival of the first batch's messages; no other message waits for another's arrival.
    """
    plan, sends = run.plan, run.plan.transfers.needs
    arrivals = np.flatnonzero(sends.event >= 2 * (len(plan.ops) + len(plan.transfers)))
    if len(arrivals):
        arrivals = arrivals[sorts(run, sends.event[arrivals]) >= Sort.BACKWARD]
    found = np.zeros(len(plan.transfers) if len(arrivals) else 0, bool)
    if len(arrivals):
        found[sends.owner[arrivals]] = True
    return found


@Loop
def _explain(spans: Spans, graph: _Graph, places: _Places, found: Longs, by_window: Longs) -> int:
    """Fill in a column of ``found`` for each wait, and what they add up to; returns how many there are.

    A wait for two batches, one after the other, is two waits: until the first is over, and for the second.
    """
    since, until = spans
    ptr, events, rank, kind, producer, src, second, times, ready, arrival, until_ready = graph
    window, begins, ends = places
    n, t = len(rank), len(producer)
    count, zero, none = 0 * n, 0 * n, 0 * n - 1  # of plain numbers Numba would work out all types a second time
    for row in range(n):
        if until[row] <= since[row]:
            continue
        begin, half = since[row], zero
        while half < 2:
            end, halves = until[row], zero + 1
            if len(second):
                over = begin
                for k in range(ptr[row], ptr[row + 1]):
                    j = events[k] - 2 * (n + t)
                    if j >= 0 and second[j] and src[j] != rank[row]:
                        halves = 2
                    else:
                        over = max(over, times[events[k]])
                if halves == 2 and half == 0:
                    end = min(over, end)
            last = when = best = own = held = none
            for k in range(ptr[row], ptr[row + 1]):
                event, sort, mine = events[k], 0, -1
                j = event - 2 * (n + t)
                if j >= 0:
                    sort = arrival[kind[producer[j]]]
                    if sort >= _MESSAGE and src[j] == rank[row]:
                        mine = event - t
                elif event >= 2 * n:
                    sort, mine = _LEFT, event
                elif event >= n:
                    sort = _OP
                if halves == 2 and (j >= 0 and second[j] and mine < 0) != (half == 1):
                    continue
                if times[event] > when or (times[event] == when and sort > best):
                    last, when, best = event, times[event], sort
                if mine >= 0 and times[mine] > held:
                    own, held = mine, times[mine]
            transfer = (last - 2 * n) % t if last >= 2 * n else -1
            free, sent, starts = max(begin, min(held, end)), end, end
            if best >= _MESSAGE:
                sent = max(free, min(ready[transfer], end))
                starts = max(sent, min(times[2 * n + transfer], end))
            cause, place = until_ready[best], window[row]
            found[0, count], found[1, count], found[2, count], found[3, count] = begin, free, sent, starts
            found[4, count], found[5, count], found[6, count], found[7, count] = end, row, cause, last
            found[8, count], found[9, count] = transfer, (own - 2 * n) % t if own >= 0 else -1
            if end > begins[place] and begin < ends[place]:
                by_window[place, _BLOCKED] += free - begin
                by_window[place, cause] += sent - free
                by_window[place, _QUEUE] += starts - sent
                by_window[place, _TRANSFER] += end - starts
            begin, half, count = end, half + 3 - halves, count + 1
    return count
