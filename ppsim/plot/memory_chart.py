"""The memory chart: what every rank holds over time, by category, and whether it fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ppsim.analysis.result import Result
from ppsim.errors import PpsimError
from ppsim.metrics import Run
from ppsim.metrics import memory as metric
from ppsim.ops import Longs
from ppsim.plan.table import CATEGORIES
from ppsim.plot import density, layout, levels, looks, peaks_chart, scales, style
from ppsim.plot.style import Size, SizeName
from ppsim.plot.view import ranks_shown, run_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PANELS = 8
"""With more ranks than that, some are shown: the first, the last, the one with the highest peak, some between."""
PALE = 0.6
"""How much paler the most that is held is drawn than the mean, where changes are too dense to be drawn."""


def memory(
    result: Result | Run, ax: Axes | None = None, *, ranks: Sequence[int] | None = None, size: SizeName = "notebook"
) -> Axes:
    """What is held over time, stacked by category: a panel per rank, the device's memory as a line, the peaks marked.

    Where not all ranks have a panel, the peaks of all stand above.

    ``ax``: where to draw one rank; by default a figure of its own with a panel for each of ``ranks`` (default: all, or
    eight of them). Returns the Axes of the shown rank with the highest peak, whose ``figure`` holds the others. The x
    axis holds ns and the y axis bytes; their labels say the unit. Raises PpsimError for ranks that aren't there, more
    than one of them for a given ``ax``, an unknown size, or a run that doesn't know its memory.
    """
    run = run_of(result)
    form = style.size_of(size)
    if "memory" not in run.knows:
        raise PpsimError("memory: this run doesn't know what its ops hold; its gantt chart can be plotted")
    shown = _few(run, 1 if ax is not None else MOST_PANELS) if ranks is None else ranks_shown(run, ranks, 0)
    if ax is not None and len(shown) > 1:
        raise PpsimError(f"ranks: {len(shown)} ranks don't fit into one Axes; give one rank, or no ax")
    pixels = form.width * form.dpi / _columns(len(shown), form) if ax is None else ax.bbox.width
    view = _View(run, shown, size, pixels)
    with style.styled(form):
        if ax is None:
            panels = _panels(view, _title(view, None if isinstance(result, Run) else result.schedule.label), form)
        else:
            panels = [ax]
            _frame(ax, view, form)
            width, _ = style.points_of(ax)
            style.add_legend(ax, _legend(view), width, form.font, own=False)
            style.settle(ax)
        for panel, rank in zip(panels, shown, strict=True):
            _draw(panel, view, rank, form)
        if ax is None:
            style.fix(style.figure_of(panels[0]))
    return panels[shown.index(view.highest)]


@dataclass(frozen=True)
class _View:
    run: Run
    ranks: list[int]
    size: SizeName
    pixels: float
    """About how wide a panel is."""

    @cached_property
    def peaks(self) -> Longs:
        """Peak bytes of every rank of the run."""
        return self.run.once(metric.peak_bytes)

    @cached_property
    def highest(self) -> int:
        """The shown rank with the highest peak."""
        return max(self.ranks, key=lambda rank: int(self.peaks[rank]))

    @property
    def end(self) -> int:
        """Where the time axis ends, in ns."""
        return max(self.run.timeline.makespan, 1)

    @cached_property
    def top(self) -> float:
        """Where the memory axis ends, in bytes."""
        peak = max(int(self.peaks[self.highest]), 1)
        capacity = self.run.plan.capacity
        return 1.08 * (
            max(peak, capacity) if capacity is not None and capacity < peaks_chart.FAR_ABOVE * peak else peak
        )

    @cached_property
    def curves(self) -> metric.Curves:
        """The memory of the shown ranks."""
        found = self.run.once(metric.curves)
        here = np.isin(found.rank, self.ranks)
        return metric.Curves(found.rank[here], found.time[here], found.bytes[here])

    @cached_property
    def dense(self) -> bool:
        """Whether a rank's memory changes more often than its panel has pixels."""
        return bool(np.bincount(self.curves.rank).max(initial=0) > self.pixels)

    @cached_property
    def categories(self) -> list[int]:
        """The categories of which a shown rank ever holds anything."""
        return [c for c in range(len(CATEGORIES)) if self.curves.bytes[:, c].any()]


