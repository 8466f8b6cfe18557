"""Labels in the bars of ops: which fit, in which form, how many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ppsim.ops import NONE, Kind
from ppsim.plan.table import Plan
from ppsim.plot.boxes import Boxes
from ppsim.plot.looks import ink
from ppsim.plot.style import text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 1500
"""Where more labels than that would fit, those of every 2nd, 5th, 10th, … microbatch are drawn."""
SMALLEST = 4.5
"""Font size in points below which nobody reads a label."""
_PADDING = 0.3
"""Of the font size, beside a label."""


@dataclass(frozen=True)
class Scale:
    """How large things are on paper: points per ns and per line, what part of the time is seen, the largest font."""

    per_ns: float
    per_line: float
    low: float
    high: float
    font: float


@dataclass(frozen=True)
class _Label:
    x: float
    y: float
    microbatch: int
    texts: tuple[str, str]
    room: float
    font: float
    colour: tuple[float, float, float]

    def fits(self, form: int) -> bool:
        return text_width(self.texts[form], self.font) + _PADDING * self.font <= self.room


def label(ax: Axes, plan: Plan, boxes: list[Boxes], scale: Scale) -> int:
    """Write each microbatch's number where it fits; the whole op where ranks hold several stages and it fits as well.

    Returns n where only every n-th microbatch is labelled, else 1.
    """
    found = [one for part in boxes for one in _candidates(plan, part, scale)]
    whole = any(len(held) > 1 for held in plan.placement.stages_of)
    form = 1 if whole and all(one.fits(1) for one in found) else 0
    every = _thinning([one.microbatch for one in found])
    for one in found:
        if one.microbatch % every == 0:
            ax.text(
                one.x, one.y, one.texts[form], fontsize=one.font, color=ink(one.colour), ha="center",
                va="center_baseline", clip_on=True, parse_math=False, zorder=3,
            )  # fmt: skip
    return every


def _candidates(plan: Plan, boxes: Boxes, scale: Scale) -> list[_Label]:
    font = min(scale.font, 0.68 * (boxes.bottom - boxes.top) * scale.per_line)
    if font < SMALLEST:
        return []
    start, end = np.maximum(boxes.bars.start, scale.low), np.minimum(boxes.bars.end, scale.high)
    room = (end - start) * scale.per_ns
    here = np.flatnonzero((boxes.row >= 0) & (room >= text_width("0", font) + _PADDING * font))
    here = here[plan.ops.microbatch[boxes.row[here]] != NONE]
    out = []
    for i in here.tolist():
        row = int(boxes.row[i])
        number = int(plan.ops.microbatch[row])
        texts = (str(number), f"{plan.ops.stage[row]}{Kind(int(plan.ops.kind[row])).name}{number}")
        red, green, blue = boxes.colours[i].tolist()
        y = float(boxes.bars.line[i]) + (boxes.top + boxes.bottom) / 2
        one = _Label((start[i] + end[i]) / 2, y, number, texts, float(room[i]), font, (red, green, blue))
        if one.fits(0):
            out.append(one)
    return out


def _thinning(microbatches: list[int]) -> int:
    """The least of 1, 2, 5, 10, 20, … such that no more than MOST of these are multiples of it."""
    zeros = microbatches.count(0)
    steps = (factor * int(10**power) for power in range(12) for factor in (1, 2, 5))
    return next(every for every in steps if sum(n % every == 0 for n in microbatches) <= max(MOST, zeros))
