"""The ranks of a profiled job, and their spans as rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ppsim.analysis.measured.table import Label, Rows
from ppsim.formats.traces._assemble import scope_of
from ppsim.formats.traces._spans import Spans, reduced
from ppsim.ops import COMPUTE, NONE, Kind, Longs, Op

LABELS = tuple(Label(kind.name, kind, scope_of(kind)) for kind in Kind)
_RECEIVES = (Kind.RECV_F, Kind.RECV_B)
_USERS = (Kind.F, Kind.B, Kind.I)


@dataclass
class Worker:
    """One rank's spans in the order of time; ``ops`` by their numbers."""

    name: str
    spans: Spans
    ops: list[tuple[Op, ...]]
    rank: int | None
    base: int
    arrivals: Spans
    """What gloo recorded of its receives, by start."""
    numbers: Longs | None
    """The profiler's own step of each span, where that tells anything."""
    step: Longs = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def stages(self) -> frozenset[int]:
        """What it ran."""
        return frozenset(op.stage for op in self._works())

    def _works(self) -> Iterable[Op]:
        seen = np.unique(self.spans.what).tolist()
        return (op for what in seen for op in self.ops[what] if op.kind in COMPUTE)

    def lacks(self, number: str) -> bool:
        """Whether some compute op has no stage, or no microbatch."""
        return any(getattr(op, number) == NONE for op in self._works())

    def ns(self, times: np.ndarray) -> Longs:
        """Times in ns since the epoch of its clock, without what they count from."""
        ns: Longs = np.rint(times * 1000).astype(np.int64)
        return ns


def rows_of(workers: list[Worker], places: list[tuple[int, int]], inside: bool) -> tuple[Rows, tuple[int, ...]]:
    """All spans as rows, and the numbers of the steps; ``inside``: an op's span includes the wait for its input."""
    origin = min(worker.base + int(worker.ns(worker.spans.start[:1])[0]) for worker in workers)
    parts: list[Rows] = []
    pairs = 0
    for worker, (replica, rank) in zip(workers, places, strict=True):
        kept = np.flatnonzero(worker.step >= 0)
        spans, step = worker.spans[kept], worker.step[kept]
        longest = max((len(one) for one in worker.ops), default=1)
        for nth in range(longest):  # the second of fused pairs after all firsts
            there = np.array([len(one) > nth for one in worker.ops])[spans.what]
            ops = [one[min(nth, len(one) - 1)] for one in worker.ops]
            columns = (
                np.array([(op.kind, op.stage, op.microbatch) for op in ops], np.int32).reshape(-1, 3)[spans.what].T
            )
            fused = np.array([len(one) > 1 for one in worker.ops])[spans.what]
            group = np.where(fused, pairs + np.cumsum(fused) - 1, NONE)
            start, end = (worker.base - origin + worker.ns(times) for times in (spans.start, spans.end))
            filled = [np.full(len(spans), number, np.int32) for number in (replica, rank)]
            rows = Rows(
                filled[0], step.astype(np.int32), filled[1], columns[0], columns[1], columns[2], start, end,
                group.astype(np.int32),
            )  # fmt: skip
            rows = _without_waits(worker, rows, spans, origin) if inside and nth == 0 else rows
            parts.append(rows[np.flatnonzero(there)])
        pairs += int(fused.sum())
    rows = Rows.joined(parts)
    numbers, place = np.unique(rows.step, return_inverse=True)
    return rows.with_steps(place.reshape(-1)).sorted(), tuple(numbers.tolist())


def _without_waits(worker: Worker, rows: Rows, spans: Spans, origin: int) -> Rows:
    """Receives until their message came, and ops from then on, where gloo recorded when that was."""
    came = worker.arrivals
    if not len(came):
        return rows
    ranges = np.searchsorted(came.start, spans.start), np.searchsorted(came.start, spans.end)
    arrived = reduced(np.maximum, came.end, ranges, -np.inf)
    receives = np.flatnonzero(np.isin(rows.label, [int(kind) for kind in _RECEIVES]) & np.isfinite(arrived))
    if not len(receives):
        return rows
    at = worker.base - origin + worker.ns(arrived[receives])
    start, end = rows.start.copy(), rows.end.copy()
    end[receives] = np.maximum(at, start[receives])
    # Of which op a message is the input: keys that receives and ops share.
    way = np.full(len(Kind), NONE, np.int64)
    way[[Kind.F, Kind.RECV_F]], way[[Kind.B, Kind.I, Kind.RECV_B]] = 0, 1
    stage, microbatch = rows.stage.astype(np.int64), rows.microbatch.astype(np.int64)
    key = ((rows.step.astype(np.int64) * 2 + way[rows.label]) * (int(stage.max()) + 2) + stage) * (
        int(microbatch.max()) + 2
    ) + microbatch
    order = np.argsort(key[receives], kind="stable")
    known = key[receives][order]
    users = np.flatnonzero(np.isin(rows.label, [int(kind) for kind in _USERS]))
    place = np.minimum(np.searchsorted(known, key[users]), len(known) - 1)
    users, place = (column[known[place] == key[users]] for column in (users, place))
    start[users] = np.minimum(np.maximum(start[users], at[order[place]]), end[users])
    return rows.at(start, end)
