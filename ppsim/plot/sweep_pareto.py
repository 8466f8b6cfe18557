"""The Pareto picture of a sweep: a figure against peak memory, and who is beaten by nobody in both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ppsim.errors import PpsimError
from ppsim.plot import scales
from ppsim.plot.style import INCH, SMALL, SizeName, new_figure, settle, size_of, styled, text_width
from ppsim.plot.sweep_axes import (
    MOST_GROUPS,
    Scale,
    column,
    finished,
    fitting,
    level_words,
    levels,
    part,
    scale,
    varied,
    words,
)
from ppsim.plot.sweep_parts import BUBBLE, DEVICE, MEMORY, STEP, Plane, colours_of, dots, heading_of, legend, series

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

LABELLED = 12
"""Of so many points each has its label; of more, those on the front."""
FAR = 3
"""A device's memory is drawn unless it is that many times the largest peak, which it would push aside."""


def pareto(table: pd.DataFrame, y: str | None = None, size: SizeName = "notebook") -> Figure:
    """A figure against peak memory; the front is what no other case beats in both, the device's memory a line."""
    done = finished(table)
    done = done[done[MEMORY].notna()]
    if done.empty:
        raise PpsimError("no case of the sweep has a peak memory to draw")
    up = column(done, y, "--y") if y else (STEP if done["work_s"].nunique() == 1 else BUBBLE)
    colour = next((w for w in varied(done) if len(levels(done, w)) <= MOST_GROUPS), None)
    plane = Plane(MEMORY, up, scale(done, MEMORY, wide=True), scale(done, up))
    on = plane.along, plane.height
    form = size_of(size)
    with styled(form):
        figure = new_figure(form, min(4.2, form.most_height))
        axes = figure.add_subplot()
        colours = colours_of(done, colour)
        for group in colours:
            series(axes, part(done, colour, group.value), plane, group)
        front = _front(done.loc[fitting(done), [MEMORY, up]].itertuples(index=False))
        drawn = axes.plot(
            on[0].at(m for m, _ in front), on[1].at(v for _, v in front), color="#222222", linewidth=1.0,
            drawstyle="steps-post", zorder=5, label="none beats these in both",
        )  # fmt: skip
        drawn += _device(axes, done, on[0])
        for axis, key, shown in ((axes.xaxis, MEMORY, on[0]), (axes.yaxis, up, on[1])):
            shown.dress(axis, levels(done, key))
        axes.set_xlabel(on[0].label("peak memory"))
        axes.set_ylabel(on[1].label(words(up)))
        legend(figure, done, [*dots(colours, form.font), *drawn], form.font)
        heading_of(figure, f"{words(up)} against peak memory", done, form.font)
        settle(axes)
        _ticks(axes.xaxis, on[0].at(levels(done, MEMORY)), SMALL * form.font)
        if on[1].places is None:
            _ticks(axes.yaxis, on[1].at(levels(done, up)), SMALL * form.font)
        _label(axes, _names(done, up, on, colour, front), 0.9 * SMALL * form.font)
    return figure


def _front(points: Iterator[Any]) -> list[tuple[float, float]]:
    front: list[tuple[float, float]] = []
    for memory, value in sorted((float(m), float(v)) for m, v in points):
        if not front or value < front[-1][1]:
            front.append((memory, value))
    return front


def _device(axes: Axes, done: pd.DataFrame, along: Scale) -> list[Line2D]:
    """Draw the memory of a device, where all cases have the same. Returns what the legend shows of it."""
    known = done[DEVICE].dropna().unique().tolist() if DEVICE in done else []
    if len(known) != 1:
        return []
    from matplotlib.lines import Line2D

    size, near = float(known[0]), known[0] <= FAR * done[MEMORY].max()
    looks: dict[str, Any] = {"color": "black", "linestyle": (0, (4, 2)), "linewidth": 1.2}
    looks["label"] = f"device memory {scales.size(size)}{'' if near else ', far to the right'}"
    return [axes.axvline(along.at([size])[0], gid="device-memory", **looks) if near else Line2D([], [], **looks)]


def _ticks(axis: Axis, at: Sequence[float], font: float) -> None:
    """Ticks where the points are, as far as their labels don't touch; the lowest and the highest among them."""
    across = axis is axis.axes.xaxis
    texts = {place: scales.number(place, 3) for place in sorted(set(at))}
    middle = dict(zip(texts, _points_along(axis, list(texts)), strict=True))
    room = {place: (text_width(text, font) + font if across else 1.3 * font) / 2 for place, text in texts.items()}
    kept: list[float] = []
    for place in [min(at), max(at), *texts]:
        if all(abs(middle[place] - middle[other]) >= room[place] + room[other] for other in kept):
            kept.append(place)
    axis.set_ticks(sorted(kept), [texts[place] for place in sorted(kept)])


def _points_along(axis: Axis, places: Sequence[float]) -> list[float]:
    """Where places on an axis are, in points."""
    axes = axis.axes
    on_page = axis.get_transform().transform(np.array(places))
    low, high = axis.get_transform().transform(np.array(axis.get_view_interval()))
    length = axes.bbox.width if axis is axes.xaxis else axes.bbox.height
    return [float(share * length * INCH / axes.figure.figure.dpi) for share in (on_page - low) / (high - low)]


class _Name(NamedTuple):
    """A point's label and its place in data."""

    text: str
    x: float
    y: float


def _names(
    done: pd.DataFrame, up: str, on: tuple[Scale, Scale], colour: str | None, front: list[tuple[float, float]]
) -> list[_Name]:
    """What tells points apart beside their colour, those on the front first; a name for each place once."""
    ways = [way for way in varied(done) if way != colour] or ([colour] if colour else [])
    best = set(front)
    found: dict[tuple[float, float], str] = {}
    for _, case in done.sort_values([MEMORY, up]).iterrows():
        place = (float(case[MEMORY]), float(case[up])) if on[1].places is None else (float(case[MEMORY]), -1.0)
        if place in best or len(done) <= LABELLED:
            found.setdefault(place, ", ".join(level_words(way, case[way]) for way in ways))
    first = sorted(found, key=lambda place: (place not in best, place))
    return [_Name(found[p], on[0].at([p[0]])[0], on[1].at([p[1]])[0]) for p in first if on[1].places is None]


def _label(axes: Axes, names: list[_Name], font: float) -> None:
    """Write each name beside its point where it touches no other name and stays within the axes, else not at all."""
    scale, taken = INCH / axes.figure.figure.dpi, np.empty((0, 4))
    right, top = axes.bbox.width * scale, axes.bbox.height * scale
    for name in names:
        x, y = (axes.transData.transform((name.x, name.y)) - [axes.bbox.x0, axes.bbox.y0]) * scale
        width, gap = text_width(name.text, font), 0.6 * font
        for to_right, above in product((True, False), (True, False)):
            left = x + gap if to_right else x - gap - width
            low = y + 0.3 * font if above else y - 1.4 * font
            box = np.array([left, low, left + width, low + 1.2 * font])
            touches = (taken[:, 0] < box[2]) & (taken[:, 2] > box[0]) & (taken[:, 1] < box[3]) & (taken[:, 3] > box[1])
            if not touches.any() and left >= 0 and low >= 0 and box[2] <= right and box[3] <= top:
                taken = np.vstack([taken, box])
                axes.annotate(
                    name.text, (name.x, name.y), ((left - x), (low - y)), textcoords="offset points", fontsize=font,
                    ha="left", va="bottom", parse_math=False, zorder=6,
                )  # fmt: skip
                break
