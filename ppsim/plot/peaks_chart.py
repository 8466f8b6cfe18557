"""The peaks chart: what every rank holds at its peak, by category, a bar per rank, however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ppsim.analysis.result import Result
from ppsim.errors import PpsimError
from ppsim.metrics import Run
from ppsim.metrics import memory as metric
from ppsim.plan.table import CATEGORIES
from ppsim.plot import looks, scales, style
from ppsim.plot.style import Size, SizeName
from ppsim.plot.view import run_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ppsim.analysis.measured.result import MeasuredResult

APART = 64
"""Up to so many ranks there are gaps between the bars."""
FAR_ABOVE = 3
"""The device's memory is a line in the chart unless it is that many times the highest peak, which it would flatten."""


def peaks(
    result: Result | MeasuredResult | Run, ax: Axes | None = None, *, size: SizeName = "notebook", legend: bool = True
) -> Axes:
    """A bar per rank: what it holds at its peak, stacked by category; the device's memory as a line.

    ``ax``: where to draw; by default a figure of its own. The y axis holds bytes, its label says the unit.
    Raises PpsimError for an unknown size, or a run that doesn't know its memory.
    """
    run = run_of(result)
    form = style.size_of(size)
    if "memory" not in run.knows:
        raise PpsimError("peaks: this run doesn't know what its ops hold; its gantt chart can be plotted")
    held = run.once(metric.peak_by_category)
    with style.styled(form):
        entries = _legend(run)
        if ax is None:
            heading = style.wrapped(_title(run, result), form.inside, form.font)
            figure = style.new_figure(form, 0.4 * form.most_height + form.around(heading, entries[1]))
            axes = figure.add_subplot()
            axes.set_title(heading, loc="left", fontsize=form.font, parse_math=False)
        else:
            axes = ax
        _bars(axes, held)
        _frame(axes, run, form)
        if legend:
            width = form.inside if ax is None else style.points_of(axes)[0]
            style.add_legend(axes, entries, width, form.font, own=ax is None)
        if ax is None:
            style.settle(axes)
            style.fix(style.figure_of(axes))
    return axes


def _bars(axes: Axes, held: Any) -> None:
    """One collection per category, by the id 'peaks-weights'."""
    from matplotlib.collections import PolyCollection

    ranks = held.shape[1]
    half = 0.4 if ranks <= APART else 0.5
    upper = np.cumsum(held, axis=0)
    for c, name in enumerate(CATEGORIES):
        there = np.flatnonzero(held[c])
        if not len(there):
            continue
        corners = np.empty((len(there), 4, 2))
        corners[:, (0, 1), 0], corners[:, (2, 3), 0] = (there - half)[:, None], (there + half)[:, None]
        corners[:, (0, 3), 1] = upper[c, there][:, None]
        corners[:, (1, 2), 1] = (upper[c] - held[c])[there][:, None]
        look = looks.CATEGORIES[name]
        drawn = PolyCollection(
            list(corners), facecolors=look.colour, edgecolors="white", linewidths=0,
            hatch=look.hatch if ranks <= APART else None,
        )  # fmt: skip
        drawn.set_gid(f"peaks-{name}")
        axes.add_collection(drawn, autolim=False)


def _frame(axes: Axes, run: Run, form: Size) -> None:
    top, ranks = _top(run), run.plan.ops.ranks
    unit = scales.fitting(top, scales.SIZES)
    capacity = run.plan.capacity
    if capacity is not None and capacity < top:
        axes.axhline(capacity, color="black", linestyle=(0, (4, 2)), linewidth=1.2, gid="device-memory")
    axes.set_xlim(-0.5, ranks - 0.5)
    axes.set_ylim(0, top)
    axes.set_xlabel("rank", fontsize=form.font, loc="left")
    axes.set_ylabel(f"peak memory [{unit.name}]", fontsize=form.font)
    axes.tick_params(labelsize=style.SMALL * form.font)
    width, height = style.points_of(axes)
    every = 1
    while ranks / every * style.text_width("0" * (len(str(ranks)) + 1), form.font) > width:
        every *= 2
    axes.set_xticks(range(0, ranks, every))
    scales.round_ticks(axes.yaxis, 0, top, unit, most=max(height / (2 * form.font), 1))


def _top(run: Run) -> float:
    peak = max(int(run.once(metric.peak_bytes).max()), 1)
    capacity = run.plan.capacity
    return 1.08 * (max(peak, capacity) if capacity is not None and capacity < FAR_ABOVE * peak else peak)


def _title(run: Run, result: Result | MeasuredResult | Run) -> str:
    """The chart in one sentence."""
    schedule = "A run" if isinstance(result, Run) else style.plain(result.schedule.label)
    all_ = run.once(metric.peak_bytes)
    low, high = int(all_.min()), int(all_.max())
    span = scales.size(high) if low == high else f"{scales.size(low)} to {scales.size(high)}"
    capacity, fits = run.plan.capacity, ""
    if capacity is not None:
        over = int((all_ > capacity).sum())
        few = f"{over} of {len(all_):,} ranks hold more than" if over else "within"
        fits = f": {few} a device's {scales.size(capacity)}"
    return f"{schedule} with p={run.plan.ops.ranks}, m={run.plan.microbatches} holds {span} at its ranks' peaks{fits}"


def _legend(run: Run) -> style.Entries:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    held = run.once(metric.peak_by_category)
    handles: list[Any] = []
    words = []
    for c, name in enumerate(CATEGORIES):
        if held[c].any():
            look = looks.CATEGORIES[name]
            handles.append(Patch(facecolor=look.colour, edgecolor="white", linewidth=0, hatch=look.hatch or None))
            words.append(look.words)
    capacity = run.plan.capacity
    if capacity is not None:
        handles.append(Line2D([], [], color="black", linestyle=(0, (4, 2)), linewidth=1.2))
        words.append(f"device memory {scales.size(capacity)}{'' if capacity < _top(run) else ', far above'}")
    return handles, words
