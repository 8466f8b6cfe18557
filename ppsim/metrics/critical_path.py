"""The critical path: the chain of ops and transfers that determines the makespan, back to time 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ppsim._jit import Loop
from ppsim.engine.timeline import PER_SECOND, SENDS_AND_MOVES
from ppsim.metrics.base import Run, metric
from ppsim.metrics.last_need import ARRIVAL, Flags, Sort, Sorts, freed_by
from ppsim.ops import NONE, Constant, Ints, Kind, Kinds, Longs, among

PAIR = "OVERLAP_F_B"
OP, LEFT = int(Sort.OP), int(Sort.LEFT)
PARTS = ("transfer", "latency", "queue")
_NAMES = (*(kind.name for kind in Kind), PAIR)


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
    n, t = len(plan.ops), max(len(plan.transfers), 1)
    event = chain(run, last)[::-1].astype(np.int64)
    event = event[_is_link(run, event)]
    op, row = event < 2 * n, event - n
    if plan.atomic:
        row[op] -= plan.tail[row[op]]
    row[~op] = NONE
    if not len(plan.transfers):
        none = np.zeros(len(row), np.int64)
        return Path(row, none + NONE, timeline.start[row], timeline.end[row], none, none, none, none, last)
    transfer = np.where(op, 0, (event - 2 * n) % t)
    since = np.where(op, timeline.start[row], timeline.transfer_start[transfer])
    left = np.where(event < 2 * n + t, since, timeline.left[transfer])
    arrives = event >= 2 * n + 2 * t
    until = np.where(arrives, timeline.arrive[transfer], left)
    occupancy, latency, queue = left - since, until - left, np.zeros(len(op), np.int64)
    # A transfer that waited for a port follows on the one that held it.
    holder, _ = run.once(freed_by)
    if not isinstance(holder, Constant):
        queued = ~op & np.append((~op & (holder[transfer] >= 0))[1:], False)
        queue[queued], occupancy[queued], latency[queued], arrives[queued] = occupancy[queued], 0, 0, False
    until[op], transfer[op] = timeline.end[row[op]], NONE
    return Path(row, transfer, since, until, occupancy, latency, queue, arrives.astype(np.int64), last)


def _is_link(run: Run, event: Longs) -> Flags:
    """Which events of a chain end an op that keeps its rank busy, or are a transfer's."""
    ops, n = run.plan.ops, len(run.plan.ops)
    link = event >= n
    if ops.index.has(*SENDS_AND_MOVES):
        ends = np.flatnonzero(link & (event < 2 * n))
        link[ends] = ~among(ops.kind[event[ends] - n], SENDS_AND_MOVES)
    return link


class _Graph(NamedTuple):
    """What the chain is followed through: the ops, and what begins, ends and transfers wait for."""

    rank: Ints
    kind: Kinds
    tail: Flags
    duration: Longs
    start: tuple[Ints, Ints]
    end: tuple[Ints, Ints]
    sent: tuple[Ints, Ints]
    producer: Ints
    times: Longs


def chain(run: Run, last: int) -> Longs:
    """The events from one back to time 0, each after the one that it came from; none where it is -1."""
    plan, (holder, _) = run.plan, run.once(freed_by)
    events = np.empty(2 * len(plan.ops) + len(plan.transfers), np.int64)
    start, end, sent = ((needs.ptr, needs.event) for needs in (plan.start_needs, plan.end_needs, plan.transfers.needs))
    graph = _Graph(
        plan.ops.rank, plan.ops.kind, plan.tail, plan.duration, start, end, sent, plan.transfers.producer,
        run.timeline.times,
    )  # fmt: skip
    if isinstance(holder, Constant):  # nobody waited for anybody
        holder = np.empty(0, np.int64)
    return events[: _follow.run(run.compiled)(last, graph, holder, ARRIVAL, events)]


@Loop
def _follow(event: int, graph: _Graph, holder: Longs, arrival: Sorts, chain: Longs) -> int:
    """Fill in the chain that ends with the event; returns its length. No ``holder`` at all: no transfer queued."""
    rank, kind, tail, duration, start, end, sent, producer, times = graph
    n, t = len(rank), len(producer)
    length, none = 0 * n, NONE + 0 * n  # of plain numbers Numba would work out all types a second time
    while event != NONE:
        chain[length] = event
        length += 1
        if event >= 2 * n:
            thing = (event - 2 * n) % t
            if len(holder) and holder[thing] >= 0:
                event = 2 * n + t + holder[thing]
                continue
            ptr, needs = sent
        elif event >= n:
            thing = event - n - tail[event - n]
            ptr, needs = end
        else:
            thing = event
            ptr, needs = start
        latest = when = best = none
        for k in range(ptr[thing], ptr[thing + 1]):
            other = needs[k]
            if times[other] < when:
                continue
            sort = 0
            if other >= 2 * n + 2 * t:
                sort = arrival[kind[producer[other - 2 * n - 2 * t]]]
            elif other >= 2 * n + t:
                sort = LEFT
            elif n <= other < 2 * n:
                sort = OP
            if times[other] > when or sort > best:
                latest, when, best = other, times[other], sort
        if event < n:
            if thing > 0 and rank[thing - 1] == rank[thing] and times[n + thing - 1] > when:
                latest = n + thing - 1
        elif event < 2 * n and when < times[thing] + duration[thing]:
            latest = thing
        event = latest
    return length


def _last(run: Run) -> int:
    """The event that the run ends with, -1 where there is none."""
    plan, timeline = run.plan, run.timeline
    if len(plan.ops) and timeline.end.max() == timeline.makespan:
        rank = plan.ops.rank[timeline.end.argmax()]
        return int(plan.events.end(int(plan.ops.offsets[rank + 1]) - 1))
    return int(plan.events.arrive(int(timeline.arrive.argmax()))) if len(plan.transfers) else NONE


def by_kind(run: Run) -> dict[str, int]:
    """Ns of the critical path by the kind of its ops; of its transfers as time on the ports, flight and queueing."""
    plan, path = run.plan, run.once(critical_path)
    ops = np.flatnonzero(path.row >= 0)
    kind = plan.ops.kind[path.row[ops]].astype(np.int64)
    if plan.atomic:
        kind[np.append(plan.tail[1:], False)[path.row[ops]]] = len(Kind)
    total = np.zeros(len(_NAMES), np.int64)
    np.add.at(total, kind, (path.end - path.start)[ops])
    out = {_NAMES[k]: int(total[k]) for k in np.flatnonzero(np.bincount(kind)).tolist()}
    if len(ops) < len(path):
        columns = (path.occupancy, path.latency, path.queue)
        out |= {name: int(column.sum()) for name, column in zip(PARTS, columns, strict=True)}
    return out


@metric(
    scope="run",
    name="critical_path",
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
