"""What the pictures of a sweep share: points in colours, panels, the legend, the heading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ppsim.plot.style import SMALL, SizeName, new_figure, plain, size_of
from ppsim.plot.sweep_axes import SCHEDULE, fitting, level_words, levels, scale

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BUBBLE, MEMORY, STEP = "bubble_ratio", "peak_memory_bytes", "step_time_s"
DEVICE = "device_memory_bytes"
THEORY = "theory."
MARKERS = "osD^vP*XhpH8"
AIM = 0.05
"""The bubble that people aim for is below this."""
APART = (
    "#3b7fb6", "#d9822b", "#1b9e77", "#8d6cab", "#9c3f12", "#555555", "#c2549d", "#7a8b1c", "#4cc0d1", "#222222"
)  # fmt: skip


def series(
    axes: Axes, cases: pd.DataFrame, across: str, up: str, on: tuple[Any, Any], paint: Any, number: int, groups: int
) -> None:
    """One colour's cases as points, hollow where they don't fit, and the closed form as a line."""
    along, height = on
    cases = cases[cases[across].notna() & cases[up].notna()].sort_values(across)
    if cases.empty:
        return
    at = np.array(along.at(cases[across]))
    if along.places is not None and groups > 1:
        at = at + 0.5 * (number / (groups - 1) - 0.5)
    value = np.array(height.at(cases[up]))
    fits = fitting(cases)
    font = float(axes.xaxis.label.get_fontsize())
    marker = {"marker": MARKERS[number % len(MARKERS)], "markersize": (0.45 if len(cases) < 60 else 0.28) * font}
    style: dict[str, Any] = {"linestyle": "", "color": paint, **marker}
    if fits.any():
        axes.plot(at[fits], value[fits], **style)
    if not fits.all():
        axes.plot(at[~fits], value[~fits], markerfacecolor="none", markeredgewidth=0.7, **style)
    closed = THEORY + up
    if closed in cases and along.places is None and across != MEMORY:
        known = cases[cases[closed].notna()].drop_duplicates(subset=[across, closed])
        if known[across].is_unique:
            line: dict[str, Any] = {"color": paint, "linewidth": 0.9, "alpha": 0.7, "zorder": 1}
            axes.plot(along.at(known[across]), height.at(known[closed]), **line)


def colours_of(done: pd.DataFrame, key: str | None) -> list[tuple[Any, Any]]:
    """(value, colour) for each value of a column: from light to dark where it is a number, else well apart."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    groups = levels(done, key)
    if key is not None and scale(done, key).places is None and len(groups) > 1:
        ramp = colormaps["viridis_r"]
        return [(g, to_hex(ramp(0.15 + 0.85 * i / (len(groups) - 1)))) for i, g in enumerate(groups)]
    return [(group, APART[i % len(APART)]) for i, group in enumerate(groups)]


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
            axes.set_title(level_words(key, level), fontsize=form.font)
    return figure, panels


def legend(
    figure: Figure, done: pd.DataFrame, groups: Sequence[tuple[str, Any]], up: str, font: float, **more: Any
) -> None:
    """Colours and markers, the closed form and who has none, what hollow means; beneath the picture.

    ``front``: whether there is a Pareto front; ``device``: what is to be said of the device's memory.
    """
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], linestyle="", marker=MARKERS[i % len(MARKERS)], markersize=0.45 * font, color=paint, label=text)
        for i, (text, paint) in enumerate(groups)
    ]
    if f"{THEORY}{up}" in done and done[f"{THEORY}{up}"].notna().any():
        handles.append(Line2D([], [], color="#555555", linewidth=0.9, label="closed form"))
    if missing := _without_form(done, up):
        handles.append(Line2D([], [], linestyle="", label=f"no closed form: {missing}"))
    if up == BUBBLE:
        handles.append(Line2D([], [], color="#888888", linewidth=0.6, linestyle=(0, (4, 3)), label=f"{AIM:.0%}"))
    if more.get("front"):
        handles.append(Line2D([], [], color="#222222", linewidth=1.0, label="none beats these in both"))
    if more.get("device"):
        handles.append(Line2D([], [], color="black", linestyle=(0, (4, 2)), linewidth=1.2, label=more["device"]))
    if not fitting(done).all():
        hollow: dict[str, Any] = {"marker": "o", "markersize": 0.45 * font, "markerfacecolor": "none"}
        hollow["color"] = "#555555"
        handles.append(Line2D([], [], linestyle="", label="doesn't fit into memory", **hollow))
    if handles:
        columns = min(len(handles), 6 if figure.get_figwidth() > 5 else 3)
        figure.legend(handles=handles, loc="outside lower left", ncols=columns, fontsize=SMALL * font)


def _without_form(done: pd.DataFrame, up: str) -> str:
    """The schedules of which no closed form of a figure is known, where there are closed forms of it at all."""
    form = THEORY + up
    if form not in done:
        return ""
    known = done.groupby(SCHEDULE)[form].count()
    names = [level_words(SCHEDULE, name) for name in known[known == 0].index]
    return ", ".join([*names[:4], *(["…"] if len(names) > 4 else [])])


def heading_of(figure: Figure, text: str, done: pd.DataFrame, font: float) -> None:
    """The figure's title: the sweep's name, the picture in words, how many cases."""
    name = str(done.attrs.get("name", ""))
    figure.suptitle(
        plain(f"{name}: {text} ({len(done):,} cases)" if name else f"{text} ({len(done):,} cases)"), x=0.01, ha="left",
        fontsize=font * 1.1, parse_math=False,
    )  # fmt: skip
