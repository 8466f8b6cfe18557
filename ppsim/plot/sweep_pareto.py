"""The Pareto picture of a sweep: a figure against peak memory, and who is beaten by nobody in both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
        points = np.array([on[0].at(done[MEMORY]), on[1].at(done[up])]).T
        heading_of(figure, f"{words(up)} against peak memory", done, form.font)
        settle(axes)
        _ticks(axes.xaxis, on[0].at(levels(done, MEMORY)), SMALL * form.font)
        if on[1].places is None:
            _ticks(axes.yaxis, on[1].at(levels(done, up)), SMALL * form.font)
        _label(axes, _names(done, plane, colour, front), points, 0.9 * SMALL * form.font)
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


def _names(done: pd.DataFrame, plane: Plane, colour: str | None, front: list[tuple[float, float]]) -> list[_Name]:
    """What tells labelled points apart beside their colour, those on the front first; a name for each place once."""
    if plane.height.places is not None:
        return []
    best = set(front)
    cases = done.sort_values([plane.across, plane.up])
    places = list(zip(cases[plane.across].astype(float), cases[plane.up].astype(float), strict=True))
    labelled = cases[[len(done) <= LABELLED or place in best for place in places]]
    ways = [way for way in varied(labelled if len(labelled) > 1 else done) if way != colour]
    ways = ways or [way for way in varied(done) if way != colour] or ([colour] if colour else [])
    found: dict[tuple[float, float], str] = {}
    for _, case in labelled.iterrows():
        place = float(case[plane.across]), float(case[plane.up])
        found.setdefault(place, ", ".join(level_words(done, way, case[way]) for way in ways))
    first = sorted(found, key=lambda place: (place not in best, place))
    return [_Name(found[p], plane.along.at([p[0]])[0], plane.height.at([p[1]])[0]) for p in first]


def _label(axes: Axes, names: list[_Name], points: NDArray[np.float64], font: float) -> None:
    """Write each name beside its point where it touches no point and no other name and stays within the axes.

    Where only points are in the way, over these; else not at all.
    """
    scale = INCH / axes.figure.figure.dpi
    at = (axes.transData.transform(points) - [axes.bbox.x0, axes.bbox.y0]) * scale
    marks, taken = np.hstack([at - 0.25 * font, at + 0.25 * font]), np.empty((0, 4))
    whole = np.array([axes.bbox.width, axes.bbox.height]) * scale
    for name in names:
        x, y = (axes.transData.transform((name.x, name.y)) - [axes.bbox.x0, axes.bbox.y0]) * scale
        free = [
            box
            for box in _boxes_beside(x, y, text_width(name.text, font), font)
            if not _touches(taken, box) and (box[:2] >= 0).all() and (box[2:] <= whole).all()
        ]
        if not free:
            continue
        box = next((box for box in free if not _touches(marks, box)), free[0])
        taken = np.vstack([taken, box])
        axes.annotate(
            name.text, (name.x, name.y), (box[0] - x, box[1] - y), textcoords="offset points", fontsize=font,
            ha="left", va="bottom", parse_math=False, zorder=6,
        )  # fmt: skip


def _boxes_beside(x: float, y: float, width: float, font: float) -> list[NDArray[np.float64]]:
    """Where a name may stand (left, bottom, right, top in points): right of its point or left, above or below."""
    places = [
        (x + 0.6 * font if to_right else x - 0.6 * font - width, y + 0.3 * font if above else y - 1.4 * font)
        for to_right, above in product((True, False), (True, False))
    ]
    return [np.array([left, low, left + width, low + 1.2 * font]) for left, low in places]


def _touches(taken: NDArray[np.float64], box: NDArray[np.float64]) -> bool:
    left, low, right, top = taken.T
    return bool(((left < box[2]) & (right > box[0]) & (low < box[3]) & (top > box[1])).any())
