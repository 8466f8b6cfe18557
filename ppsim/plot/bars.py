"""A Run as bars on lines: what each rank does when, as columns.

A line is a rank's row in the chart. The bars of a line don't overlap; times are ns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppsim.engine.timeline import SENDS_AND_MOVES
from ppsim.metrics import Run
from ppsim.ops import MOVES, NONE, Longs
from ppsim.plan.table import Plan
from ppsim.plot.looks import CAUSES, CHUNK, IDLE, PAIR

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Bars:
    """Columns: the line, start and end in ns, the code of what it looks like, the plan's row (-1: idle)."""

    line: Longs
    start: Floats
    end: Floats
    code: Longs
    row: Longs

    def __len__(self) -> int:
        return len(self.line)

    def __getitem__(self, key: NDArray[np.generic]) -> Bars:
        return Bars(self.line[key], self.start[key], self.end[key], self.code[key], self.row[key])

    @property
    def look(self) -> Longs:
        """The code without the chunk."""
        return self.code % CHUNK

    @property
    def chunk(self) -> Longs:
        """Which of its rank's stages an op is on, counted from 0."""
        return self.code // CHUNK

    @classmethod
    def of(cls, line: Longs, start: Longs, end: Longs, code: Longs, row: Longs) -> Bars:
        """Bars that take time, by line and start."""
        order = np.flatnonzero(end > start)
        if np.any((np.diff(line[order]) < 0) | ((np.diff(start[order]) < 0) & (np.diff(line[order]) == 0))):
            order = order[np.lexsort((start[order], line[order]))]
        return cls(line[order], start[order].astype(float), end[order].astype(float), code[order], row[order])


def joined(*parts: Bars) -> Bars:
    """All bars in one table, by line and start."""
    if len(parts) == 1:
        return parts[0]
    line, start, end, code, row = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("line", "start", "end", "code", "row")
    )
    order = np.lexsort((start, line))
    return Bars(line[order], start[order], end[order], code[order], row[order])


def lines_of(ranks: list[int], plan: Plan) -> Longs:
    """The line of every rank of the plan; -1 where it isn't shown."""
    lines = np.full(plan.ops.ranks, -1, np.int64)
    lines[ranks] = np.arange(len(ranks))
    return lines


def chunks(plan: Plan) -> Longs:
    """Which of its rank's stages each row is on, counted from 0."""
    held = plan.placement.stages_of
    table = np.zeros((plan.ops.ranks, plan.placement.stages + 1), np.int64)  # the last column: rows without a stage
    for rank, stages in enumerate(held):
        table[rank, list(stages)] = np.arange(len(stages))
    return table[plan.ops.rank, plan.ops.stage]


def busy_rows(plan: Plan) -> NDArray[np.bool_]:
    """Rows that keep their rank busy; of an atomic pair the first alone."""
    return ~np.isin(plan.ops.kind, SENDS_AND_MOVES) & ~plan.tail


def op_bars(run: Run, lines: Longs) -> Bars:
    """A bar per op, or per atomic fused pair, that keeps its rank busy for any time."""
    plan = run.plan
    rows = np.flatnonzero(busy_rows(plan) & (lines[plan.ops.rank] >= 0))
    look = plan.ops.kind.astype(np.int64)
    heads = np.flatnonzero(plan.tail) - 1
    look[heads] = PAIR + look[heads + 1]
    code = look + CHUNK * chunks(plan)
    code[heads] = look[heads]
    return Bars.of(lines[plan.ops.rank[rows]], run.timeline.start[rows], run.timeline.end[rows], code[rows], rows)


def idle_bars(run: Run, lines: Longs) -> Bars:
    """A bar per idle span, by its cause; where the run doesn't know what its ops waited for, by none."""
    if "dependencies" in run.knows:
        from ppsim.metrics.waits import CAUSES as NAMES
        from ppsim.metrics.waits import segments

        found = run.once(segments)
        number = np.array([list(CAUSES).index(name) for name in NAMES], np.int64)
        rank, start, end, cause = found.rank.astype(np.int64), found.start, found.end, number[found.cause]
    else:
        rank, start, end = _gaps(run)
        cause = np.full(len(rank), list(CAUSES).index("unknown"), np.int64)
    here = lines[rank] >= 0
    nothing = np.full(int(here.sum()), NONE, np.int64)
    return Bars.of(lines[rank[here]], start[here], end[here], IDLE + cause[here], nothing)


def _gaps(run: Run) -> tuple[Longs, Longs, Longs]:
    """(rank, start, end) between the busy ops of every rank, from 0 to the makespan."""
    plan, timeline = run.plan, run.timeline
    ranks, starts, ends = [], [], []
    busy = busy_rows(plan)
    for rank in range(plan.ops.ranks):
        rows = np.arange(plan.ops.offsets[rank], plan.ops.offsets[rank + 1])
        rows = rows[busy[rows]]
        rows = rows[np.argsort(timeline.start[rows], kind="stable")]
        starts.append(np.concatenate([[0], timeline.end[rows]]))
        ends.append(np.concatenate([timeline.start[rows], [timeline.makespan]]))
        ranks.append(np.full(len(rows) + 1, rank, np.int64))
    return np.concatenate(ranks), np.concatenate(starts), np.concatenate(ends)


@dataclass(frozen=True, eq=False)
class Wires:
    """Messages and moves on their senders' lines, of each the row that issued it; they may overlap."""

    queue: Bars
    """While they wait for their ports."""
    ports: Bars
    """While they occupy them; the code is 0 for messages, else the kind of the move."""
    flight: Bars

    def within(self, low: float, high: float) -> Wires:
        """Those of which some part lies between two times."""
        return Wires(*(within(bars, low, high) for bars in (self.queue, self.ports, self.flight)))

    def __bool__(self) -> bool:
        return any(map(len, (self.queue, self.ports, self.flight)))

    @property
    def moves(self) -> bool:
        """Whether an activation is moved from one device to another."""
        return bool((self.ports.code != 0).any())


def wires(run: Run, lines: Longs) -> Wires:
    """All transfers of the shown ranks that take time."""
    plan, timeline = run.plan, run.timeline
    src = lines[plan.routes.src[plan.transfers.route]]
    here = np.flatnonzero(src >= 0)
    line, issuer = src[here], plan.transfers.issuer[here].astype(np.int64)
    kind = plan.ops.kind[issuer].astype(np.int64)
    code = np.where(np.isin(kind, MOVES), kind, 0)
    times = (timeline.ready, timeline.transfer_start, timeline.left, timeline.arrive)
    ready, started, left, arrived = (time[here] for time in times)
    plain = np.zeros(len(here), np.int64)
    return Wires(
        Bars.of(line, ready, started, plain, issuer),
        Bars.of(line, started, left, code, issuer),
        Bars.of(line, left, arrived, plain, issuer),
    )


def within(bars: Bars, low: float, high: float) -> Bars:
    """The bars of which some part lies between two times."""
    return bars[(bars.end > low) & (bars.start < high)]
