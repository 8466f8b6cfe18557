"""Why each rank is idle: every idle nanosecond of every rank has one immediate cause.

An op's wait is explained by the input that arrives last. The wait for a message is ``upstream`` until that is ready
(its producer has ended; its SEND, or its batch, has been reached), ``queue`` until it takes its ports, ``transfer``
until it arrives. While a message of the rank's own has not left, where that holds the rank, it is ``blocked`` before
all that. Between barriers, else over the whole run, the time before a rank's first op is ``fill``, after its last one
``drain``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ppsim.engine.timeline import PER_SECOND, SENDS_AND_MOVES
from ppsim.metrics.base import Run, metric
from ppsim.metrics.last_need import Sort, freed_by, latest, sorts
from ppsim.ops import COMMUNICATION, MOVES, NONE, Kind, Longs
from ppsim.plan import Dependencies

Flags = NDArray[np.bool_]


class Cause(IntEnum):
    """Why a rank is idle; the names in lower case are the keys of ``waits_s``."""

    FILL = 0
    DRAIN = 1
    UPSTREAM = 2
    TRANSFER = 3
    QUEUE = 4
    BLOCKED = 5
    MEMORY = 6
    SYNC = 7


CAUSES = tuple(cause.name.lower() for cause in Cause)

_UNTIL_READY = np.full(len(Sort), Cause.UPSTREAM, np.int64)
"""By the sort of the last need: what the wait is, for a message until that is ready."""
_UNTIL_READY[[Sort.MOVE, Sort.SYNC]] = Cause.MEMORY, Cause.SYNC

_CAUSES_OF_PARTS = np.array([Cause.BLOCKED, Cause.UPSTREAM, Cause.QUEUE, Cause.TRANSFER], np.int64)
"""By the part of a wait; the second one's is that of ``_UNTIL_READY``."""

_NEVER_FIRST = (*COMMUNICATION, *MOVES, Kind.UNSHARD, Kind.RESHARD)
_COUNTS = np.ones(len(Kind), bool)
"""Kinds that can be a rank's first or last op."""
_COUNTS[list(_NEVER_FIRST)] = False
_IDLE = np.zeros(len(Kind), bool)
"""Kinds whose own time is a wait."""
_IDLE[list(SENDS_AND_MOVES)] = True


@dataclass(frozen=True, eq=False)
class Segments:
    """Idle spans: their rank, start and end in ns, ``Cause``, and who waits for whom.

    ``row`` is the op that waits (-1: none, after the last one). What it waits for is the op ``blocker`` (-1: none) and,
    where that is a message, a move or a bucket, the ``transfer`` (else -1).
    """

    rank: Longs
    start: Longs
    end: Longs
    cause: Longs
    row: Longs
    blocker: Longs
    transfer: Longs

    def __len__(self) -> int:
        return len(self.rank)

    def __getitem__(self, key: NDArray[np.generic]) -> Segments:
        return Segments(*(getattr(self, column.name)[key] for column in fields(self)))

    @property
    def length(self) -> Longs:
        """Ns of each."""
        return self.end - self.start

    @classmethod
    def join(cls, *parts: Segments) -> Segments:
        """All of them, without the empty ones, by rank and start."""
        lasting = [part[np.flatnonzero(part.end > part.start)] for part in parts]
        joined = cls(*(np.concatenate([getattr(part, column.name) for part in lasting]) for column in fields(cls)))
        return joined[np.lexsort((joined.start, joined.rank))]


