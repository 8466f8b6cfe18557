"""A Run as bars on lines: what each rank does when, as columns; and bars under a pixel merged.

A line is a rank's row in the chart. The bars of a line don't overlap; times are ns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppsim.engine.timeline import SENDS_AND_MOVES
from ppsim.metrics import Run
from ppsim.ops import NONE, Longs
from ppsim.plan.table import Plan
from ppsim.plot.looks import CAUSES, CHUNK, IDLE, PAIR

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Bars:
    """Columns: the line, start and end in ns, the code of what it looks like, the plan's row (-1: idle or merged)."""

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
        lasting = np.flatnonzero(end > start)
        order = lasting[np.lexsort((start[lasting], line[lasting]))]
        return cls(line[order], start[order].astype(float), end[order].astype(float), code[order], row[order])


def joined(*parts: Bars) -> Bars:
    """All bars in one table, by line and start."""
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


def transfer_bars(run: Run, lines: Longs) -> tuple[Bars, Bars]:
    """On their senders' lines: transfers while they occupy their ports, and while they fly. These may overlap."""
    plan, timeline = run.plan, run.timeline
    src = lines[plan.routes.src[plan.transfers.route]]
    here = np.flatnonzero(src >= 0)
    line, number = src[here], np.zeros(len(here), np.int64)
    started, left, arrived = timeline.transfer_start[here], timeline.left[here], timeline.arrive[here]
    return Bars.of(line, started, left, number, here), Bars.of(line, left, arrived, number, here)


def within(bars: Bars, low: float, high: float) -> Bars:
    """The bars of which some part lies between two times."""
    return bars[(bars.end > low) & (bars.start < high)]


def merged(bars: Bars, low: float, pixel: float) -> Bars:
    """Bars of a pixel or more as they are; of the narrower ones, one in each pixel's column of each line.

    A column goes to that code among those in it which has so far got least of what it fills, so that every code keeps
    its share of the area: looking at one place of each column would hide a kind whose turn comes back at the width of a
    pixel. Neighbouring columns of one code make one bar.
    """
    thin = bars.end - bars.start < pixel
    if not thin.any():
        return bars
    pieces, column = _by_column(bars[thin], low, pixel)
    codes, which = np.unique(pieces.code, return_inverse=True)
    lines, columns = int(pieces.line.max()) + 1, int(column.max()) + 1
    place = (column * lines + pieces.line) * len(codes) + which
    size = columns * lines * len(codes)
    filled = np.bincount(place, pieces.end - pieces.start, size).reshape(columns, lines, len(codes))
    owed = np.zeros((lines, len(codes)))
    chosen = np.empty((columns, lines), np.int64)
    every = np.arange(lines)
    for here, part in enumerate(filled):
        owed += part
        chosen[here] = np.where(part > 0, owed, -np.inf).argmax(axis=1)
        owed[every, chosen[here]] -= part.sum(axis=1)
    line, at = np.nonzero(filled.any(axis=2).T)
    return joined(bars[~thin], _runs(line, at, codes[chosen[at, line]], low, pixel))


def _by_column(thin: Bars, low: float, pixel: float) -> tuple[Bars, Longs]:
    """Bars under a pixel cut where they cross from one column of pixels into the next, and each piece's column."""
    column = np.maximum((thin.start - low) // pixel, 0).astype(np.int64)
    edge: Floats = low + (column.astype(np.float64) + 1) * pixel
    over = np.flatnonzero(thin.end > edge)
    left = Bars(thin.line, thin.start, np.minimum(thin.end, edge), thin.code, thin.row)
    right = Bars(thin.line[over], edge[over], thin.end[over], thin.code[over], thin.row[over])
    both = (np.append(getattr(left, name), getattr(right, name)) for name in Bars.__slots__)
    return Bars(*both), np.append(column, column[over] + 1)


def apart(bars: Bars) -> Bars:
    """Bars that may overlap, as ones that don't: those of a line that overlap are one."""
    if not len(bars):
        return bars
    start, end = bars.start.astype(np.int64), bars.end.astype(np.int64)
    offset = bars.line * (int(end.max()) + 1)
    reach = np.maximum.accumulate(end + offset)
    first = np.flatnonzero(np.append(True, start[1:] + offset[1:] >= reach[:-1]))
    until = reach[np.append(first[1:], len(bars)) - 1] - offset[first]
    return Bars(bars.line[first], bars.start[first], until.astype(np.float64), bars.code[first], bars.row[first])


def merged_alone(bars: Bars, low: float, pixel: float) -> Bars:
    """Bars of one code that share their lines with nothing: ``merged``, so that they keep their share of the area."""
    solid = apart(bars)
    between = np.flatnonzero(np.diff(solid.line) == 0)
    nothing = np.full(len(between), NONE, np.int64)
    gaps = Bars(solid.line[between], solid.end[between], solid.start[between + 1], nothing, nothing)
    found = merged(joined(solid, gaps[gaps.end > gaps.start]), low, pixel)
    return found[found.code != NONE]


def _runs(line: Longs, column: Longs, code: Longs, low: float, pixel: float) -> Bars:
    """Columns of pixels, by line and column, as bars: those of one code that touch as one."""
    new = np.ones(len(line), bool)
    new[1:] = (np.diff(line) != 0) | (np.diff(column) != 1) | (np.diff(code) != 0)
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(line)) - 1
    nothing = np.full(len(first), NONE, np.int64)
    start, end = column[first].astype(np.float64), column[last] + 1.0
    return Bars(line[first], low + start * pixel, low + end * pixel, code[first], nothing)
