"""The critical path: the chain of ops and transfers that determines the makespan, back to time 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ppsim.metrics.base import Run, metric
from ppsim.metrics.last_need import freed_by, latest
from ppsim.ops import NONE, Kind, among
from ppsim.plan.table import Longs, Needs
from ppsim.timeline import PER_SECOND, SENDS_AND_MOVES

PAIR = "OVERLAP_F_B"
PARTS = ("transfer", "latency", "queue")


@dataclass(frozen=True, eq=False)
class Path:
    """Links in the order of time: from 0 to the makespan, each starts when the one before ends.

    A link is the op ``row`` or the ``transfer`` (the other one is -1). A transfer's time is ``occupancy`` of its ports
    plus ``latency``. Where the next transfer waited for one of its ports, all its time is that one's ``queue`` instead,
    and ends when it frees the port. Ns; an op has none of the three.
    """

    row: Longs
    transfer: Longs
    start: Longs
    end: Longs
    occupancy: Longs
    latency: Longs
    queue: Longs
    flies: Longs
    """1 where the link's latency is on the path, be it 0."""
    last: int
    """The event that the path leads to."""

    def __len__(self) -> int:
        return len(self.row)

    @property
    def flights(self) -> int:
        """How many link latencies are on the path: what another ns of latency on every link adds to the makespan."""
        return int(self.flies.sum())


def critical_path(run: Run) -> Path:
    """Walk back from the end of the last op, of several the lowest rank's, or from the last arrival.

    Of what is met at the same instant the path goes through the input rather than the op before on the rank: a message
    before another rank's op, before a move, the forward's before the backward's, else the first that the plan lists.
    """
    return walk(run, _last(run))


def walk(run: Run, last: int) -> Path:
    """The chain of what came last that leads to an event, -1: to nothing."""
    plan, timeline = run.plan, run.timeline
    n, t = len(plan), len(plan.transfers)
    began, ended, sent, behind = run.once(befores)
    busy = (~among(plan.kind, SENDS_AND_MOVES)).tolist()
    head = (np.arange(n) - plan.tail).tolist()
    start, end = timeline.start.tolist(), timeline.end.tolist()
    taken, left, arrive = timeline.transfer_start.tolist(), timeline.left.tolist(), timeline.arrive.tolist()
    links: list[tuple[int, int, int, int, int, int, int, int]] = []
    event, queued = last, False
    while event != NONE:
        if event < n:
            event = began[event]
        elif event < 2 * n:
            row = head[event - n]
            if busy[row]:
                links.append((row, NONE, start[row], end[row], 0, 0, 0, 0))
            event = ended[row]
        else:
            phase, transfer = divmod(event - 2 * n, t)
            since, until = taken[transfer], left[transfer]
            held, flight = until - since, arrive[transfer] - until if phase == 2 else 0
            parts = (0, 0, held, 0) if queued else (held, flight, 0, int(phase == 2))
            links.append((NONE, transfer, since, until + flight, *parts))
            event, queued = sent[transfer], behind[transfer]
    columns = np.array(links[::-1], np.int64).reshape(-1, 8).T
    return Path(*(column.copy() for column in columns), last)  # type: ignore[call-arg, arg-type]  # eight columns


def _last(run: Run) -> int:
    """The event that the run ends with, -1 where there is none."""
    plan, timeline = run.plan, run.timeline
    if len(plan) and timeline.end.max() == timeline.makespan:
        rank = plan.rank[timeline.end.argmax()]
        return int(plan.events.end(int(plan.offsets[rank + 1]) - 1))
    return int(plan.events.arrive(int(timeline.arrive.argmax()))) if len(plan.transfers) else NONE


def befores(run: Run) -> tuple[list[int], list[int], list[int], list[bool]]:
    """The event before each op's begin, each op's end, each transfer's start (-1: none); whether that one queued."""
    plan, timeline = run.plan, run.timeline
    n, times = len(plan), timeline.times
    row = np.arange(n)

    def last(needs: Needs, things: int) -> tuple[Longs, Longs]:
        event = latest(run, needs.owner, needs.event, things)
        return event, np.where(event >= 0, times[event], -1)

    event, when = last(plan.start_needs, n)
    first = np.zeros(n, bool)
    first[plan.offsets[:-1][plan.offsets[:-1] < plan.offsets[1:]]] = True
    before = np.where(first, NONE, plan.events.end(row - 1))
    free = np.where(first, -1, times[before])
    began = np.where(when >= free, event, before)
    event, when = last(plan.end_needs, n)
    ended = np.where(when >= timeline.start + plan.duration, event, row)
    holder, _ = run.once(freed_by)
    event, _ = last(plan.transfers.needs, len(plan.transfers))
    sent = np.where(holder >= 0, plan.events.left(holder), event)
    return began.tolist(), ended.tolist(), sent.tolist(), (holder >= 0).tolist()


def by_kind(run: Run) -> dict[str, int]:
    """Ns of the critical path by the kind of its ops; of its transfers as time on the ports, flight and queueing."""
    plan, path = run.plan, run.once(critical_path)
    ops = np.flatnonzero(path.row >= 0)
    kind = plan.kind[path.row[ops]].astype(np.int64)
    kind[np.append(plan.tail[1:], False)[path.row[ops]]] = len(Kind)
    total = np.zeros(len(Kind) + 1, np.int64)
    np.add.at(total, kind, (path.end - path.start)[ops])
    names = (*(k.name for k in Kind), PAIR)
    out = {names[k]: int(total[k]) for k in np.unique(kind).tolist()}
    if len(ops) < len(path):
        columns = (path.occupancy, path.latency, path.queue)
        out |= {name: int(column.sum()) for name, column in zip(PARTS, columns, strict=True)}
    return out


@metric(
    "critical_path",
    unit="table",
    definition="time by kind on the chain that determines the makespan; flights: link latencies on it",
    needs=("dependencies",),
)
def composition(run: Run) -> dict[str, Any]:
    """``by_kind_s``, which sums to the makespan, and ``flights``."""
    return {
        "by_kind_s": {name: ns / PER_SECOND for name, ns in by_kind(run).items()},
        "flights": run.once(critical_path).flights,
    }