@dataclass(frozen=True, eq=False)
class _Windows:
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
    def of(cls, run: Run) -> _Windows:
        plan, timeline = run.plan, run.timeline
        steps = plan.steps if plan.barrier and not plan.asynchronous else 1
        rows, begin, end = plan.ops.offsets, np.zeros(1, np.int64), np.array([timeline.makespan])
        if steps > 1:
            number = plan.ops.rank.astype(np.int64) * steps + plan.ops.step
            rows = np.searchsorted(number, np.arange(plan.ops.ranks * steps + 1))
            last = np.append(timeline.end, 0)[np.where(rows[1:] > rows[:-1], rows[1:] - 1, -1)]
            end = np.append(last.reshape(plan.ops.ranks, steps).max(axis=0)[:-1], timeline.makespan)
            begin = np.append(0, end[:-1])
        if not plan.ops.index.has(*_NEVER_FIRST):
            some = rows[1:] > rows[:-1]
            first, last = np.where(some, rows[:-1], NONE), np.where(some, rows[1:] - 1, NONE)
        else:
            counting = np.flatnonzero(_COUNTS[plan.ops.kind])
            place = np.searchsorted(counting, rows)
            some = place[1:] > place[:-1]
            counting = np.append(counting, NONE)
            first, last = np.where(some, counting[place[:-1]], NONE), np.where(some, counting[place[1:] - 1], NONE)
        start, end = np.tile(begin, plan.ops.ranks), np.tile(end, plan.ops.ranks)
        begins = np.where(some, timeline.start[first], end)
        ends = np.where(some, timeline.end[last], end)
        return cls(np.repeat(np.arange(plan.ops.ranks), steps), rows, start, end, first, last, begins, ends)

    def of_rows(self, run: Run, rows: Longs) -> Longs:
        """The window of each row."""
        rank, steps = run.plan.ops.rank[rows].astype(np.int64), len(self.rank) // run.plan.ops.ranks
        return rank if steps == 1 else rank * steps + run.plan.ops.step[rows]


@dataclass(frozen=True, eq=False)
class _Waits:
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

    def segments(self, run: Run) -> Segments:
        """A segment for each part that lasts."""
        lasts = np.diff(self.marks, axis=0).T > 0
        wait, part = np.nonzero(lasts)
        cause = _CAUSES_OF_PARTS[part]
        waits_ready = np.flatnonzero(part == 1)
        cause[waits_ready] = self.until_ready[wait[waits_ready]]
        row, own = self.row[wait], part == 0
        transfer = np.where(own, self.own_transfer[wait], self.transfer[wait])
        blocker = np.where(own | (transfer >= 0), _producer(run, transfer), self.last[wait] - len(run.plan.ops))
        rank = run.plan.ops.rank[row].astype(np.int64)
        return Segments(rank, self.marks[part, wait], self.marks[part + 1, wait], cause, row, blocker, transfer)

    def inside(self, run: Run, windows: _Windows) -> tuple[NDArray[np.bool_], Longs]:
        """Whether each is neither fill nor drain, and its window."""
        window = windows.of_rows(run, self.row)
        return (self.marks[4] > windows.begins[window]) & (self.marks[0] < windows.ends[window]), window


def _windows(run: Run) -> _Windows:
    return _Windows.of(run)


def _waits(run: Run) -> tuple[_Waits, ...]:
    """The waits before ops, and of the ops that are themselves waits."""
    plan, timeline, windows = run.plan, run.timeline, run.once(_windows)
    free = np.empty(len(plan.ops), np.int64)
    free[1:] = timeline.end[:-1]
    some = windows.rows[1:] > windows.rows[:-1]
    free[windows.rows[:-1][some]] = windows.start[some]
    waiting = np.flatnonzero(timeline.start > free)
    before = _explained(run, waiting, free[waiting], timeline.start[waiting], plan.start_needs)
    if not plan.ops.index.has(*SENDS_AND_MOVES):
        return (before,)
    lasting = np.flatnonzero(_IDLE[plan.ops.kind])
    lasting = lasting[timeline.end[lasting] > timeline.start[lasting]]
    return before, _explained(run, lasting, timeline.start[lasting], timeline.end[lasting], plan.end_needs)


def segments(run: Run) -> Segments:
    """All idle time of every rank, each nanosecond once; sorted by rank, then start."""
    windows = run.once(_windows)
    found = Segments.join(*(waits.segments(run) for waits in run.once(_waits)))
    window = windows.of_rows(run, found.row)
    before, after = found.end <= windows.begins[window], found.start >= windows.ends[window]
    # What the first op waited for until it began names the blocker of the whole fill.
    decides = np.flatnonzero(before & (found.end == windows.begins[window]))
    blocker, transfer = np.full((2, len(windows.first)), NONE, np.int64)
    blocker[window[decides]], transfer[window[decides]] = found.blocker[decides], found.transfer[decides]
    rank, nothing = windows.rank, np.full(len(windows.rank), NONE, np.int64)
    return Segments.join(
        found[np.flatnonzero(~before & ~after)],
        Segments(rank, windows.start, windows.begins, np.full(len(rank), Cause.FILL), windows.first, blocker, transfer),
        Segments(rank, windows.ends, windows.end, np.full(len(rank), Cause.DRAIN), nothing, nothing, nothing),
    )


