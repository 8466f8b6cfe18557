"""Where the axes of a figure stand: as matplotlib's constrained layout has it, but measured once.

That measures all texts twice, since labels may change with the size of their axes, which takes a third of the time of
a picture. Ours don't: their ticks are settled before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ppsim.plot.bars import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase
    from matplotlib.figure import Figure
    from matplotlib.text import Text

PAD = 3.0
"""Points around whatever stands beside something else."""
APART = 0.02
"""Of the figure, the least that lies between the axes of a grid, all its gaps together."""


def place(figure: Figure, head: Text | None = None, side: Text | None = None) -> None:
    """Give the axes of a grid their place: under the title, right of the label at the side, over the legend."""
    grids = [(axes, spec) for axes in figure.axes if (spec := axes.get_subplotspec()) is not None]
    grid = grids[0][1].get_gridspec()
    width, height = figure.bbox.size
    pad = PAD / 72 * figure.dpi
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    left = 0.0
    if side is not None:
        side.set_x(pad / width)
        left = side.get_window_extent(renderer).width + 2 * pad
    top = 0.0
    if head is not None:
        head.set_y(1 - pad / height)
        top = head.get_window_extent(renderer).height + 2 * pad
    foot = sum(legend.get_window_extent(renderer).height + 2 * pad for legend in figure.legends)
    beyond = np.array([_beyond(axes, renderer) for axes, _ in grids])
    x = _spans([spec.colspan for _, spec in grids], beyond[:, (0, 2)], np.ones(grid.ncols), (left, 0.0, width), pad)
    levels = np.array(grid.get_height_ratios(), float)
    y = _spans([spec.rowspan for _, spec in grids], beyond[:, (3, 1)], levels, (top, foot, height), pad)
    for (axes, _), (first, last), (above, below) in zip(grids, x.tolist(), y.tolist(), strict=True):
        axes.set_position((first, 1 - below, last - first, below - above))


def _beyond(axes: Axes, renderer: RendererBase) -> Floats:
    """How far ticks, labels and title reach beyond the axes: left, below, right, above, in pixels."""
    own, seen = axes.bbox, axes.get_tightbbox(renderer, for_layout_only=True, bbox_extra_artists=[])
    if seen is None:
        return np.zeros(4)
    return np.maximum([own.x0 - seen.x0, own.y0 - seen.y0, seen.x1 - own.x1, seen.y1 - own.y1], 0)


def _spans(spans: list[range], beyond: Floats, ratios: Floats, outer: tuple[float, float, float], pad: float) -> Floats:
    """Where each axes begins and ends along one direction, as shares of the figure.

    ``spans``: their cells; ``beyond``: what they need before and after; ``ratios``: the cells' sizes to each other;
    ``outer``: what is taken at both ends of the figure, and its size.
    """
    before, after, size = outer
    cells = len(ratios)
    gap = max(pad, APART / 2 / cells * size)
    margin = np.zeros((2, cells))
    for span, needs in zip(spans, beyond, strict=True):
        for end, cell, inner in ((0, span[0], span[0] > 0), (1, span[-1], span[-1] + 1 < cells)):
            margin[end, cell] = max(margin[end, cell], needs[end] + (gap if inner else pad))
    lengths = (size - before - after - margin.sum()) * ratios / ratios.sum()
    ends = before + np.cumsum(margin.sum(axis=0) + lengths) - margin[1]
    return np.array([(ends[span[0]] - lengths[span[0]], ends[span[-1]]) for span in spans]) / size
