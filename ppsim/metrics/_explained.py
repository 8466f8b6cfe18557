"""What an op waited for, and from when to when for which part of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ppsim.metrics._windows import Windows
from ppsim.metrics.base import Run
from ppsim.metrics.causes import Cause
from ppsim.metrics.last_need import Sort, Sorts, latest, latest_place, sorts
from ppsim.ops import NONE, Flags, Ints, Longs
from ppsim.plan import Dependencies

UNTIL_READY = np.full(len(Sort), Cause.UPSTREAM, np.int64)
"""By the sort of the last need: what the wait is, for a message until that is ready."""
UNTIL_READY[[Sort.MOVE, Sort.SYNC]] = Cause.MEMORY, Cause.SYNC
CAUSES_OF_PARTS = np.array([Cause.BLOCKED, Cause.UPSTREAM, Cause.QUEUE, Cause.TRANSFER], np.int64)
"""By the part of a wait; the second one's is that of ``UNTIL_READY``."""


@dataclass(frozen=True, eq=False)
class Waits:
    """Waits of ops ``row``, each from ``marks[0]`` to ``marks[4]`` ns, in four parts, some of them of no length.

    While a message of the rank's own holds it; until what it needs is ready (``Cause`` ``until_ready``); until that
    takes its ports; until it arrives. ``last`` is the event that came last, ``transfer`` it carries, ``own_transfer``
    the one that held the rank (-1: none).
    """

    row: Longs
    marks: Longs
    until_ready: Longs
    last: Longs
    transfer: Longs
    own_transfer: Longs

    def inside(self, run: Run, windows: Windows) -> tuple[Flags, Longs]:
        """Whether each is neither fill nor drain, and its window."""
        window = windows.of_rows(run, self.row)
        return (self.marks[4] > windows.begins[window]) & (self.marks[0] < windows.ends[window]), window


@dataclass(frozen=True, eq=False)
class Spans:
    """When ops wait: ``row`` from ``since`` to ``until``."""

    row: Longs
    since: Longs
    until: Longs


@dataclass(frozen=True, eq=False)
class _Needs:
    """What waits need: wait ``owner`` the ``event``, of that ``Sort``."""

    owner: Longs
    event: Ints
    sort: Sorts


def explained(run: Run, spans: Spans, dependencies: Dependencies) -> Waits:
    """The waits of rows, when what they depend on was there."""
    plan, timeline = run.plan, run.timeline
    needs = _needs_of(run, dependencies, spans.row)
    own = _own(run, spans, needs)
    if np.any(own):
        spans, needs = _batches(run, spans, needs, own)
    holds = np.flatnonzero(own | (needs.sort == Sort.LEFT))
    held_until = plan.events.left(transfer_of(run, needs.event[holds]))
    starts = needs.event[holds] < plan.events.left(0)
    held_until[starts] = needs.event[holds][starts]
    left = latest(run, needs.owner[holds], held_until, len(spans.row))
    place = latest_place(run, needs.owner, needs.event, needs.sort, len(spans.row))
    last, sort = np.append(needs.event, NONE)[place], np.append(needs.sort, np.int8(Sort.OTHER))[place]

    transfer = transfer_of(run, last)
    free, ready, started = spans.since.copy(), spans.until.copy(), spans.until.copy()
    held, message = np.flatnonzero(left >= 0), np.flatnonzero(sort >= Sort.BACKWARD)
    free[held] = _between(timeline.times[left[held]], spans.since[held], spans.until[held])
    carried, until = transfer[message], spans.until[message]
    ready[message] = _between(timeline.ready[carried], free[message], until)
    started[message] = _between(timeline.transfer_start[carried], ready[message], until)
    marks = np.array([spans.since, free, ready, started, spans.until])
    return Waits(spans.row, marks, UNTIL_READY[sort], last, transfer, transfer_of(run, left))


def _between(times: Longs, low: Longs, high: Longs) -> Longs:
    """As np.clip, which takes five times as long on short columns."""
    return np.minimum(np.maximum(times, low), high)


def transfer_of(run: Run, event: Longs | Ints) -> Longs:
    """The transfer of each event, -1 for an op's and for none."""
    ops, transfers = 2 * len(run.plan.ops), len(run.plan.transfers)
    out = np.full(len(event), NONE, np.int64)
    some = np.flatnonzero(event >= ops)
    number = event[some].astype(np.int64) - ops
    for _ in range(2):  # it starts, leaves, arrives; a remainder takes five times as long
        number -= np.where(number >= transfers, transfers, 0)
    out[some] = number
    return out


def _needs_of(run: Run, dependencies: Dependencies, things: Longs) -> _Needs:
    """All that these things need."""
    counts = dependencies.ptr[things + 1] - dependencies.ptr[things]
    first = dependencies.ptr[things] - np.cumsum(counts) + counts
    event = dependencies.event[np.arange(counts.sum()) + np.repeat(first, counts)]
    return _Needs(np.repeat(np.arange(len(things)), counts), event, sorts(run, event))


def _own(run: Run, spans: Spans, needs: _Needs) -> Flags:
    """Which needs are arrivals of the rank's own messages, which hold it in a fused batch."""
    plan, own = run.plan, np.zeros(len(needs.event), bool)
    message = np.flatnonzero(needs.sort >= Sort.BACKWARD)
    route = plan.transfers.route[needs.event[message] - plan.events.arrive(0)]
    own[message] = plan.routes.src[route] == plan.ops.rank[spans.row[needs.owner[message]]]
    return own


def _batches(run: Run, spans: Spans, needs: _Needs, own: Flags) -> tuple[Spans, _Needs]:
    """Waits for two batches, one after the other, as two waits.

    A message of a second batch is one received that itself waits for the arrival of the first batch's messages.
    """
    plan, sends = run.plan, run.plan.transfers.needs
    second_batch = np.zeros(plan.events.count, bool)
    second_batch[plan.events.arrive(sends.owner[sorts(run, sends.event) >= Sort.BACKWARD])] = True
    second = (needs.sort >= Sort.BACKWARD) & ~own & second_batch[needs.event]
    if not np.any(second):
        return spans, needs
    both = np.unique(needs.owner[second])
    over = spans.since.copy()
    np.maximum.at(over, needs.owner[~second], run.timeline.times[needs.event[~second]])
    over = np.minimum(over, spans.until)[both]
    until_first = spans.until.copy()
    until_first[both] = over
    owner = np.where(second, len(spans.row) + np.searchsorted(both, needs.owner), needs.owner)
    apart = Spans(
        np.concatenate([spans.row, spans.row[both]]),
        np.concatenate([spans.since, over]),
        np.concatenate([until_first, spans.until[both]]),
    )
    return apart, _Needs(owner, needs.event, needs.sort)
