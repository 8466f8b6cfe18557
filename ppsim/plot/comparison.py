"""Results side by side: Gantt charts under one time axis, and where the time of each goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppsim.analysis.whatif import PARTS
from ppsim.errors import PpsimError
from ppsim.plot import gantt_chart, scales, style
from ppsim.plot.style import SMALL, SizeName
from ppsim.plot.view import View, ranks_shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ppsim.analysis.compare import Comparison

CHART_ROW = 0.6
"""The height of a line in stacked charts, of that in a chart alone."""
MOST_ROWS = 12
"""Charts of more ranks are as high as of so many."""
# Okabe and Ito's colours, in steps of lightness, so that they can be told apart in grey as well.
PART_LOOKS = {
    "work": ("#56B4E9", ""),
    "ideal_bubble": ("#F0E442", "..."),
    "imbalance": ("#E69F00", "///"),
    "recomputation": ("#009E73", ""),
    "communication": ("#CC79A7", "xxx"),
}


def charts(comparison: Comparison, size: SizeName = "notebook") -> Figure:
    """The Gantt charts of all results beneath each other, over one and the same time axis, with one legend."""
    form = style.size_of(size)
    em = form.font / style.INCH
    title_lines = 1 if form.width > 5 else 2
    above, below = (0.7 + 1.3 * title_lines) * em, 1.8 * em
    lines = [form.row * CHART_ROW * min(max(result.plan.ops.ranks, 2), MOST_ROWS) for result in comparison.results]
    most = gantt_chart.most_lines(max(lines) * form.dpi)
    longest = float(max(result.timeline.makespan for result in comparison.results))
    views = [View.of(r.run, ranks_shown(r.run, None, most), (0.0, longest)) for r in comparison.results]
    legend = gantt_chart.legend_of(views, form.inside)
    legend_rows = -(-len(legend[1]) // style.legend_columns(legend[1], form.inside, SMALL * form.font))
    foot = (3.3 + 1.45 * SMALL * legend_rows) * em
    with style.styled(form):
        height = sum(lines) + len(lines) * (above + below) + foot
        figure = style.new_figure(form, height)
        style.add_legend(figure.add_axes((0, 0, 1, 1), visible=False), legend, form.inside, form.font, own=True)
        style.fix(figure)
        figure.legends[0].set_loc("lower left")
        left, top = 3.5 * em / form.width, height
        for row, view in enumerate(views):
            place = (left, (top - above - lines[row]) / height, 1 - left - em / form.width, lines[row] / height)
            axes = figure.add_axes(place)
            notes = gantt_chart.without_legend(axes, view, form)
            axes.set_xlabel(f"time [{view.unit.name}]" if row == len(lines) - 1 else "", loc="left")
            heading = ", ".join([_title(comparison, row), *notes])
            heading = style.wrapped(heading, style.points_of(axes)[0], form.font, title_lines)
            axes.set_title(heading, fontsize=form.font, loc="left", parse_math=False)
            top -= above + lines[row] + below
    return figure


def _title(comparison: Comparison, row: int) -> str:
    found, makespan = comparison.rows[row], comparison.results[row].timeline.makespan
    front = ", on the Pareto front" if found["pareto"] else ""
    peak = found["peak_memory_bytes"]
    held = "" if peak is None else f", peak {scales.size(peak)}"
    return (
        f"{style.plain(comparison.labels[row])}: {scales.duration(makespan)}, "
        f"bubble {scales.percent(found['bubble_ratio'])}{held}{front}"
    )


def split(comparison: Comparison, ax: Axes | None = None, size: SizeName = "notebook") -> Axes:
    """One bar per result: work, ideal bubble, imbalance, recomputation, communication; what fixing each would win."""
    form = style.size_of(size)
    splits = [found for found in comparison.splits if found is not None]
    if len(splits) < len(comparison.results):
        raise PpsimError("parts: a measured run can't be run again with free links; give simulated ones alone")
    longest = max(result.timeline.makespan for result in comparison.results)
    unit = scales.fitting(longest, scales.TIMES)
    with style.styled(form):
        own = ax is None
        if ax is None:
            figure = style.new_figure(form, form.row * max(len(comparison.results), 2) + 8 * form.font / 72)
            ax = figure.add_subplot()
        left = [0.0] * len(comparison.results)
        for part in PARTS:
            values = [getattr(found, part) / unit.of for found in splits]
            colour, hatch = PART_LOOKS[part]
            ax.barh(
                range(len(values)), values, left=left, height=0.65, color=colour, hatch=hatch, edgecolor="#333333",
                linewidth=0.4, label=part.replace("_", " "),
            )  # fmt: skip
            left = [a + b for a, b in zip(left, values, strict=True)]
        ax.set_yticks(range(len(left)), [style.plain(label) for label in comparison.labels], parse_math=False)
        ax.invert_yaxis()
        ax.set_xlabel(f"time [{unit.name}]", loc="left")
        ax.set_title("What a step is made of, and what fixing each part would win", fontsize=form.font, loc="left")
        if own:
            ax.figure.legend(loc="outside lower left", ncols=len(PARTS), fontsize=SMALL * form.font)
        else:
            ax.legend(fontsize=SMALL * form.font)
    return ax
