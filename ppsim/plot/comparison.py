"""Results side by side: Gantt charts under one time axis, and where the time of each goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppsim.compare import Comparison
from ppsim.plot import scales, style
from ppsim.plot.gantt_chart import gantt
from ppsim.plot.style import SMALL, SizeName
from ppsim.whatif import PARTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, in steps of lightness, so that they can be told apart in grey as well.
PART_LOOKS = {
    "work": ("#56B4E9", ""),
    "ideal_bubble": ("#F0E442", "..."),
    "imbalance": ("#E69F00", "///"),
    "recomputation": ("#009E73", ""),
    "communication": ("#CC79A7", "xxx"),
}


def charts(comparison: Comparison, size: SizeName = "notebook") -> Figure:
    """The Gantt charts of all results beneath each other, over one and the same time axis."""
    form = style.size_of(size)
    count = len(comparison.results)
    lines = [
        form.row * 0.7 * min(max(result.plan.ranks, 2), 16) + 5.5 * form.font / 72 for result in comparison.results
    ]
    with style.styled(form):
        figure = style.new_figure(form, sum(lines) + 9 * form.font / 72)
        grid = figure.add_gridspec(count, 1, height_ratios=lines)
        longest = max(result.timeline.makespan for result in comparison.results)
        for row, (result, label) in enumerate(zip(comparison.results, comparison.labels, strict=True)):
            axes = figure.add_subplot(grid[row])
            gantt(result, axes, window=(0, longest / 1e9), size=size)
            axes.set_title("")
            axes.set_title(
                style.plain(_title(comparison, row, label)), fontsize=form.font, loc="left", parse_math=False
            )
            legend = axes.get_legend()
            if row < count - 1:
                axes.set_xlabel("")
                if legend is not None:
                    legend.remove()
    return figure


def _title(comparison: Comparison, row: int, label: str) -> str:
    from ppsim.display import percent, seconds, size

    found = comparison.rows[row]
    front = ", on the Pareto front" if found["pareto"] else ""
    return (
        f"{label}: {seconds(found['makespan_s'])}, bubble {percent(found['bubble_ratio'])}, "
        f"peak {size(found['peak_memory_bytes'])}{front}"
    )


def split(comparison: Comparison, ax: Axes | None = None, size: SizeName = "notebook") -> Axes:
    """One bar per result: work, ideal bubble, imbalance, recomputation, communication; what fixing each would win."""
    form = style.size_of(size)
    longest = max(result.timeline.makespan for result in comparison.results)
    unit = scales.fitting(longest, scales.TIMES)
    with style.styled(form):
        own = ax is None
        if ax is None:
            figure = style.new_figure(form, form.row * max(len(comparison.results), 2) + 8 * form.font / 72)
            ax = figure.add_subplot()
        left = [0.0] * len(comparison.results)
        for part in PARTS:
            values = [getattr(found, part) / unit.of for found in comparison.splits]
            colour, hatch = PART_LOOKS[part]
            ax.barh(
                range(len(values)), values, left=left, height=0.65, color=colour, hatch=hatch, edgecolor="#333333",
                linewidth=0.4, label=part.replace("_", " "),
            )  # fmt: skip
            left = [a + b for a, b in zip(left, values, strict=True)]
        ax.set_yticks(range(len(left)), [style.plain(label) for label in comparison.labels], parse_math=False)
        ax.invert_yaxis()
        ax.set_xlabel(f"time [{unit.name}]")
        ax.set_title("What a step is made of, and what fixing each part would win", fontsize=form.font, loc="left")
        if own:
            ax.figure.legend(loc="outside lower left", ncols=len(PARTS), fontsize=SMALL * form.font)
        else:
            ax.legend(fontsize=SMALL * form.font)
    return ax
