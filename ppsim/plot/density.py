"""Bars too thin to be told apart, as the colour that they average to: no pattern arises that isn't in the run.

Ops as narrow as a few pixels beat with the pixels, and stripes appear that mean nothing. So a run of many thin bars
beside each other is drawn as an image: each pixel shows the mean colour of what happens around it, by its time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ppsim.ops import NONE
from ppsim.plot.bars import Bars, Floats, joined
from ppsim.plot.looks import CAUSES, IDLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

THIN = 2.0
"""Points of width below which a bar is thin."""
MANY = 8
"""That many thin bars in a row are averaged; fewer stay bars."""
EDGES = tuple(IDLE + list(CAUSES).index(cause) for cause in ("fill", "drain"))
"""Idle time at the ends of a line stays sharp."""
REACH = 6.0
"""Points to either side over which is averaged, the further away the less."""


def split(bars: Bars, thin: float) -> tuple[Bars, Bars]:
    """Bars to be drawn one by one, and those to be averaged: ``MANY`` or more in a row that are below ``thin`` ns."""
    narrow = (bars.end - bars.start < thin) & ~np.isin(bars.code, EDGES)
    if int(narrow.sum()) < MANY:
        return bars, bars[np.zeros(len(bars), bool)]
    new = np.ones(len(bars), bool)
    new[1:] = (bars.line[1:] != bars.line[:-1]) | (narrow[1:] != narrow[:-1])
    run = np.cumsum(new) - 1
    averaged = narrow & (np.bincount(run)[run] >= MANY)
    return bars[~averaged], bars[averaged]


def split_alone(bars: Bars, thin: float) -> tuple[Bars, Bars]:
    """The same of bars that may overlap and share their lines with nothing; the gaps between them count as bars."""
    solid = apart(bars)
    between = np.flatnonzero(np.diff(solid.line) == 0)
    nothing = np.full(len(between), NONE, np.int64)
    gaps = Bars(solid.line[between], solid.end[between], solid.start[between + 1], nothing, nothing)
    clear, averaged = split(joined(solid, gaps[gaps.end > gaps.start]), thin)
    return clear[clear.code != NONE], averaged


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


def paint(axes: Axes, bars: Bars, band: tuple[float, float], colour: Callable[[int], Floats], name: str) -> None:
    """Draw averaged bars into a band of each line (offsets from its centre) as one image, by the id 'averaged-name'.

    Bars of the code -1 are nothing: they thin out the colour of the others.
    """
    if not len(bars):
        return
    (low, high), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    lines, columns = round(bottom - top), max(round(axes.bbox.width), 1)
    height = max(round(axes.bbox.height), lines)
    reach = REACH * axes.figure.figure.dpi / 72
    picture = averages(bars, (low, high), (lines, columns), colour, reach)
    place = (np.arange(height) + 0.5) * lines / height
    line = place.astype(np.int64)
    rows = np.round(picture * 255).astype(np.uint8)[line]
    offset = place - line - 0.5
    rows[(offset < band[0]) | (offset > band[1]), :, 3] = 0
    image = axes.imshow(
        rows, extent=(low, high, bottom, top), aspect="auto", interpolation="nearest", zorder=1.5, origin="upper"
    )
    image.set_gid(f"averaged-{name}")


def averages(
    bars: Bars, span: tuple[float, float], shape: tuple[int, int], colour: Callable[[int], Floats], reach: float
) -> Floats:
    """Red, green, blue and opacity per line and column of pixels, shape (lines, columns, 4)."""
    low, pixel = span[0], (span[1] - span[0]) / shape[1]
    filled, coloured, mixed = np.zeros(shape), np.zeros(shape), np.zeros((3, *shape))
    for code in np.unique(bars.code).tolist():
        part = coverage(bars[bars.code == code], low, pixel, shape)
        filled += part
        if code != NONE:
            coloured += part
            mixed += np.asarray(colour(code))[:, None, None] * part
    width = max(round(reach), 1)
    around, inside = smooth(filled, width), smooth(coloured, width)
    out = np.empty((*shape, 4))
    with np.errstate(divide="ignore", invalid="ignore"):
        for channel in range(3):
            out[..., channel] = smooth(mixed[channel], width) / inside
        out[..., 3] = np.minimum(filled, 1) * inside / around
    return np.clip(np.nan_to_num(out), 0, 1)


def coverage(bars: Bars, low: float, pixel: float, shape: tuple[int, int]) -> Floats:
    """Which share of each column of each line the bars fill; by what lies before each edge of a column."""
    edges = np.arange(1, shape[1] + 1)

    def before(times: Floats) -> Floats:
        at = np.clip((times - low) / pixel, 0, shape[1])
        place = bars.line * (shape[1] + 1) + at.astype(np.int64)
        size = shape[0] * (shape[1] + 1)
        count = np.bincount(place, minlength=size).reshape(shape[0], -1)
        total = np.bincount(place, at, size).reshape(shape[0], -1)
        return np.asarray(np.cumsum(count, axis=1)[:, :-1] * edges - np.cumsum(total, axis=1)[:, :-1], np.float64)

    until = before(bars.start) - before(bars.end)
    return np.maximum(np.diff(until, axis=1, prepend=0), 0)


def smooth(levels: NDArray[np.float64], width: int) -> Floats:
    """Twice the mean over ``width`` columns: a tent, in which nothing that repeats within it leaves a trace."""
    for left in (width // 2, (width - 1) // 2):
        padded = np.pad(levels, ((0, 0), (left + 1, width - 1 - left)))
        total: Floats = np.cumsum(padded, axis=1)
        levels = np.maximum(total[:, width:] - total[:, :-width], 0) / width
    levels[levels < 1e-9] = 0  # what is left of sums that cancel
    return levels
