"""The Gantt chart: who does what when, and why the rest of the time is idle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ppsim.analysis.result import Result
from ppsim.metrics import Run
from ppsim.ops import Longs
from ppsim.plot import bars as table
from ppsim.plot import boxes, density, gantt_legend, labels, layout, scales, style, zoom
from ppsim.plot.looks import FLIGHT, IDLE, OCCUPIES, QUEUED, rgb
from ppsim.plot.style import Size, SizeName
from ppsim.plot.view import View, ranks_shown, run_of, title, window_ns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ppsim.analysis.measured.result import MeasuredResult

LINE_PIXELS = 3
"""A rank's line in the largest chart is at least that high; where there are too many ranks, every n-th is shown."""
BRIEF = 400
"""Points of width below which the legend leaves out its explanations."""
BESIDE = 5.0
"""Inches of width from which enlarged parts stand beside each other, not beneath."""
MOST_ARROWS = 100
"""Messages are drawn as arrows where there are no more."""
UPDATE_POINTS = 5.0
"""Updates of weights are marked where there is that much room for each."""
STEP_PIXELS = 8
"""The ends of steps are marked where steps are at least that wide."""


class Panel(NamedTuple):
    """An enlarged part: what it shows, and where."""

    part: zoom.Part
    view: View
    axes: Axes


def gantt(
    result: Result | MeasuredResult | Run,
    ax: Axes | None = None,
    *,
    ranks: Sequence[int] | None = None,
    window: tuple[float, float] | None = None,
    size: SizeName = "notebook",
) -> Axes:
    """A line per rank, a bar per op, transfers as thin bars beneath their sender's line, idle time shaded by its cause.

    ``ax``: where to draw; by default a figure of its own, of that ``size`` (notebook, slide, paper), unknown to pyplot.
    ``ranks``: which, and in which order from the top; by default all, or every n-th where that is too many.
    ``window``: start and end in seconds; by default the whole run. The x axis holds ns and its labels say the unit; the
    y axis holds the line. Where ops are too thin to be told apart their colours are averaged, and the axis says how
    many of how many; where not all can be labelled, a figure of its own has parts of the run enlarged beneath.
    Raises PpsimError for ranks that aren't there, an empty window, an unknown size.
    """
    run = run_of(result)
    form = style.size_of(size)
    most = form.most_height * form.dpi if ax is None else ax.bbox.height
    view = View.of(run, ranks_shown(run, ranks, most_lines(most)), window_ns(run, window))
    with style.styled(form):
        heading = title(run, None if isinstance(result, Run) else result.schedule.label)
        if ax is not None:
            width, _ = style.points_of(ax)
            _frame(ax, view, style.wrapped(heading, width, form.font), form)
            style.add_legend(ax, legend_of([view], width), width, form.font, own=False)
            _fill(ax, view, form, all_ranks=ranks is None)
            return ax
        axes, parts = _own_axes(view, heading, form, zoomed=window is None and ranks is None)
        layout.place(style.figure_of(axes))
        for _, seen, panel in parts:
            _draw(panel, seen, form, whole=False)
        boxes.paint_frames(axes, [zoom.frame(view, part) for part, *_ in parts])
        _noted(axes, view, form, all_ranks=ranks is None)
        if "\n" in axes.get_xlabel():  # higher than what the axes had their place with
            layout.place(style.figure_of(axes))
        style.fix(style.figure_of(axes))
    return axes


def without_legend(ax: Axes, view: View, form: Size) -> list[str]:
    """The chart in axes of a given place, as one of several over the same time; returns what it leaves out."""
    _frame(ax, view, "", form)
    return _fill(ax, view, form, all_ranks=True)


def most_lines(pixels: float) -> int:
    """How many ranks a chart of that height can show."""
    return max(int(pixels / LINE_PIXELS), 1)


