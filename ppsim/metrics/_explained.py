"""What an op waited for, and from when to when for which part of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ppsim._jit import Loop
from ppsim.metrics._windows import Windows
from ppsim.metrics.base import Run
from ppsim.metrics.causes import Cause
from ppsim.metrics.last_need import ARRIVAL, Flags, Sort, Sorts, sorts
from ppsim.ops import NONE, Ints, Kinds, Longs, Numbers
from ppsim.plan import Dependencies

UNTIL_READY = np.full(len(Sort), Cause.UPSTREAM, np.int64)
"""By the sort of the last need: what the wait is, for a message until that is ready."""
UNTIL_READY[[Sort.MOVE, Sort.SYNC]] = Cause.MEMORY, Cause.SYNC
CAUSES_OF_PARTS = np.array([Cause.BLOCKED, Cause.UPSTREAM, Cause.QUEUE, Cause.TRANSFER], np.int64)
"""By the part of a wait; the second one's is that of ``UNTIL_READY``."""
_LEFT, _OP, _MESSAGE = int(Sort.LEFT), int(Sort.OP), int(Sort.BACKWARD)
_BLOCKED, _QUEUE, _TRANSFER = int(Cause.BLOCKED), int(Cause.QUEUE), int(Cause.TRANSFER)
_COLUMNS = 9
"""Of a wait: its five marks, then what else ``Waits`` has."""


class Waits(NamedTuple):
    """Waits of ops ``row``, each from ``marks[0]`` to ``marks[4]`` ns, in four parts, some of them of no length.

    While a message of the rank's own holds it; until what it needs is ready (``Cause`` ``until_ready``); until that
    takes its ports; until it arrives. ``last`` is the event that came last, ``held`` the one at which the rank's own
    message let go of it (-1: none).
    """

    marks: Longs
    row: Longs
    until_ready: Longs
    last: Longs
    held: Longs


class Explained(NamedTuple):
    """All waits of one sort, and their ns per window and ``Cause``, without those in its fill and drain."""

    waits: Waits
    by_window: Longs


class Spans(NamedTuple):
    """When each op waits, if at all: from ``since`` to ``until``, for what the dependencies say."""

    since: Longs
    until: Longs


class _Graph(NamedTuple):
    """What waits are for: events, of which transfers, who sends those to whom, and when all that was; what follows."""

    ptr: Ints
    event: Ints
    rank: Ints
    kind: Kinds
    producer: Ints
    src: Ints
    times: Longs
    ready: Longs
    arrival: Sorts
    until_ready: Longs


class _Places(NamedTuple):
    """The window of each wait, and from when to when each works."""

    window: Numbers
    begins: Longs
    ends: Longs


def explained(run: Run, spans: Spans, dependencies: Dependencies, windows: Windows) -> Explained:
    """The waits of rows, when what they depend on was there."""
    plan, timeline = run.plan, run.timeline
    rank, window, src = plan.ops.rank, windows.of_all(run), plan.routes.src[plan.transfers.route]
    second = _second_batches(run)
    if apart := len(second) > 0:
        spans, dependencies, rows = _one_batch_each(run, spans, dependencies, second)
        rank, window = rank[rows], window[rows]
    graph = _Graph(
        dependencies.ptr, dependencies.event, rank, plan.ops.kind, plan.transfers.producer, src, timeline.times,
        timeline.ready, ARRIVAL, UNTIL_READY,
    )  # fmt: skip
    columns = np.empty((_COLUMNS, np.count_nonzero(spans.until > spans.since)), np.int64)
    by_window = np.zeros((len(windows.rank), len(Cause)), np.int64)
    places = _Places(window, windows.begins, windows.ends)
    _explain.run(run.compiled)(spans, graph, places, columns, by_window)
    if apart:
        columns[5] = rows[columns[5]]
    return Explained(Waits(columns[:5], *columns[5:]), by_window)


def transfer_of(run: Run, event: Longs) -> Longs:
    """The transfer of each event, -1 for an op's and for none."""
    ops = 2 * len(run.plan.ops)
    return np.where(event >= ops, (event - ops) % max(len(run.plan.transfers), 1), NONE)


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


def _one_batch_each(
    run: Run, spans: Spans, dependencies: Dependencies, second: Flags
) -> tuple[Spans, Dependencies, Longs]:
    """Waits for two batches as two: until the first is over, and behind all others, for the second. And their rows."""
    plan, owner, event = run.plan, dependencies.owner.astype(np.int64), dependencies.event
    message = event - 2 * (len(plan.ops) + len(plan.transfers))
    later = np.flatnonzero(message >= 0)
    later = later[second[message[later]]]
    sender = plan.routes.src[plan.transfers.route[message[later]]]
    later = later[sender != plan.ops.rank[owner[later]]]
    both, place = np.unique(owner[later], return_inverse=True)
    sooner = np.ones(len(owner), bool)
    sooner[later] = False
    over = spans.since.copy()
    np.maximum.at(over, owner[sooner], run.timeline.times[event[sooner]])
    over = np.minimum(over, spans.until)[both]
    until = spans.until.copy()
    until[both] = over
    owner[later] = len(plan.ops) + place
    count = np.bincount(owner, minlength=len(plan.ops) + len(both))
    ptr = np.concatenate([[0], np.cumsum(count)]).astype(dependencies.ptr.dtype)
    return (
        Spans(np.concatenate([spans.since, over]), np.concatenate([until, spans.until[both]])),
        Dependencies(ptr, event[np.argsort(owner, kind="stable")]),
        np.concatenate([np.arange(len(plan.ops)), both]),
    )


@Loop
def _explain(spans: Spans, graph: _Graph, places: _Places, found: Longs, by_window: Longs) -> None:
    """Fill in a column of ``found`` for each wait, and what they add up to.

    As in ``latest``: of needs met at the same instant the higher Sort explains the wait, then the one listed first.
    """
    since, until = spans
    ptr, events, rank, kind, producer, src, times, ready, arrival, until_ready = graph
    window, begins, ends = places
    n, t = len(kind), len(producer)
    count, none = 0 * n, 0 * n - 1  # of plain numbers Numba would work out all types a second time
    for row in range(len(since)):
        begin, end = since[row], until[row]
        if end <= begin:
            continue
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
            if times[event] > when or (times[event] == when and sort > best):
                last, when, best = event, times[event], sort
            if mine >= 0 and times[mine] > held:
                own, held = mine, times[mine]
        free, sent, starts = max(begin, min(held, end)), end, end
        if best >= _MESSAGE:
            j = last - 2 * (n + t)
            sent = max(free, min(ready[j], end))
            starts = max(sent, min(times[2 * n + j], end))
        cause, place = until_ready[best], window[row]
        found[0, count], found[1, count], found[2, count], found[3, count] = begin, free, sent, starts
        found[4, count], found[5, count], found[6, count], found[7, count] = end, row, cause, last
        found[8, count] = own
        count += 1
        if end > begins[place] and begin < ends[place]:
            by_window[place, _BLOCKED] += free - begin
            by_window[place, cause] += sent - free
            by_window[place, _QUEUE] += starts - sent
            by_window[place, _TRANSFER] += end - starts