def _few(run: Run, most: int) -> list[int]:
    """All ranks, or ``most`` of them: the one with the highest peak, and others from the first to the last."""
    p = run.plan.ops.ranks
    if p <= most:
        return list(range(p))
    highest = int(np.argmax(run.once(metric.peak_bytes)))
    if most == 1:
        return [highest]
    even = np.linspace(0, p - 1, most).round().astype(int).tolist()
    nearest = min(range(most), key=lambda i: abs(even[i] - highest))
    even[nearest] = highest
    return sorted(set(even))


def _title(view: _View, schedule: str | None) -> str:
    """The chart in one sentence."""
    plan, rank = view.run.plan, int(view.peaks.argmax())
    peak, moment = int(view.peaks[rank]), int(view.run.once(metric.peak_time)[rank])
    fits = ""
    if plan.capacity is not None:
        fits = f": {'within' if peak <= plan.capacity else 'more than'} a device's {scales.size(plan.capacity)}"
    some = f" ({len(view.ranks)} of {plan.ops.ranks:,} ranks shown)" if len(view.ranks) < plan.ops.ranks else ""
    return (
        f"{style.plain(schedule or 'A run')} with p={plan.ops.ranks}, m={plan.microbatches} holds at most "
        f"{scales.size(peak)}, on rank {rank} at {scales.duration(moment)}{fits}{some}"
    )


def _columns(ranks: int, form: Size) -> int:
    """In how many columns the panels stand."""
    return 1 if form.width < 5 or ranks == 1 else 2


