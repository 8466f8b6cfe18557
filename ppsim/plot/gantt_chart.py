"""The Gantt chart: who does what when, and why the rest of the time is idle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ppsim.analysis.measured.result import MeasuredResult
from ppsim.analysis.result import Result
from ppsim.metrics import Run
from ppsim.plot import bars as table
from ppsim.plot import boxes, gantt_legend, labels, scales, style
from ppsim.plot.looks import FLIGHT, IDLE, OCCUPIES
from ppsim.plot.style import Size, SizeName
from ppsim.plot.view import View, ranks_shown, title, window_ns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE_PIXELS = 3
"""A rank's line is at least that high; where there are too many ranks for it, every n-th is shown."""
BRIEF = 400
"""Points of width below which the legend leaves out its explanations."""
STEP_PIXELS = 8
"""The ends of steps are marked where steps are at least that wide."""


def gantt(
    result: Result | MeasuredResult | Run,
    ax: Axes | None = None,
    *,
    ranks: Sequence[int] | None = None,
    window: tuple[float, float] | None = None,
    size: SizeName = "notebook",
    legend: bool = True,
) -> Axes:
    """A line per rank, a bar per op, transfers as thin bars beneath their sender's line, idle time shaded by its cause.

    ``ax``: where to draw; by default a figure of its own, of that ``size`` (notebook, slide, paper), unknown to pyplot.
    ``ranks``: which, and in which order from the top; by default all, or every n-th where that is too many.
    ``window``: start and end in seconds; by default the whole run. The x axis holds ns and its labels say the unit; the
    y axis holds the line. Bars under a pixel are merged, and the axis says how many are drawn for how many ops.
    ``legend``: leave it out, beneath ``ax``, where several charts share one.
    Raises PpsimError for ranks that aren't there, an empty window, an unknown size.
    """
    run = result if isinstance(result, Run) else result.run
    form = style.size_of(size)
    most = form.most_height * form.dpi if ax is None else ax.bbox.height
    view = View.of(run, ranks_shown(run, ranks, max(int(most / LINE_PIXELS), 1)), window_ns(run, window))
    with style.styled(form):
        heading = title(run, None if isinstance(result, Run) else result.schedule.label)
        axes = _own_axes(view, heading, form) if ax is None else _on(ax, view, heading, form, legend)
        style.settle(axes)
        _ticks(axes, view, form)
        notes = _draw(axes, view, form)
        if ranks is None and len(view.ranks) < run.plan.ops.ranks:
            notes.append(f"{len(view.ranks):,} of {run.plan.ops.ranks:,} ranks shown")
        heading = ", ".join([f"time [{view.unit.name}]", *notes])
        axes.set_xlabel(style.wrapped(heading, style.points_of(axes)[0], form.font), fontsize=form.font, loc="left")
        style.settle(axes)
        if ax is None:
            style.figure_of(axes).set_layout_engine("none")
    return axes


def _own_axes(view: View, heading: str, form: Size) -> Axes:
    """Axes in a figure as high as its lines, its title and its legend ask for."""
    heading = style.wrapped(heading, form.inside - 3 * form.font, form.font)
    handles, words = legend_of([view], form.inside)
    lines = min(form.most_height, form.row * max(len(view.ranks), 2))
    axes = style.new_figure(form, lines + form.around(heading, words)).add_subplot()
    _frame(axes, view, heading, form)
    style.add_legend(axes, handles, words, form.inside, form.font, own=True)
    return axes


def _on(axes: Axes, view: View, heading: str, form: Size, legend: bool) -> Axes:
    """Axes that the user made, with the legend beneath them."""
    width, _ = style.points_of(axes)
    _frame(axes, view, style.wrapped(heading, width, form.font), form)
    if legend:
        style.add_legend(axes, *legend_of([view], width), width, form.font, own=False)
    return axes


def legend_of(views: Sequence[View], width: float) -> tuple[list[Any], list[str]]:
    """Handles and words of the legend of one chart, or of several over the same time, in so many points of width."""
    found = gantt_legend.entries(views, brief=width < BRIEF)
    return [gantt_legend.handle(entry) for entry in found], [entry.text for entry in found]


def _frame(axes: Axes, view: View, heading: str, form: Size) -> None:
    axes.set_xlim(view.low, view.high)
    axes.set_ylim(len(view.ranks) - 0.5, -0.5)
    axes.set_title(heading, loc="left", fontsize=form.font, parse_math=False)
    axes.set_xlabel(f"time [{view.unit.name}]", fontsize=form.font, loc="left")
    axes.set_ylabel("rank", fontsize=form.font)
    axes.tick_params(labelsize=style.SMALL * form.font)
    _ticks(axes, view, form)


def _ticks(axes: Axes, view: View, form: Size) -> None:
    """Times at round numbers; every rank by its number, or every 2nd, 4th, 8th, … where those would touch."""
    width, height = style.points_of(axes)
    scales.round_ticks(axes.xaxis, view.low, view.high, view.unit, most=max(width / (5 * form.font), 1))
    every = 1
    while every * height < 1.1 * style.SMALL * form.font * len(view.ranks):
        every *= 2
    axes.set_yticks(range(0, len(view.ranks), every), [str(rank) for rank in view.ranks[::every]])


def _draw(axes: Axes, view: View, form: Size) -> list[str]:
    """Draw all bars, a collection per kind, those under a pixel merged. Returns what the figure leaves out."""
    pixel = (view.high - view.low) / axes.bbox.width
    width, height = style.points_of(axes)
    per_ns, per_line = width / (view.high - view.low), height / len(view.ranks)
    sends = any(map(len, view.transfers))
    lanes = boxes.Lanes.of(per_line, sends)
    seen = table.merged(table.joined(view.ops, view.idle), view.low, pixel)
    boxes.paint_idle(axes, seen, lanes)
    ops = seen[seen.look < IDLE]
    parts = list(boxes.boxes_of(ops, lanes, view.stages_per_rank))
    for part in parts:
        boxes.paint_ops(axes, part, per_ns, per_line)
    every = labels.label(
        axes, view.run.plan, parts, labels.Scale(per_ns, per_line, view.low, view.high, style.SMALL * form.font)
    )
    notes = []
    if len(ops) != len(view.ops):
        notes.append(f"{len(ops):,} bars drawn of {view.op_count:,} ops")
    elif not len(ops):
        notes.append("no op takes any time")
    if every > 1:
        notes.append(f"every {every}{'nd' if every == 2 else 'th'} microbatch numbered")
    if lanes.strip is not None:
        # The flight first: where a link is both busy and has messages in flight, it's seen as busy.
        both = (("in-flight", view.transfers[1], FLIGHT), ("on-ports", view.transfers[0], OCCUPIES))
        for name, bars, look in both:
            boxes.paint_transfers(axes, table.merged_alone(bars, view.low, pixel), lanes.strip, name, look)
    elif sends:
        notes.append("no room for transfers")
    if len(view.step_ends) * STEP_PIXELS <= axes.bbox.width:
        boxes.paint_step_ends(axes, view.step_ends)
    else:
        notes.append("no room for ends of steps")
    return notes
