"""Labels in the bars of ops: one rule, the same for all schedules.

The whole op ('0F0') where it fits into all bars in a size that reads well, else the microbatch's number where that
fits, its font shrunk as need be, else none: all bars of a kind are labelled or none of them is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ppsim.ops import NONE, Kind, Longs
from ppsim.plan.table import Plan
from ppsim.plot.bars import Floats
from ppsim.plot.boxes import Boxes
from ppsim.plot.looks import ink
from ppsim.plot.style import text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 1500
"""Nobody reads more labels than that: then there are none."""
READABLE = 6.0
"""Font size in points from which on the whole op is written."""
SMALLEST = 4.5
"""Font size in points below which nobody reads a label."""
FAR_BELOW = 0.5
"""Bars narrower than that much of the median of their kind need not have room."""
_PADDING = 0.3
"""Of the font size, beside a label."""
_HEIGHT = 0.68
"""Of a bar's height, the largest font."""


@dataclass(frozen=True)
class Scale:
    """How large things are on paper: points per ns and per line, what part of the time is seen, the largest font."""

    per_ns: float
    per_line: float
    low: float
    high: float
    font: float
    whole: bool = True
    """Whether labels may be whole ops."""


@dataclass(frozen=True, eq=False)
class _Group:
    """The bars of one kind that have a microbatch: which, their room in points, their texts' widths over the font."""

    boxes: Boxes
    here: Longs
    room: Floats
    ems: tuple[Floats, Floats]
    """Of the number, and of the whole op."""
    most: float
    """The largest font that their height allows."""

    def font(self, form: int) -> float:
        """The largest font in which all fit, but those far narrower than the others."""
        fonts = self.room / (self.ems[form] + _PADDING)
        usual = self.room >= FAR_BELOW * np.median(self.room)
        return min(self.most, float(fonts[usual].min()))


def label(ax: Axes, plan: Plan, boxes: Sequence[Boxes], scale: Scale) -> bool:
    """Write the labels of these boxes. Returns whether every kind has its own."""
    groups = [group for part in boxes if (group := _group(plan, part, scale)) is not None]
    form, font, kept = _choice(groups, scale)
    for group in kept:
        _write(ax, plan, group, form, font)
    return len(kept) == len(groups)


def fit(plan: Plan, boxes: Sequence[Boxes], scale: Scale) -> bool:
    """Whether every kind would have its labels."""
    groups = [group for part in boxes if (group := _group(plan, part, scale)) is not None]
    return len(_choice(groups, scale)[2]) == len(groups)


def need(digits: int, font: float) -> float:
    """Points that a number of so many digits takes with what is left free beside it."""
    return text_width("0" * digits, font) + _PADDING * font


def _choice(groups: list[_Group], scale: Scale) -> tuple[int, float, list[_Group]]:
    """(0: numbers or 1: whole ops, font size, the groups that are labelled)."""
    font = scale.font
    whole = min([font, *(group.font(1) for group in groups)]) if scale.whole else 0.0
    kept = groups if whole >= READABLE else [group for group in groups if group.font(0) >= SMALLEST]
    if sum(len(group.here) for group in kept) > MOST:
        return 0, font, []
    if whole >= READABLE:
        return 1, whole, kept
    return 0, min([font, *(group.font(0) for group in kept)]), kept


def _group(plan: Plan, boxes: Boxes, scale: Scale) -> _Group | None:
    here = np.flatnonzero((boxes.bars.start >= scale.low) & (boxes.bars.end <= scale.high) & (boxes.row >= 0))
    here = here[plan.ops.microbatch[boxes.row[here]] != NONE]
    if not len(here):
        return None
    row = boxes.row[here]
    digit = text_width("0", 1)
    number = digit * _digits(plan.ops.microbatch[row])
    kind = text_width(Kind(boxes.kind).name, 1)
    whole = number + kind + digit * _digits(plan.ops.stage[row])
    room = (boxes.bars.end[here] - boxes.bars.start[here]) * scale.per_ns
    return _Group(boxes, here, room, (number, whole), _HEIGHT * (boxes.bottom - boxes.top) * scale.per_line)


def _digits(numbers: Longs) -> Floats:
    found: Floats = np.floor(np.log10(np.maximum(numbers, 1))) + 1
    return found


def _write(ax: Axes, plan: Plan, group: _Group, form: int, font: float) -> None:
    boxes, fits = group.boxes, (group.ems[form] + _PADDING) * font <= group.room * (1 + 1e-9)
    for i in group.here[fits].tolist():
        row = int(boxes.row[i])
        number = int(plan.ops.microbatch[row])
        text = f"{plan.ops.stage[row]}{Kind(boxes.kind).name}{number}" if form else str(number)
        red, green, blue = boxes.colours[i].tolist()
        y = float(boxes.bars.line[i]) + (boxes.top + boxes.bottom) / 2
        ax.text(
            (boxes.bars.start[i] + boxes.bars.end[i]) / 2, y, text, fontsize=font, color=ink((red, green, blue)),
            ha="center", va="center_baseline", clip_on=True, parse_math=False, zorder=3,
        )  # fmt: skip
