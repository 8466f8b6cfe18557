"""Where a Gantt chart is too dense for labels: the warm-up, the steady state and the end of some ranks, enlarged."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ppsim.ops import NONE
from ppsim.plot import bars as table
from ppsim.plot import boxes, labels
from ppsim.plot.looks import IDLE
from ppsim.plot.style import SMALL, Size
from ppsim.plot.view import View

RANKS = 4
"""A panel shows so many neighbouring ranks."""
ROOM = 0.75
"""Of the height of a line where all ranks are shown, that of a line in a panel."""


class Part(NamedTuple):
    """A panel: its name, its ranks, and its time in ns."""

    name: str
    ranks: list[int]
    low: float
    high: float


def wanted(view: View, width: float, per_line: float, font: float) -> bool:
    """Whether the chart of a whole run, so many points wide and a line so high, has ops that it can't label."""
    per_ns = width / (view.high - view.low)
    lanes = boxes.Lanes.of(per_line, bool(view.wires), view.wires.moves)
    parts = list(boxes.boxes_of(view.ops, lanes, view.stages_per_rank))
    return not labels.fit(view.run.plan, parts, labels.Scale(per_ns, per_line, view.low, view.high, font))


def parts(view: View, width: float, form: Size) -> list[Part]:
    """The three panels, each so many points wide: ops of usual length have room for their numbers there."""
    plan, ops = view.run.plan, view.ops
    usual = [
        np.median((ops.end - ops.start)[ops.look == look]) for look in np.unique(ops.look) if _numbered(view, look)
    ]
    if not usual:
        return []
    digits = len(str(max(int(plan.ops.microbatch.max()), 0)))
    font = min(SMALL * form.font, 0.6 * ROOM * form.row * 72)
    span = min(width * float(min(usual)) / (1.25 * labels.need(digits, font)), (view.high - view.low) / 3)
    p = plan.ops.ranks
    some = min(RANKS, p)
    timeline, busy = view.run.timeline, table.busy_rows(plan)
    latest = int(plan.ops.rank[np.where(busy, timeline.end, -1).argmax()])
    ends = min(max(latest - some // 2, 0), p - some)
    last, middle, ending = (list(range(at, at + some)) for at in (p - some, (p - some) // 2, ends))
    begin = float(timeline.start[np.isin(plan.ops.rank, last) & busy].min())
    begin = min(begin, view.high - span)
    centre, name = (view.low + view.high) / 2, "steady state"
    rows = np.flatnonzero(np.isin(plan.ops.rank, middle) & busy)
    away = np.maximum(timeline.start[rows] - centre, centre - timeline.end[rows])
    if away.min() >= span / 2:  # nothing goes on there: what comes nearest
        nearest = rows[away.argmin()]
        centre, name = float(timeline.start[nearest] + timeline.end[nearest]) / 2, "in the middle"
    return [
        Part("warm-up", last, begin, begin + span),
        Part(name, middle, centre - span / 2, centre + span / 2),
        Part("end", ending, view.high - span, view.high),
    ]


def frame(view: View, part: Part) -> tuple[float, float, float, float]:
    """Where a part is in the whole chart: low, high, top, bottom."""
    first, last = np.searchsorted(view.ranks, (part.ranks[0], part.ranks[-1]))
    return part.low, part.high, float(first) - 0.5, min(float(last), len(view.ranks) - 1) + 0.5


def _numbered(view: View, look: int) -> bool:
    """Whether bars of that look stand for microbatches."""
    if look >= IDLE:
        return False
    rows = view.ops.row[view.ops.look == look]
    return bool((view.run.plan.ops.microbatch[rows[:1]] != NONE).all())