def _panels(view: _View, heading: str, form: Size) -> list[Axes]:
    """A grid of axes, a panel for each rank, in a figure as high as they, its title and its legend ask for."""
    columns = _columns(len(view.ranks), form)
    rows = -(-len(view.ranks) // columns)
    legend = _legend(view)
    heading = style.wrapped(heading, form.inside, form.font)
    each = min(16 * form.font / style.INCH, form.most_height / rows)
    above = int(len(view.ranks) < view.run.plan.ops.ranks)
    figure = style.new_figure(form, (rows + above) * each + form.around(heading, legend[1]))
    grid = figure.add_gridspec(rows + above, columns)
    panels: list[Axes] = []
    for place in range(len(view.ranks)):
        shared = {"sharex": panels[0], "sharey": panels[0]} if panels else {}
        panel = figure.add_subplot(grid[above + place // columns, place % columns], **shared)
        _frame(panel, view, form)
        if place + columns < len(view.ranks):
            panel.set_xlabel("")
            panel.tick_params(labelbottom=False)
        if place % columns:
            panel.tick_params(labelleft=False)
        panels.append(panel)
    side = figure.supylabel(panels[0].get_ylabel(), fontsize=form.font)  # one for all: on low panels theirs would touch
    for panel in panels:
        panel.set_ylabel("")
    if above:  # where not every rank has a panel
        axes = peaks_chart.peaks(view.run, figure.add_subplot(grid[0, :]), size=view.size, legend=False)
        axes.set_title("peak of every rank", loc="left", fontsize=style.SMALL * form.font, pad=3)
        axes.set_ylabel("")
    head = figure.suptitle(heading, x=0.01, ha="left", fontsize=form.font, parse_math=False)
    style.add_legend(panels[0], legend, form.inside, form.font, own=True)
    layout.place(figure, head, side)
    return panels


def _frame(axes: Axes, view: _View, form: Size) -> None:
    time, size = scales.fitting(view.end, scales.TIMES), scales.fitting(view.top, scales.SIZES)
    axes.set_xlim(0, view.end)
    axes.set_ylim(0, view.top)
    axes.set_title("rank", loc="left", fontsize=style.SMALL * form.font, pad=3)
    axes.set_xlabel(f"time [{time.name}]", fontsize=form.font, loc="left")
    axes.set_ylabel(f"memory [{size.name}]", fontsize=form.font)
    axes.tick_params(labelsize=style.SMALL * form.font)
    width, height = style.points_of(axes)
    scales.round_ticks(axes.xaxis, 0, view.end, time, most=max(width / (5 * form.font), 1))
    scales.round_ticks(axes.yaxis, 0, view.top, size, most=max(height / (2 * form.font), 1))


def _legend(view: _View) -> style.Entries:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    words = []
    for c in view.categories:
        look = looks.CATEGORIES[CATEGORIES[c]]
        handles.append(Patch(facecolor=look.colour, edgecolor="white", linewidth=0, hatch=look.hatch or None))
        words.append(f"{look.words} up to {scales.size(int(view.curves.bytes[:, c].max()))}")
    if view.dense:
        own = looks.rgb(looks.CATEGORIES[CATEGORIES[view.categories[-1]]].colour)
        handles.append(tuple(Patch(facecolor=looks.paler(own, pale), linewidth=0) for pale in (PALE, 0.0)))
        words.append("at most and on average, where changes are denser than pixels")
    capacity = view.run.plan.capacity
    if capacity is not None:
        handles.append(Line2D([], [], color="black", linestyle=(0, (4, 2)), linewidth=1.2))
        words.append(f"device memory {scales.size(capacity)}{'' if capacity < view.top else ', far above'}")
    handles.append(Line2D([], [], color="black", linestyle="none", marker="v", markersize=4))
    words.append("peak")
    return handles, words


def _draw(axes: Axes, view: _View, rank: int, form: Size) -> None:
    """One rank's panel."""
    mine = view.curves.rank == rank
    time, held = view.curves.time[mine], view.curves.bytes[mine]
    if view.dense:
        reach = density.REACH * style.figure_of(axes).dpi / style.INCH
        most, mean = levels.dense(time, held, view.end, max(round(axes.bbox.width), 1), reach)
        _stack(axes, view, most, "most", PALE)
        _stack(axes, view, mean, "mean", 0.0)
    else:
        _stack(axes, view, levels.exact(time, held, view.end), "memory", 0.0)
    capacity = view.run.plan.capacity
    if capacity is not None and capacity < view.top:
        axes.axhline(capacity, color="black", linestyle=(0, (4, 2)), linewidth=1.2, gid="device-memory")
    peak, moment = int(view.peaks[rank]), int(view.run.once(metric.peak_time)[rank])
    axes.plot([moment], [peak], color="black", marker="v", markersize=4, linestyle="none", gid="peak", clip_on=False)
    heading = f"rank {rank}: peak {scales.size(peak)} at {scales.duration(moment)}"
    axes.set_title(heading, loc="left", fontsize=style.SMALL * form.font, pad=3)


def _stack(axes: Axes, view: _View, steps: levels.Steps, name: str, pale: float) -> None:
    """The categories one above the other, by the ids ``name`` and '-weights'."""
    from matplotlib.patches import StepPatch

    upper = np.cumsum(steps.held, axis=1)
    for c in view.categories:
        look = looks.CATEGORIES[CATEGORIES[c]]
        area = StepPatch(
            upper[:, c], steps.edges, baseline=cast(Any, upper[:, c] - steps.held[:, c]), fill=True, edgecolor="white",
            facecolor=looks.paler(looks.rgb(look.colour), pale), linewidth=0, hatch=look.hatch or None,
            gid=f"{name}-{CATEGORIES[c]}",
        )  # fmt: skip
        axes.add_artist(area)  # add_patch would go through all corners for limits that are set anyway