def _explained(run: Run, row: Longs, since: Longs, until: Longs, needs: Dependencies) -> _Waits:
    """The waits of rows from ``since`` to ``until``, when what they need was there."""
    plan, timeline = run.plan, run.timeline
    owner, event = _needs_of(needs, row)
    sort, transfer = sorts(run, event), _transfer_of(run, event)
    message = sort >= Sort.BACKWARD
    # Own messages hold the rank where it waits for their leaving, or in a fused batch for their arrival.
    own = message.copy()
    own[message] = plan.routes.src[plan.transfers.route[transfer[message]]] == plan.ops.rank[row[owner[message]]]
    if np.any(own):
        row, since, until, owner = _batches(run, row, since, until, owner, event, message & ~own)
    holds = np.flatnonzero(own | (sort == Sort.LEFT))
    left = latest(run, owner[holds], plan.events.left(transfer[holds]), len(row))
    last = latest(run, owner, event, len(row))

    sort, transfer, own_transfer = sorts(run, last), _transfer_of(run, last), _transfer_of(run, left)
    message = sort >= Sort.BACKWARD
    free = np.where(left >= 0, np.clip(timeline.times[left], since, until), since)
    ready, started = until.copy(), until.copy()
    ready[message] = np.clip(timeline.ready[transfer[message]], free[message], until[message])
    started[message] = np.clip(timeline.transfer_start[transfer[message]], ready[message], until[message])
    marks = np.stack([since, free, ready, started, until])
    return _Waits(row, marks, _UNTIL_READY[sort], last, transfer, own_transfer)


def _needs_of(needs: Dependencies, things: Longs) -> tuple[Longs, Longs]:
    """All that the things need: each one's place among the things, and the event."""
    counts = needs.ptr[things + 1] - needs.ptr[things]
    first = needs.ptr[things] - np.cumsum(counts) + counts
    return np.repeat(np.arange(len(things)), counts), needs.event[np.arange(counts.sum()) + np.repeat(first, counts)]


def _transfer_of(run: Run, event: Longs) -> Longs:
    """The transfer of each event, -1 for an op's and for none."""
    ops = 2 * len(run.plan.ops)
    return np.where(event >= ops, (event - ops) % max(len(run.plan.transfers), 1), NONE)


def _producer(run: Run, transfer: Longs) -> Longs:
    """The row that produced what each transfer carries, -1 for none."""
    producer = np.full(len(transfer), NONE, np.int64)
    some = transfer >= 0
    producer[some] = run.plan.transfers.producer[transfer[some]]
    return producer


def _batches(
    run: Run, row: Longs, since: Longs, until: Longs, owner: Longs, event: Longs, received: Flags
) -> tuple[Longs, Longs, Longs, Longs]:
    """Waits for two batches, one after the other, as two waits: (row, since, until, owner of each need).

    A message of a second batch is one received that itself waits for the arrival of the first batch's messages.
    """
    plan = run.plan
    needs = plan.transfers.needs
    second_batch = np.zeros(plan.events.count, bool)
    second_batch[plan.events.arrive(needs.owner[sorts(run, needs.event) >= Sort.BACKWARD])] = True
    second = received & second_batch[event]
    if not np.any(second):
        return row, since, until, owner
    both = np.unique(owner[second])
    over = since.copy()
    np.maximum.at(over, owner[~second], run.timeline.times[event[~second]])
    over = np.minimum(over, until)[both]
    owner = np.where(second, len(row) + np.searchsorted(both, owner), owner)
    until_first = until.copy()
    until_first[both] = over
    return (
        np.concatenate([row, row[both]]),
        np.concatenate([since, over]),
        np.concatenate([until_first, until[both]]),
        owner,
    )


