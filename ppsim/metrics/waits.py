"""Why each rank is idle: every idle nanosecond of every rank has one immediate cause.

An op's wait is explained by the input that arrives last. The wait for a message is ``upstream`` until that is ready
(its producer has ended; its SEND, or its batch, has been reached), ``queue`` until it takes its ports, ``transfer``
until it arrives. While a message of the rank's own has not left, where that holds the rank, it is ``blocked`` before
all that. Between barriers, else over the whole run, the time before a rank's first op is ``fill``, after its last one
``drain``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ppsim.engine.timeline import PER_SECOND, SENDS_AND_MOVES
from ppsim.metrics._explained import CAUSES_OF_PARTS, Explained, Spans, Waits, explained, transfer_of
from ppsim.metrics._windows import windows as windows_of
from ppsim.metrics.base import Run, metric
from ppsim.metrics.causes import CAUSES as CAUSES
from ppsim.metrics.causes import Cause as Cause
from ppsim.ops import NONE, Kind, Longs

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


def _explained(run: Run) -> tuple[Explained, ...]:
    """The waits before ops, and of the ops that are themselves waits."""
    plan, timeline, windows = run.plan, run.timeline, run.once(windows_of)
    free = np.empty(len(plan.ops), np.int64)
    free[1:] = timeline.end[:-1]
    some = windows.rows[1:] > windows.rows[:-1]
    free[windows.rows[:-1][some]] = windows.start[some]
    before = explained(run, Spans(free, timeline.start), plan.start_needs, windows)
    if not plan.ops.index.has(*SENDS_AND_MOVES):
        return (before,)
    since = np.where(_IDLE[plan.ops.kind], timeline.start, timeline.end)
    return before, explained(run, Spans(since, timeline.end), plan.end_needs, windows)


def _segments(run: Run, waits: Waits) -> Segments:
    """A segment for each part of a wait that lasts."""
    lasts = np.diff(waits.marks, axis=0).T > 0
    wait, part = np.nonzero(lasts)
    cause = CAUSES_OF_PARTS[part]
    waits_ready = np.flatnonzero(part == 1)
    cause[waits_ready] = waits.until_ready[wait[waits_ready]]
    row, own = waits.row[wait], part == 0
    transfer = transfer_of(run, np.where(own, waits.held[wait], waits.last[wait]))
    producer = np.append(run.plan.transfers.producer, NONE)[transfer]
    blocker = np.where(own | (transfer >= 0), producer, waits.last[wait] - len(run.plan.ops))
    rank = run.plan.ops.rank[row].astype(np.int64)
    return Segments(rank, waits.marks[part, wait], waits.marks[part + 1, wait], cause, row, blocker, transfer)


def segments(run: Run) -> Segments:
    """All idle time of every rank, each nanosecond once; sorted by rank, then start."""
    windows = run.once(windows_of)
    found = Segments.join(*(_segments(run, waits) for waits, _ in run.once(_explained)))
    window = windows.of_all(run)[found.row]
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


def by_cause(run: Run) -> Longs:
    """Idle ns per rank and cause, shape (ranks, causes)."""
    windows = run.once(windows_of)
    found: Longs = np.sum([by_window for _, by_window in run.once(_explained)], axis=0)
    found[:, Cause.FILL] = windows.begins - windows.start
    found[:, Cause.DRAIN] = windows.end - windows.ends
    by_rank: Longs = found.reshape(run.plan.ops.ranks, -1, len(Cause)).sum(axis=1)
    return by_rank


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