def _own_axes(view: View, heading: str, form: Size, zoomed: bool) -> tuple[Axes, list[Panel]]:
    """Axes in a figure as high as its lines, its title and its legend ask for, and those of enlarged parts beneath."""
    heading = style.wrapped(heading, form.inside - 3 * form.font, form.font)
    legend = legend_of([view], form.inside)
    lines = min(form.most_height, form.row * max(len(view.ranks), 2))
    per_line, font = lines * style.INCH / len(view.ranks), style.SMALL * form.font
    beside = 3 if form.width > BESIDE else 1
    width = form.inside / beside - 3 * form.font
    parts = zoom.parts(view, width, form) if zoomed and zoom.wanted(view, form.inside, per_line, font) else []
    panel = zoom.ROOM * form.row * max(len(parts[0].ranks), 2) + 4.5 * form.font / style.INCH if parts else 0.0
    beneath = panel * (3 // beside)
    if parts:
        lines = min(lines, max(form.most_height - beneath, form.most_height / 2))
    figure = style.new_figure(form, lines + beneath + form.around(heading, legend[1]))
    rows = 1 + (3 // beside if parts else 0)
    grid = figure.add_gridspec(rows, beside, height_ratios=[lines, *[panel] * (rows - 1)])
    axes = figure.add_subplot(grid[0, :])
    _frame(axes, view, heading, form, form.inside - 2 * form.font)
    style.add_legend(axes, legend, form.inside, form.font, own=True)
    panels = []
    for place, part in enumerate(parts):
        small = figure.add_subplot(grid[1 + place // beside, place % beside])
        seen = View.of(view.run, part.ranks, (part.low, part.high))
        _frame(small, seen, f"{part.name}, enlarged", form, width)
        panels.append(Panel(part, seen, small))
    return axes, panels


def _fill(axes: Axes, view: View, form: Size, all_ranks: bool) -> list[str]:
    """Draw into axes that the user made, once they have their place; returns what the chart leaves out."""
    style.settle(axes)
    _ticks(axes, view, form)
    return _noted(axes, view, form, all_ranks)


def _noted(axes: Axes, view: View, form: Size, all_ranks: bool) -> list[str]:
    """Draw all bars; say beside the time what is left out, and of ranks if ``all_ranks`` were asked for."""
    notes = _draw(axes, view, form)
    if all_ranks and len(view.ranks) < view.run.plan.ops.ranks:
        notes.append(f"{len(view.ranks):,} of {view.run.plan.ops.ranks:,} ranks shown")
    text = ", ".join([f"time [{view.unit.name}]", *notes])
    axes.set_xlabel(style.wrapped(text, style.points_of(axes)[0], form.font), fontsize=form.font, loc="left")
    return notes


def legend_of(views: Sequence[View], width: float) -> style.Entries:
    """The legend of one chart, or of several over the same time, in so many points of width."""
    found = gantt_legend.entries(views, brief=width < BRIEF)
    return [gantt_legend.handle(entry) for entry in found], [entry.text for entry in found]


def _frame(axes: Axes, view: View, heading: str, form: Size, width: float | None = None) -> None:
    axes.set_xlim(view.low, view.high)
    axes.set_ylim(len(view.ranks) - 0.5, -0.5)
    axes.set_title(heading, loc="left", fontsize=form.font, parse_math=False)
    axes.set_xlabel(f"time [{view.unit.name}]", fontsize=form.font, loc="left")
    axes.set_ylabel("rank", fontsize=form.font)
    axes.tick_params(labelsize=style.SMALL * form.font)
    _ticks(axes, view, form, width)


def _ticks(axes: Axes, view: View, form: Size, width: float | None = None) -> None:
    """Times at round numbers; every rank by its number, or every 2nd, 4th, 8th, … where those would touch.

    ``width``: how many points wide the axes will be, where that isn't settled yet.
    """
    own, height = style.points_of(axes)
    scales.round_ticks(axes.xaxis, view.low, view.high, view.unit, most=max((width or own) / (5 * form.font), 1))
    every = 1
    while every * height < 1.1 * style.SMALL * form.font * len(view.ranks):
        every *= 2
    axes.set_yticks(range(0, len(view.ranks), every), [str(rank) for rank in view.ranks[::every]])


def _draw(axes: Axes, view: View, form: Size, whole: bool = True) -> list[str]:
    """Draw all bars, a collection per kind, those too thin as averages. Returns what the figure leaves out.

    ``whole``: labels may be whole ops, not numbers alone.
    """
    width, height = style.points_of(axes)
    per_ns, per_line = width / (view.high - view.low), height / len(view.ranks)
    lanes = boxes.Lanes.of(per_line, bool(view.wires), view.wires.moves)
    clear, thin = density.split(table.joined(view.ops, view.idle), density.THIN / per_ns)
    boxes.paint_idle(axes, clear, lanes)
    chunks = view.stages_per_rank
    parts = list(boxes.boxes_of(clear[clear.look < IDLE], lanes, chunks))
    for part in parts:
        boxes.paint_ops(axes, part, per_ns, per_line)
    density.paint(axes, thin, (lanes.top, lanes.bottom), lambda code: boxes.colour_of(code, chunks), "ops")
    scale = labels.Scale(per_ns, per_line, view.low, view.high, style.SMALL * form.font, whole)
    notes = []
    averaged = int((thin.look < IDLE).sum())
    if averaged:
        notes.append(f"colours averaged where ops are too thin to draw: {averaged:,} of {len(view.ops):,}")
    else:
        labels.label(axes, view.run.plan, parts, scale)
    if not len(view.ops):
        notes.append("no op takes any time")
    if lanes.strip is not None:
        _draw_wires(axes, view, lanes, scale)
    elif view.wires:
        notes.append("no room for transfers")
    if len(view.step_ends) * STEP_PIXELS <= axes.bbox.width:
        boxes.paint_step_ends(axes, view.step_ends)
    else:
        notes.append("no room for ends of steps")
    time, line = view.updates()
    if len(time) and len(time) / len(view.ranks) * UPDATE_POINTS <= width and per_line >= UPDATE_POINTS:
        boxes.paint_updates(axes, time, line, lanes)
    elif len(time):
        notes.append("no room for updates")
    return notes


def _draw_wires(axes: Axes, view: View, lanes: boxes.Lanes, scale: labels.Scale) -> None:
    """Draw transfers, what waits for a port, moves with their numbers, and arrows where there are few."""
    wires, strip = view.wires, lanes.strip or (0.0, 0.0)
    # The flight first: where a link is both busy and has messages in flight, it's seen as busy.
    layers = (
        ("waiting", wires.queue, QUEUED, lanes.queue),
        ("in-flight", wires.flight, FLIGHT, strip),
        ("on-ports", wires.ports[wires.ports.code == 0], OCCUPIES, strip),
    )
    for name, bars, look, band in layers:
        clear, thin = density.split_alone(bars, density.THIN / scale.per_ns)
        boxes.paint_transfers(axes, clear, band, name, look)
        density.paint(axes, thin, band, lambda _, look=look: np.array(rgb(look.colour)), name)  # type: ignore[misc]
    moves = list(boxes.moves_of(wires.ports, strip))
    for part in moves:
        boxes.paint_moves(axes, part)
    labels.label(axes, view.run.plan, moves, scale)
    messages = view.messages()
    if 0 < len(messages) <= MOST_ARROWS:
        boxes.paint_arrows(axes, _arrows(view, messages, lanes, strip), scale.font / 3)


def _arrows(view: View, messages: Longs, lanes: boxes.Lanes, strip: tuple[float, float]) -> table.Floats:
    """From where a message sets out, down from the sender's strip or up from its bars, to the receiver's bars."""
    plan, timeline = view.run.plan, view.run.timeline
    lines, route = table.lines_of(view.ranks, plan), plan.transfers.route[messages]
    src, dst = lines[plan.routes.src[route]], lines[plan.routes.dst[route]]
    down = dst > src
    ends = np.empty((len(messages), 2, 2))
    ends[:, 0, 0], ends[:, 1, 0] = timeline.transfer_start[messages], timeline.arrive[messages]
    ends[:, 0, 1] = src + np.where(down, strip[1], lanes.top)
    ends[:, 1, 1] = dst + np.where(down, lanes.top, lanes.bottom)
    return ends
