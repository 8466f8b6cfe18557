"""The memory chart: what every rank holds over time, by category, and whether it fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ppsim.errors import PpsimError
from ppsim.metrics import Run
from ppsim.metrics import memory as metric
from ppsim.plan.table import CATEGORIES, Longs
from ppsim.plot import looks, scales
from ppsim.plot.style import (
    INCH, SMALL, Size, SizeName, as_written, legend_columns, new_figure, plain, size_of, styled, wrapped,
)  # fmt: skip
from ppsim.plot.view import ranks_shown
from ppsim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PANELS = 8
"""With more ranks than that, some are shown: the first, the last, the one with the highest peak, some between."""
FAR_ABOVE = 3
"""The device's memory is a line in the chart unless it is that many times the highest peak, which it would flatten."""


def memory(
    result: Result | Run, ax: Axes | None = None, *, ranks: Sequence[int] | None = None, size: SizeName = "notebook"
) -> Axes:
    """What is held over time, stacked by category: a panel per rank, the device's memory as a line, the peaks marked.

    ``ax``: where to draw one rank; by default a figure of its own with a panel for each of ``ranks`` (default: all, or
    eight of them). Returns the Axes of the shown rank with the highest peak, whose ``figure`` holds the others. The x
    axis holds ns and the y axis bytes; their labels say the unit. Raises PpsimError for ranks that aren't there, more
    than one of them for a given ``ax``, an unknown size, or a run that doesn't know its memory.
    """
    run = result if isinstance(result, Run) else result.run
    form = size_of(size)
    if "memory" not in run.knows:
        raise PpsimError("memory: this run doesn't know what its ops hold, as one read from a trace; plot its gantt chart")
    shown = _few(run, 1 if ax is not None else MOST_PANELS) if ranks is None else ranks_shown(run, ranks, 0)
    if ax is not None and len(shown) > 1:
        raise PpsimError(f"ranks: {len(shown)} ranks don't fit into one Axes; give one rank, or no ax")
    view = _View(run, shown)
    with styled(form):
        heading = plain(_title(view, None if isinstance(result, Run) else result.schedule.name))
        panels = _panels(view, heading, form) if ax is None else [ax]
        for panel, rank in zip(panels, shown, strict=True):
            _draw(panel, view, rank, form)
        if ax is not None:
            handles, words = _legend(view)
            as_written(ax.legend(handles, words, loc="upper right"))
    return panels[shown.index(view.highest)]


@dataclass(frozen=True)
class _View:
    run: Run
    ranks: list[int]

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
        return 1.08 * (max(peak, capacity) if capacity is not None and capacity < FAR_ABOVE * peak else peak)

    @cached_property
    def curves(self) -> metric.Curves:
        """The memory of the shown ranks."""
        found = self.run.once(metric.curves)
        here = np.isin(found.rank, self.ranks)
        return metric.Curves(found.rank[here], found.time[here], found.bytes[here])

    @property
    def categories(self) -> list[int]:
        """The categories of which a shown rank ever holds anything."""
        return [c for c in range(len(CATEGORIES)) if self.curves.bytes[:, c].any()]


def _few(run: Run, most: int) -> list[int]:
    """All ranks, or ``most`` of them: the one with the highest peak, and others from the first to the last."""
    p = run.plan.ranks
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
    run, capacity = view.run, view.run.plan.capacity
    peak = int(view.peaks.max())
    rank = int(view.peaks.argmax())
    moment = scales.duration(int(run.once(metric.peak_time)[rank]))
    text = (
        f"{schedule or 'A run'} with p={run.plan.ranks}, m={run.plan.microbatches} holds at most {scales.size(peak)}, "
        f"on rank {rank} at {moment}"
    )
    if capacity is not None:
        text += f": {'within' if peak <= capacity else 'MORE than'} a device's {scales.size(capacity)}"
    return text if len(view.ranks) == run.plan.ranks else f"{text} ({len(view.ranks)} of {run.plan.ranks:,} ranks shown)"


