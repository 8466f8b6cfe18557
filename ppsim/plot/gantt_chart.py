"""The Gantt chart: who does what when, and why the rest of the time is idle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ppsim.metrics import Run
from ppsim.plot import bars as table
from ppsim.plot import boxes, gantt_legend, labels, scales
from ppsim.plot.looks import FLIGHT, IDLE, OCCUPIES
from ppsim.plot.style import (
    INCH, SMALL, Size, SizeName, as_written, legend_columns, new_figure, plain, size_of, styled, wrapped,
)  # fmt: skip
from ppsim.plot.view import View, ranks_shown, title, window_ns
from ppsim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINE_PIXELS = 3
"""A rank's line is at least that high; where there are too many ranks for it, every n-th is shown."""
STEP_PIXELS = 8
"""The ends of steps are marked where steps are at least that wide."""


def gantt(
    result: Result | Run,
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
    y axis holds the line. Bars under a pixel are merged, and the axis says how many are drawn for how many ops.
    Raises PpsimError for ranks that aren't there, an empty window, an unknown size.
    """
    run = result if isinstance(result, Run) else result.run
    form = size_of(size)
    most = form.most_height * form.dpi if ax is None else ax.bbox.height
    view = View.of(run, ranks_shown(run, ranks, max(int(most / LINE_PIXELS), 1)), window_ns(run, window))
    with styled(form):
        heading = plain(title(run, None if isinstance(result, Run) else result.schedule.name))
        axes = _own_axes(view, heading, form) if ax is None else _on(ax, view, heading, form)
        _settle(axes)
        _ticks(axes, view, form)
        notes = _draw(axes, view, form)
        if ranks is None and len(view.ranks) < run.plan.ranks:
            notes.append(f"{len(view.ranks):,} of {run.plan.ranks:,} ranks shown")
        heading = ", ".join([f"time [{view.unit.name}]", *notes])
        axes.set_xlabel(wrapped(heading, _points(axes)[0], form.font), fontsize=form.font, loc="left")
        _settle(axes)
        if ax is None:
            _figure(axes).set_layout_engine("none")
    return axes


def _own_axes(view: View, heading: str, form: Size) -> Axes:
    """Axes in a figure as high as its lines, its title and its legend ask for."""
    inside = form.width * INCH - 3 * form.font
    heading = wrapped(heading, inside - 3 * form.font, form.font)
    handles, words = _legend(view)
    columns = legend_columns(words, inside, SMALL * form.font)
    around = 4.5 + 1.3 * (heading.count("\n") + 1) + 1.45 * SMALL * -(-len(words) // columns)
    lines = min(form.most_height, form.row * max(len(view.ranks), 2))
    figure = new_figure(form, lines + (around * form.font + 12) / INCH)
    axes = figure.add_subplot()
    _frame(axes, view, heading, form)
    as_written(figure.legend(handles, words, loc="outside lower left", ncols=columns, handler_map=_pairs()))
    return axes


def _on(axes: Axes, view: View, heading: str, form: Size) -> Axes:
    """Axes that the user made, with the legend beneath them."""
    from matplotlib.transforms import ScaledTranslation

    width = _points(axes)[0]
    _frame(axes, view, wrapped(heading, width, form.font), form)
    handles, words = _legend(view)
    as_written(
        axes.legend(
            handles,
            words,
            ncols=legend_columns(words, width, SMALL * form.font),
            loc="upper left",
            bbox_to_anchor=(0, 0),
            bbox_transform=axes.transAxes
            + ScaledTranslation(0, -4.5 * form.font / INCH, _figure(axes).dpi_scale_trans),
            borderaxespad=0,
            handler_map=_pairs(),
        )
    )
    return axes


def _legend(view: View) -> tuple[list[Any], list[str]]:
    found = gantt_legend.entries(view.run, view.ops, view.idle, view.transfers, steps=len(view.step_ends) > 0)
    return [gantt_legend.handle(entry) for entry in found], [entry.text for entry in found]


def _pairs() -> dict[type, Any]:
    from matplotlib.legend_handler import HandlerTuple

    return {tuple: HandlerTuple(ndivide=None, pad=0)}


def _frame(axes: Axes, view: View, heading: str, form: Size) -> None:
    axes.set_xlim(view.low, view.high)
    axes.set_ylim(len(view.ranks) - 0.5, -0.5)
    axes.set_title(heading, loc="left", fontsize=form.font, parse_math=False)
    axes.set_xlabel(f"time [{view.unit.name}]", fontsize=form.font, loc="left")
    axes.set_ylabel("rank", fontsize=form.font)
    axes.tick_params(labelsize=SMALL * form.font)
    _ticks(axes, view, form)


def _ticks(axes: Axes, view: View, form: Size) -> None:
    """Times at round numbers; every rank by its number, or every 2nd, 4th, 8th, … where those would touch."""
    width, height = _points(axes)
    scales.round_ticks(axes.xaxis, view.low, view.high, view.unit, most=max(width / (7 * form.font), 1))
    every = 1
    while every * height < 1.15 * SMALL * form.font * len(view.ranks):
        every *= 2
    axes.set_yticks(range(0, len(view.ranks), every), [str(rank) for rank in view.ranks[::every]])


def _draw(axes: Axes, view: View, form: Size) -> list[str]:
    """Draw all bars, a collection per kind, those under a pixel merged. Returns what the figure leaves out."""
    pixel = (view.high - view.low) / axes.bbox.width
    width, height = _points(axes)
    per_ns, per_line = width / (view.high - view.low), height / len(view.ranks)
    sends = any(map(len, view.transfers))
    lanes = boxes.Lanes.of(per_line, sends)
    seen = table.merged(table.joined(view.ops, view.idle), view.low, pixel)
    boxes.paint_idle(axes, seen, lanes)
    ops = seen[seen.look < IDLE]
    parts = list(boxes.boxes_of(ops, lanes, view.stages_per_rank))
    for part in parts:
        boxes.paint_ops(axes, part, per_ns)
    every = labels.label(
        axes, view.run.plan, parts, labels.Scale(per_ns, per_line, view.low, view.high, SMALL * form.font)
    )
    notes = []
    if len(ops) != len(view.ops):
        notes.append(f"{len(ops):,} bars drawn of {view.op_count:,} ops")
    elif not len(ops):
        notes.append("no op takes any time")
    if every > 1:
        notes.append(f"every {every}{'nd' if every == 2 else 'th'} microbatch numbered")
    if lanes.strip is not None:
        for name, bars, look in zip(("on-ports", "in-flight"), view.transfers, (OCCUPIES, FLIGHT), strict=True):
            boxes.paint_transfers(axes, table.united(bars, view.low, pixel), lanes.strip, name, look)
    elif sends:
        notes.append("no room for transfers")
    if len(view.step_ends) * STEP_PIXELS <= axes.bbox.width:
        boxes.paint_step_ends(axes, view.step_ends)
    else:
        notes.append("no room for ends of steps")
    return notes


def _figure(axes: Axes) -> Figure:
    """The whole figure, also where the axes are in a part of one."""
    return axes.figure.figure  # type: ignore[union-attr,return-value]


def _points(axes: Axes) -> tuple[float, float]:
    """Width and height of the axes."""
    points = INCH / _figure(axes).dpi
    return axes.bbox.width * points, axes.bbox.height * points


def _settle(axes: Axes) -> None:
    """Let the figure's layout, if it has one, give the axes their place: pixels are counted from then on."""
    if _figure(axes).get_layout_engine() is not None:
        _figure(axes).draw_without_rendering()
