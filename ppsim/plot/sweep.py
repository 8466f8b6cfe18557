"""Pictures of a sweep: a figure against what was varied, heat maps, memory by schedule, the Pareto front.

Each takes a sweep's table (``ppsim.read_sweep``) and returns the Figure. Cases that don't fit into memory are hollow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from ppsim.errors import PpsimError, did_you_mean
from ppsim.plot.style import SMALL, SizeName, plain, size_of, styled, text_width
from ppsim.plot.sweep_axes import (
    MOST_GROUPS,
    SCHEDULE,
    column,
    finished,
    fitting,
    levels,
    part,
    scale,
    untold,
    value_words,
    varied,
    words,
)
from ppsim.plot.sweep_pareto import pareto
from ppsim.plot.sweep_parts import (
    AIM,
    BUBBLE,
    MEMORY,
    Plane,
    colours_of,
    dots,
    heading_of,
    legend,
    lines,
    panels_of,
    series,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ACROSS, MOST_CELLS = 30, 200
"""Of a heat map beside each other, and in all, cells have their values written where there are no more."""


def kinds(table: pd.DataFrame) -> list[str]:
    """The pictures that say something about this sweep, by what it varied."""
    done = finished(table)
    ways = varied(done)
    found = ["bubble"] if "microbatches" in ways else []
    if {"ranks", "microbatches"} <= set(ways):
        found.append("heatmap")
    if SCHEDULE in ways and done[MEMORY].notna().any():
        found.append("schedules")
    return [*found, "pareto"]


def draw(table: pd.DataFrame, kind: str, size: SizeName = "notebook", **axes: str) -> Figure:
    """One of the pictures by its name: chart, bubble, heatmap, schedules, pareto; ``axes`` name columns for x, y, ….

    Raises PpsimError for another picture, or an axis that it hasn't.
    """
    drawers: dict[str, tuple[Callable[..., Figure], tuple[str, ...]]] = {
        "chart": (chart, ("x", "y", "hue", "facet")),
        "bubble": (bubble, ()),
        "heatmap": (heatmap, ("x", "y", "hue")),
        "schedules": (schedules, ()),
        "pareto": (pareto, ("y",)),
    }
    if kind not in drawers:
        hint = did_you_mean(kind, drawers) or ";"
        raise PpsimError(f"--kind: a sweep has no picture '{plain(kind)}'{hint} known: {', '.join(drawers)}")
    drawer, known = drawers[kind]
    if foreign := [f"--{name}" for name in axes if name not in known]:
        choice = f"; it has {', '.join(f'--{name}' for name in known)}" if known else ""
        raise PpsimError(f"{', '.join(foreign)}: {kind} has no such axis{choice}")
    return drawer(table, size=size, **axes)


def bubble(table: pd.DataFrame, size: SizeName = "notebook") -> Figure:
    """The bubble against the microbatches, a colour per number of ranks, the closed form as a line."""
    return chart(table, x="microbatches", y=BUBBLE, size=size)


def schedules(table: pd.DataFrame, size: SizeName = "notebook") -> Figure:
    """Peak memory of each schedule, a colour per number of ranks."""
    return chart(table, x="schedule", y=MEMORY, size=size)


class Groups(TypedDict, total=False):
    """What a chart tells by more than its axes: columns by their names."""

    hue: str
    """A colour per value."""
    facet: str
    """A panel per value."""


def chart(
    table: pd.DataFrame,
    x: str | None = None,
    y: str | None = None,
    size: SizeName = "notebook",
    **groups: Unpack[Groups],
) -> Figure:
    """One column against another, a colour per value of ``hue``, a panel per value of ``facet``.

    What isn't named is chosen by what was varied. A name is a column's, or the last part of a parameter's.
    """
    done = finished(table)
    ways = varied(done)
    across = column(done, x, "--x") if x else next((w for w in ("microbatches", *ways) if w in ways), "microbatches")
    up = column(done, y, "--y") if y else BUBBLE
    plane = Plane(across, up, scale(done, across), scale(done, up, wide=True))
    colour, panel = _groups(done, plane, groups)
    form = size_of(size)
    with styled(form):
        figure, panels = panels_of(done, panel, size, 3.4 if plane.along.places is None else 3.0)
        colours = colours_of(done, colour)
        for axes, level in panels:
            cases = part(done, panel, level)
            for group in colours:
                series(axes, part(cases, colour, group.value), plane, group)
            plane.along.dress(axes.xaxis, levels(done, across))
            axes.set_xlabel(plane.along.label(words(across)))
            axes.tick_params(labelbottom=True)
            if up == BUBBLE:
                axes.axhline(AIM / plane.height.of, color="#888888", linewidth=0.6, linestyle=(0, (4, 3)), zorder=0)
            _turned(axes, form.inside / min(len(panels), 3), form.font)
        plane.height.dress(panels[0][0].yaxis, levels(done, up))
        for axes, _ in panels:
            if axes.yaxis.get_tick_params()["labelleft"]:
                axes.set_ylabel(plane.height.label(words(up)))
        legend(figure, done, [*dots(colours, form.font), *lines(done, up)], form.font)
        also = untold(done, (across, up, colour, panel))
        heading_of(figure, f"{words(up)} against {words(across)}{also}", done, form.font)
    return figure


def _groups(done: pd.DataFrame, plane: Plane, named: Groups) -> tuple[str | None, str | None]:
    """The columns that colours and panels tell: those named, else what was varied and is no axis. Raises PpsimError."""
    left = [
        way for way in varied(done) if way not in (plane.across, plane.up) and len(levels(done, way)) <= MOST_GROUPS
    ]
    hue, facet = named.get("hue"), named.get("facet")
    colour = column(done, hue, "--hue") if hue else next((w for w in ("ranks", *left) if w in left), None)
    # Places beside each other hold many cases well enough.
    free = [way for way in left if way != colour and (plane.along.places is None or len(levels(done, way)) <= 3)]
    panel = column(done, facet, "--facet") if facet else next(iter(free), None)
    for name, key in (("--hue", colour), ("--facet", panel)):
        if len(levels(done, key)) > MOST_GROUPS:
            raise PpsimError(f"{name}: {len(levels(done, key))} values of {plain(str(key))}; at most {MOST_GROUPS}")
    return colour, panel


def _turned(axes: Axes, width: float, font: float) -> None:
    """The labels of places that would run into each other, at an angle."""
    labels = axes.get_xticklabels()
    needed = sum(text_width(f"{text.get_text()}  ", SMALL * font) for text in labels)
    if axes.get_xscale() == "linear" and needed > width:
        for text in labels:
            text.set(rotation=20, horizontalalignment="right", rotation_mode="anchor")


def heatmap(
    table: pd.DataFrame,
    x: str = "microbatches",
    y: str = "ranks",
    hue: str = BUBBLE,
    size: SizeName = "notebook",
) -> Figure:
    """A figure over two settings, a panel per schedule; of several cases in a cell the one with the least shows."""
    done = finished(table)
    across, up, shade = column(done, x, "--x"), column(done, y, "--y"), column(done, hue, "--hue")
    panel = SCHEDULE if done[SCHEDULE].nunique() > 1 and SCHEDULE not in (across, up) else None
    columns, rows, tint = levels(done, across), levels(done, up), scale(done, shade)
    form = size_of(size)
    values = np.array(tint.at(done[shade].dropna()))
    with styled(form):
        figure, panels = panels_of(done, panel, size, 0.35 * len(rows) + 1.3)
        for axes, level in panels:
            best = part(done, panel, level).sort_values(shade).drop_duplicates([up, across])
            cells = np.full((len(rows), len(columns)), np.nan)
            unfit = np.zeros(cells.shape, bool)
            for a, b, value, fits in zip(best[up], best[across], tint.at(best[shade]), fitting(best), strict=True):
                cells[rows.index(a), columns.index(b)] = value
                unfit[rows.index(a), columns.index(b)] = not fits
            drawn = axes.imshow(cells, aspect="auto", origin="lower", cmap="cividis_r", vmin=0, vmax=values.max())
            _pale(axes, unfit)
            if len(columns) * min(len(panels), 3) <= MOST_ACROSS and cells.size <= MOST_CELLS:
                _cell_words(axes, cells, unfit, values.max(), form.font)
            step = max(1, -(-len(columns) // (24 // min(len(panels), 3))))
            axes.set_xticks(range(0, len(columns), step), [value_words(done, across, c) for c in columns[::step]])
            axes.set_yticks(range(len(rows)), [value_words(done, up, r) for r in rows])
            axes.set_xlabel(words(across))
            axes.label_outer()
            if axes.yaxis.get_tick_params()["labelleft"]:
                axes.set_ylabel(words(up))
        figure.colorbar(drawn, ax=[axes for axes, _ in panels], label=tint.label(words(shade)), shrink=0.9)
        note = "" if fitting(done).all() else "; hatched: doesn't fit into memory"
        if done.duplicated([key for key in (panel, up, across) if key is not None]).any():
            note = f"{untold(done, (across, up, panel))}: the least shows{note}"
        heading = f"{words(shade)} over {words(up)} and {words(across)}{note}"
        heading_of(figure, heading, done, form.font)
    return figure


def _pale(axes: Axes, unfit: NDArray[np.bool_]) -> None:
    """Cells that don't fit into memory are pale and hatched."""
    from matplotlib.patches import Rectangle

    for row, cases in enumerate(unfit):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], cases.astype(int), [0]])))
        for first, last in edges.reshape(-1, 2):
            box: dict[str, Any] = {"xy": (first - 0.5, row - 0.5), "width": last - first, "height": 1, "linewidth": 0}
            axes.add_patch(Rectangle(**box, facecolor="#ffffff", alpha=0.55))
            axes.add_patch(Rectangle(**box, fill=False, hatch="///", edgecolor="#555555"))


def _cell_words(axes: Axes, cells: NDArray[np.float64], unfit: NDArray[np.bool_], high: float, font: float) -> None:
    """Each cell's value, dark on what is light."""
    for row, place in zip(*np.nonzero(~np.isnan(cells)), strict=True):
        value = cells[row, place]
        text = f"{value:.0f}" if high >= 20 and value >= 9.95 else f"{value:.1f}"
        ink = "#111111" if value < 0.55 * high or unfit[row, place] else "#ffffff"
        axes.text(place, row, text, ha="center", va="center", fontsize=0.75 * font, color=ink)