def _panels(view: _View, heading: str, form: Size) -> list[Axes]:
    columns = 1 if form.width < 5 or len(view.ranks) == 1 else 2
    rows = -(-len(view.ranks) // columns)
    inside = form.width * INCH - 3 * form.font
    handles, words = _legend(view)
    ncols = legend_columns(words, inside, SMALL * form.font)
    heading = wrapped(heading, inside, form.font)
    around = 4.5 + 1.3 * (heading.count("\n") + 1) + 1.45 * SMALL * -(-len(words) // ncols)
    each = min(max(12 * form.font / INCH, 2.4 * form.row), form.most_height / rows)
    figure = new_figure(form, rows * (each + 2 * form.font / INCH) + (around * form.font + 12) / INCH)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel().tolist()
    for empty in panels[len(view.ranks) :]:
        empty.remove()
        panels[len(view.ranks) - 2].tick_params(labelbottom=False)
    figure.suptitle(heading, x=0.01, ha="left", fontsize=form.font, parse_math=False)
    as_written(figure.legend(handles, words, loc="outside lower left", ncols=ncols))
    used: list[Axes] = panels[: len(view.ranks)]
    for panel in used[-columns:]:
        panel.tick_params(labelbottom=True)
        panel.set_xlabel(f"time [{scales.fitting(view.end, scales.TIMES).name}]", fontsize=form.font, loc="left")
    for panel in used[::columns]:
        panel.set_ylabel(f"memory [{scales.fitting(view.top, scales.SIZES).name}]", fontsize=form.font)
    return used


def _legend(view: _View) -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    words = []
    for c in view.categories:
        look = looks.CATEGORIES[CATEGORIES[c]]
        hatch = {"hatch": look.hatch} if look.hatch else {}
        handles.append(Patch(facecolor=look.colour, edgecolor="white", linewidth=0, **hatch))
        words.append(f"{look.words} up to {scales.size(int(view.curves.bytes[:, c].max()))}")
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
    few = _fewer(time, held.sum(axis=1), view.end / max(axes.bbox.width, 1))
    time = np.append(time[few], view.end)
    held = held[np.append(few, few[-1])]
    upper = np.cumsum(held, axis=1)
    for c in view.categories:
        look = looks.CATEGORIES[CATEGORIES[c]]
        axes.fill_between(
            time, upper[:, c] - held[:, c], upper[:, c], step="post", facecolor=look.colour, edgecolor="white",
            linewidth=0, hatch=look.hatch or None, gid=f"memory-{CATEGORIES[c]}",
        )  # fmt: skip
    capacity = view.run.plan.capacity
    if capacity is not None and capacity < view.top:
        axes.axhline(capacity, color="black", linestyle=(0, (4, 2)), linewidth=1.2, gid="device-memory")
    peak, moment = int(view.peaks[rank]), int(view.run.once(metric.peak_time)[rank])
    axes.plot([moment], [peak], color="black", marker="v", markersize=4, linestyle="none", gid="peak", clip_on=False)
    axes.set_xlim(0, view.end)
    axes.set_ylim(0, view.top)
    heading = f"rank {rank}: peak {scales.size(peak)} at {scales.duration(moment)}"
    axes.set_title(heading, loc="left", fontsize=SMALL * form.font, pad=3)
    points = INCH / axes.figure.dpi
    time_unit, size_unit = scales.fitting(view.end, scales.TIMES), scales.fitting(view.top, scales.SIZES)
    scales.round_ticks(axes.xaxis, 0, view.end, time_unit, most=max(axes.bbox.width * points / (7 * form.font), 1))
    scales.round_ticks(axes.yaxis, 0, view.top, size_unit, most=max(axes.bbox.height * points / (2 * form.font), 1))


def _fewer(time: Longs, total: Longs, pixel: float) -> Longs:
    """Indices of at most four moments per pixel: the first, the last, the lowest and the highest."""
    if len(time) < 4:
        return np.arange(len(time))
    column = np.floor(time / pixel).astype(np.int64)
    ends = np.flatnonzero(np.diff(column, append=-1))
    first = np.append(0, ends[:-1] + 1)
    by_level = np.lexsort((total, column))
    return np.unique(np.concatenate([first, ends, by_level[first], by_level[ends]]))
