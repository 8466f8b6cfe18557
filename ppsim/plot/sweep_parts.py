"""What the pictures of a sweep share: points in colours, panels, the legend, the heading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ppsim.plot.style import SMALL, SizeName, new_figure, plain, size_of
from ppsim.plot.sweep_axes import SCHEDULE, Scale, fitting, level_words, levels, scale

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

BUBBLE, MEMORY, STEP = "bubble_ratio", "peak_memory_bytes", "step_time_s"
DEVICE = "device_memory_bytes"
THEORY = "theory."
MARKERS = "osD^vP*XhpH8"
AIM = 0.05
"""The bubble that people aim for is below this."""
APART = (
    "#3b7fb6", "#d9822b", "#1b9e77", "#8d6cab", "#9c3f12", "#555555", "#c2549d", "#7a8b1c", "#4cc0d1", "#222222"
)  # fmt: skip


class Plane(NamedTuple):
    """What a picture is drawn over: a column to the right, one up, each with the scale of its axis."""

    across: str
    up: str
    along: Scale
    height: Scale


class Group(NamedTuple):
    """The cases of one colour: the value that they share, also in words, and how they look."""

    value: Any
    text: str
    colour: str
    marker: str
    aside: float
    """Where groups stand side by side: how far from the middle, in -1/4 to 1/4 of a place."""


def series(axes: Axes, cases: pd.DataFrame, plane: Plane, group: Group) -> None:
    """One colour's cases as points, hollow where they don't fit, and the closed form as a line."""
    across, up, along, height = plane
    cases = cases[cases[across].notna() & cases[up].notna()].sort_values(across)
    if cases.empty:
        return
    at = np.array(along.at(cases[across])) + (0 if along.places is None else group.aside)
    value = np.array(height.at(cases[up]))
    fits = fitting(cases)
    font = float(axes.xaxis.label.get_fontsize())
    marker = {"marker": group.marker, "markersize": (0.45 if len(cases) < 60 else 0.28) * font}
    style: dict[str, Any] = {"linestyle": "", "color": group.colour, **marker}
    if fits.any():
        axes.plot(at[fits], value[fits], **style)
    if not fits.all():
        axes.plot(at[~fits], value[~fits], markerfacecolor="none", markeredgewidth=0.7, **style)
    closed = THEORY + up
    if closed in cases and along.places is None and across != MEMORY:
        known = cases[cases[closed].notna()].drop_duplicates(subset=[across, closed])
        if known[across].is_unique:
            line: dict[str, Any] = {"color": group.colour, "linewidth": 0.9, "alpha": 0.7, "zorder": 1}
            axes.plot(along.at(known[across]), height.at(known[closed]), **line)


def colours_of(done: pd.DataFrame, key: str | None) -> list[Group]:
    """A group for each value of a column, its colour from light to dark where it is a number, else well apart."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    values = levels(done, key)
    last = max(len(values) - 1, 1)
    ramp = colormaps["viridis_r"] if key is not None and len(values) > 1 and scale(done, key).places is None else None
    return [
        Group(
            value,
            "" if key is None else level_words(done, key, value),
            APART[i % len(APART)] if ramp is None else to_hex(ramp(0.15 + 0.85 * i / last)),
            MARKERS[i % len(MARKERS)],
            0.5 * (i / last - 0.5) if len(values) > 1 else 0.0,
        )
        for i, value in enumerate(values)
    ]


def panels_of(
    done: pd.DataFrame, key: str | None, size: SizeName, height: float
) -> tuple[Figure, list[tuple[Axes, Any]]]:
    """A figure with a panel per value of a column, up to three beside each other."""
    form = size_of(size)
    groups = levels(done, key)
    beside = min(len(groups), 1 if size == "paper" else 2 if len(groups) == 4 else 3)
    beneath = -(-len(groups) // beside)
    figure = new_figure(form, min(height * beneath + 0.6, 1.6 * form.most_height))
    grid = figure.subplots(beneath, beside, squeeze=False, sharex=True, sharey=True)
    panels = list(zip(grid.flat, groups, strict=False))
    for axes in grid.flat[len(groups) :]:
        axes.set_visible(False)
    if key is not None:
        for axes, level in panels:
            axes.set_title(level_words(done, key, level), fontsize=form.font)
    return figure, panels


def dots(groups: Sequence[Group], font: float) -> list[Line2D]:
    """What the legend shows of the colours, where there are any to tell apart."""
    from matplotlib.lines import Line2D

    looks: dict[str, Any] = {"linestyle": "", "markersize": 0.45 * font}
    return [Line2D([], [], marker=g.marker, color=g.colour, label=g.text, **looks) for g in groups if g.text]


def lines(done: pd.DataFrame, up: str) -> list[Line2D]:
    """What the legend shows of the closed form of a figure, of who has none, and of what people aim for."""
    from matplotlib.lines import Line2D

    found = []
    if f"{THEORY}{up}" in done and done[f"{THEORY}{up}"].notna().any():
        found.append(Line2D([], [], color="#555555", linewidth=0.9, label="closed form"))
    if missing := _without_form(done, up):
        found.append(Line2D([], [], linestyle="", label=f"no closed form: {missing}"))
    if up == BUBBLE:
        found.append(Line2D([], [], color="#888888", linewidth=0.6, linestyle=(0, (4, 3)), label=f"{100 * AIM:g} %"))
    return found


def legend(figure: Figure, done: pd.DataFrame, handles: Sequence[Line2D], font: float) -> None:
    """What the picture shows, and what hollow means; beneath it."""
    from matplotlib.lines import Line2D

    shown = list(handles)
    if not fitting(done).all():
        hollow: dict[str, Any] = {"marker": "o", "markersize": 0.45 * font, "markerfacecolor": "none"}
        hollow["color"] = "#555555"
        shown.append(Line2D([], [], linestyle="", label="doesn't fit into memory", **hollow))
    if shown:
        columns = min(len(shown), 6 if figure.get_figwidth() > 5 else 3)
        figure.legend(handles=shown, loc="outside lower left", ncols=columns, fontsize=SMALL * font)


def _without_form(done: pd.DataFrame, up: str) -> str:
    """The schedules of which no closed form of a figure is known, where there are closed forms of it at all."""
    form = THEORY + up
    if form not in done:
        return ""
    known = done.groupby(SCHEDULE)[form].count()
    names = [level_words(done, SCHEDULE, name) for name in known[known == 0].index]
    return ", ".join([*names[:4], *(["…"] if len(names) > 4 else [])])


def heading_of(figure: Figure, text: str, done: pd.DataFrame, font: float) -> None:
    """The figure's title: the sweep's name, the picture in words, how many cases."""
    name = str(done.attrs.get("name", ""))
    figure.suptitle(
        plain(f"{name}: {text} ({len(done):,} cases)" if name else f"{text} ({len(done):,} cases)"), x=0.01, ha="left",
        fontsize=font * 1.1, parse_math=False,
    )  # fmt: skip