def by_cause(run: Run) -> Longs:
    """Idle ns per rank and cause, shape (ranks, causes)."""
    windows = run.once(_windows)
    out = np.zeros((run.plan.ops.ranks, len(Cause)), np.int64)
    for waits in run.once(_waits):
        inside, window = waits.inside(run, windows)
        place = windows.rank[window[inside]] * len(Cause)
        for part, length in enumerate(np.diff(waits.marks[:, inside], axis=0)):
            cause = waits.until_ready[inside] if part == 1 else _CAUSES_OF_PARTS[part]
            np.add.at(out.reshape(-1), place + cause, length)
    np.add.at(out[:, Cause.FILL], windows.rank, windows.begins - windows.start)
    np.add.at(out[:, Cause.DRAIN], windows.rank, windows.end - windows.ends)
    return out


@metric(
    scope="rank", unit="table", definition="idle time by its immediate cause, which adds up", needs=("dependencies",)
)
def waits_s(run: Run) -> list[dict[str, float]]:
    """Idle seconds of every rank by cause."""
    return [
        {name: ns / PER_SECOND for name, ns in zip(CAUSES, by_rank, strict=True)}
        for by_rank in run.once(by_cause).tolist()
    ]


def per_op(run: Run) -> tuple[Longs, Longs, Longs]:
    """Of every op: the ns that its rank waited for it, the cause of the longest part, and the op that it waited for.

    Cause and blocker are -1 where it didn't wait; of equal parts the earlier one counts.
    """
    found = run.once(segments)
    found = found[np.flatnonzero(found.row >= 0)]
    wait = np.zeros(len(run.plan.ops), np.int64)
    np.add.at(wait, found.row, found.length)
    cause, blocker = np.full((2, len(run.plan.ops)), NONE, np.int64)
    longest = np.lexsort((-found.start, found.length))
    cause[found.row[longest]], blocker[found.row[longest]] = found.cause[longest], found.blocker[longest]
    return wait, cause, blocker


def limits(run: Run) -> list[tuple[str, str, int]]:
    """(cause, place, ns): all idle time by cause and place, the largest first.

    The place is a rank for ``upstream`` and ``sync``, a port for ``queue``, the link for ``transfer``, ``blocked`` and
    ``memory``, and all ranks for ``fill`` and ``drain``.
    """
    plan, found = run.plan, run.once(segments)
    p, ports = plan.ops.ranks, len(plan.ports)
    # Places by number: 0 is everywhere, then the ranks, the ports, and the links as source * ranks + destination.
    route = np.append(plan.transfers.route, 0)[found.transfer]
    link = 1 + p + ports + (plan.routes.src.astype(np.int64) * p + plan.routes.dst)
    place = np.append(link, 0)[np.where(found.transfer >= 0, route, -1)]
    queue = np.flatnonzero(found.cause == Cause.QUEUE)
    if len(queue):
        port = run.once(freed_by)[1][found.transfer[queue]]
        place[queue] = np.where(port >= 0, 1 + p + port, place[queue])
    elsewhere = np.flatnonzero((found.cause == Cause.UPSTREAM) | (found.cause == Cause.SYNC))
    place[elsewhere] = 1 + plan.ops.rank[found.blocker[elsewhere]]
    place[found.cause <= Cause.DRAIN] = 0
    codes, which = np.unique(place * len(Cause) + found.cause, return_inverse=True)
    total = np.zeros(len(codes), np.int64)
    np.add.at(total, which, found.length)
    order = np.lexsort((codes, -total))
    return [
        (CAUSES[code % len(Cause)], _place(run, code // len(Cause)), ns)
        for code, ns in zip(codes[order].tolist(), total[order].tolist(), strict=True)
    ]


def _place(run: Run, number: int) -> str:
    p, ports = run.plan.ops.ranks, len(run.plan.ports)
    if number == 0:
        return "all ranks"
    if number <= p:
        return f"rank {number - 1}"
    if number <= p + ports:
        return run.plan.ports[number - 1 - p]
    src, dst = divmod(number - 1 - p - ports, p)
    return f"link {src}→{dst}"
