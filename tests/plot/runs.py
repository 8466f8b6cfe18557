"""Runs to draw, and what was drawn: read back from the Axes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

import ppsim

MS = 10**6
COSTS: dict[str, Any] = {
    "per": "stage", "forward": "10 ms", "backward": "20 ms", "activation": "1 GiB", "message": "56 MiB",
    "weights": "4 GiB",
}  # fmt: skip
HALVES = {key: value for key, value in COSTS.items() if key != "backward"} | {
    "input_grad": "11 ms", "weight_grad": "9 ms", "held_for_weight_grad": "0.5 GiB", "optimizer": "15 ms",
}  # fmt: skip
SLOW = {"inter_node": {"bandwidth": "5 GB/s", "latency": "2 ms"}}


def run(schedule: Any, p: int, m: int, costs: dict[str, Any] | None = None, **more: Any) -> ppsim.Result:
    pipeline = {"ranks": p, "microbatches": m, **more.pop("pipeline", {})}
    return ppsim.simulate(
        ppsim.Experiment(schedule=schedule, pipeline=pipeline, costs=COSTS if costs is None else costs, **more)
    )


def rectangles(axes: Axes, name: str) -> np.ndarray:
    """(left, right, top, bottom) of all bars of the collection with that id; none where there isn't one."""
    found = [collection for collection in axes.collections if collection.get_gid() == name]
    if not found:
        return np.empty((0, 4))
    (collection,) = found
    corners = np.array([path.vertices[:4] for path in collection.get_paths()])
    x, y = corners[:, :, 0], corners[:, :, 1]
    return np.stack([x.min(axis=1), x.max(axis=1), y.min(axis=1), y.max(axis=1)], axis=1)


def lines(bars: np.ndarray) -> np.ndarray:
    """The line that each rectangle is on."""
    return np.round((bars[:, 2] + bars[:, 3]) / 2).astype(int)


def spans(axes: Axes, name: str) -> set[tuple[int, int, int]]:
    """(line, start, end) in ns of the bars of a collection."""
    bars = rectangles(axes, name)
    return {(int(line), int(bar[0]), int(bar[1])) for line, bar in zip(lines(bars), bars, strict=True)}


def ids(axes: Axes) -> set[str]:
    return {str(collection.get_gid()) for collection in axes.collections}


def legend_texts(figure: Figure) -> list[str]:
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    return [text.get_text().replace("\u00a0", " ") for legend in legends if legend for text in legend.get_texts()]


def title(axes: Axes) -> str:
    return axes.get_title("left").replace("\u00a0", " ").replace("\n", " ")


def texts(figure: Figure) -> list[tuple[str, Bbox]]:
    """Every text that is seen, with its place in pixels; of ticks only those within the axis."""
    figure.draw_without_rendering()
    hidden = {id(t) for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for t in _unseen(axis)}
    seen = [t for t in figure.findobj(Text) if t.get_text().strip() and t.get_visible() and id(t) not in hidden]
    return [(text.get_text(), text.get_window_extent()) for text in seen]


def _unseen(axis: Any) -> list[Text]:
    """Labels of ticks that matplotlib keeps but doesn't draw: those out of view, and all where they are turned off."""
    low, high = sorted(axis.get_view_interval())
    out = []
    for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
        if not low <= tick.get_loc() <= high or not tick.label1.get_visible():
            out += [tick.label1]
        out += [tick.label2]
    return out


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts that touch."""
    return [(a, b) for (a, box), (b, other) in combinations(texts(figure), 2) if box.overlaps(other)]


def outside(figure: Figure) -> list[str]:
    """Texts that don't lie wholly within the figure."""
    page = figure.bbox
    return [
        text for text, box in texts(figure)
        if box.x0 < page.x0 or box.y0 < page.y0 or box.x1 > page.x1 or box.y1 > page.y1
    ]  # fmt: skip
