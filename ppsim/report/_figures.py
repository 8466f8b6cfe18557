"""The figures of a page: who does what when, memory, links, all over one time axis; the only use of Bokeh's plots."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from ppsim.ops import Kind
from ppsim.plot import scales
from ppsim.report import _looks as looks
from ppsim.report._bars import Bars
from ppsim.report._content import Content

EDGED = 5_000
"""So many ops have an edge. None are drawn by WebGL: where it runs in software, as on servers, it takes thrice as long
to open a page as the canvas does, and while one pans the canvas draws every tenth bar."""
LEFT, RIGHT = 84, 16
"""Pixels beside every figure's frame, so that their time axes lie above each other."""
HINT = "Click an op, or a row of the table of ops: the chain that made it start then lights up and is told here."


class Figures(NamedTuple):
    """What is shown of one result: Bokeh's models, in the order in which they stand; and the ops' source."""

    gantt: Any
    chain: Any
    memory: Any
    links: Any
    ops: Any


class Axis(NamedTuple):
    """The time axis that all figures share, its unit and the end of the longest run, ns."""

    range: Any
    unit: scales.Unit
    end: int

    def of(self, ns: np.ndarray) -> np.ndarray:
        """Times in the axis' unit."""
        return ns / self.unit.of


def axis(contents: Sequence[Content]) -> Axis:
    """The time axis of several results."""
    from bokeh.models import Range1d

    end = max([1, *(content.run.timeline.makespan for content in contents)])
    unit = scales.fitting(end, scales.TIMES)
    whole = end / unit.of
    return Axis(Range1d(0, whole, bounds=(-0.05 * whole, 1.05 * whole)), unit, end)


def figures(content: Content, time: Axis) -> Figures:
    """All figures of one result."""
    from bokeh.models import ColumnDataSource, PreText

    before = content.before
    ops, transfers = ColumnDataSource(_op_columns(content, time)), ColumnDataSource(_transfer_columns(content, time))
    told = PreText(text=HINT, sizing_mode="stretch_width", css_classes=["chain"])
    _light(ops, transfers, told, len(before[0]), time.unit.name)
    return Figures(
        _gantt(content, time, ops),
        told,
        _memory(content, time) if content.curves else None,
        _links(content, time, transfers) if content.uses_links else None,
        ops,
    )


def _op_columns(content: Content, time: Axis) -> dict[str, Any]:
    plan, bars = content.run.plan, content.ops
    columns: dict[str, Any] = {
        **content.words(), "rank": bars.line.astype(np.int32), "left": time.of(bars.start), "right": time.of(bars.end),
        "colour": bars.rgba, "first": content.before[0].astype(np.int32), "before": content.before[1].astype(np.int32),
    }  # fmt: skip
    single = bars.row >= 0
    kind = np.where(single, plan.ops.kind[bars.row], Kind.F)
    tail = single & plan.tail[bars.row]
    head = single & np.append(plan.tail[1:], False)[bars.row]
    low = np.isin(kind, list(looks.OTHERS))
    if np.any(tail | low):  # a fused pair's halves lie above each other, waits for messages beneath the ops
        columns["y"] = (bars.line + 0.2 * tail - 0.2 * head + 0.44 * low).astype(np.float32)
        columns["height"] = np.where(tail | head, 0.4, np.where(low, 0.1, 0.8)).astype(np.float32)
    return columns


def _transfer_columns(content: Content, time: Axis) -> dict[str, Any]:
    plan, timeline, bars = content.run.plan, content.run.timeline, content.transfers
    row, merged = bars.row, bars.row < 0
    names = [plan.ops.names[producer] for producer in plan.transfers.producer.tolist()]
    sizes = [scales.size(size).replace(scales.NBSP, " ") for size in plan.routes.bytes.tolist()]
    route = plan.transfers.route.tolist()
    src, dst = np.array(content.ways or [(0, 0)], np.int32).T
    left = np.where(merged, bars.end, timeline.left[row]) if len(timeline.left) else bars.end
    ready = np.where(merged, bars.start, timeline.ready[row]) if len(timeline.ready) else bars.start
    some = [
        (names[i], sizes[route[i]]) if i >= 0 else (f"{n:,} merged", "")
        for i, n in zip(row.tolist(), bars.count.tolist(), strict=True)
    ]
    return {
        "name": [name for name, _ in some], "size": [size for _, size in some],
        "src": src[bars.line], "dst": dst[bars.line], "line": bars.line.astype(np.int32),
        "ready": time.of(ready).astype(np.float32), "start": time.of(bars.start).astype(np.float32),
        "left": time.of(left).astype(np.float32), "arrive": time.of(bars.end).astype(np.float32),
        "before": content.before[2].astype(np.int32),
    }  # fmt: skip


def _light(ops: Any, transfers: Any, told: Any, count: int, unit: str) -> None:
    """Let a picked op light the chain before it."""
    from bokeh.models import CustomJS

    given = {"ops": ops, "transfers": transfers, "told": told, "count": count, "unit": unit, "hint": HINT}
    ops.selected.js_on_change("indices", CustomJS(args=given, code=_script()))


@cache
def _script() -> str:
    return files("ppsim.report").joinpath("report.js").read_text(encoding="utf-8")


def _figure(title: str, time: Axis, height: int, **more: Any) -> Any:
    """An empty figure over the time axis: drag to pan, Ctrl and the wheel to zoom, or the tools above it."""
    from bokeh.models import BoxZoomTool, PanTool, PlainText, ResetTool, Title, WheelZoomTool
    from bokeh.plotting import figure

    wheel = WheelZoomTool(dimensions="width", modifiers={"ctrl": True})
    tools = [PanTool(), wheel, BoxZoomTool(), ResetTool()]
    made = figure(
        height=height, sizing_mode="stretch_width", x_range=time.range, tools=tools, toolbar_location="above",
        min_border_left=LEFT, min_border_right=RIGHT, background_fill_alpha=0, border_fill_alpha=0,
        outline_line_color=None, **more,
    )  # fmt: skip
    made.title = Title(text=PlainText(title), text_color=looks.INK, text_font_size="13px")
    made.toolbar.logo, made.toolbar.active_scroll = None, wheel
    made.xaxis.axis_label = f"time [{time.unit.name}]"
    made.xgrid.grid_line_color = made.ygrid.grid_line_color = looks.INK
    made.xgrid.grid_line_alpha, made.ygrid.grid_line_alpha = 0.25, 0
    for side in (made.xaxis, made.yaxis):
        side.axis_label_text_font_style = "normal"
        side.axis_line_color = side.major_tick_line_color = side.major_label_text_color = looks.INK
        side.axis_label_text_color, side.minor_tick_line_color = looks.INK, None
    return made


def _lined(title: str, time: Axis, lines: Sequence[str]) -> Any:
    """A figure with a line for each name, from the top."""
    from bokeh.models import FixedTicker, Range1d

    count = max(len(lines), 1)
    height = 96 + min(max(26 * count, 60), 520)
    every = max(-(-count * 14 // (height - 96)), 1)
    made = _figure(title, time, height, y_range=Range1d(count - 0.5, -0.5))
    made.yaxis.ticker = FixedTicker(ticks=list(range(0, count, every)))
    made.yaxis.major_label_overrides = {number: lines[number] for number in range(0, len(lines), every)}
    return made


def _gantt(content: Content, time: Axis, ops: Any) -> Any:
    from bokeh.models import ColumnDataSource

    idle, ranks = content.idle, content.run.plan.ops.ranks
    made = _lined(f"{content.label}: ops", time, [str(rank) for rank in range(ranks)])
    made.yaxis.axis_label = "rank"
    made.hbar(
        y="y", left="left", right="right", height=0.8, fill_color="colour", line_color=None,
        source=ColumnDataSource(_idle_columns(idle, time)),
    )  # fmt: skip
    shapes = {name: name if name in ops.data else other for name, other in (("y", "rank"), ("height", 0.8))}
    edge = looks.INK if len(content.ops) <= EDGED else None
    drawn = made.hbar(
        left="left", right="right", fill_color="colour", line_color=edge, line_width=0.5, nonselection_fill_alpha=0.2,
        nonselection_line_color=None, source=ops, name="ops", **shapes,
    )  # fmt: skip
    said = [("op", "@name on rank @rank"), *_span(time, "left", "right")]
    if content.linked:
        said += [("inputs", "@inputs"), ("waited", "@why")]
    _hover(made, [drawn], said, tap=True)
    return made


def _idle_columns(idle: Bars, time: Axis) -> dict[str, Any]:
    return {
        "y": idle.line.astype(np.int32), "left": time.of(idle.start).astype(np.float32),
        "right": time.of(idle.end).astype(np.float32), "colour": idle.rgba,
    }  # fmt: skip


def _span(time: Axis, start: str, end: str) -> list[tuple[str, str]]:
    return [(word, f"@{column}{{0,0.[000000]}} {time.unit.name}") for word, column in (("start", start), ("end", end))]


def _hover(made: Any, renderers: list[Any], said: list[tuple[str, str]], tap: bool = False, **more: Any) -> None:
    from bokeh.models import HoverTool, TapTool

    made.add_tools(HoverTool(renderers=renderers, tooltips=said, **more))
    if tap:
        made.add_tools(TapTool(renderers=renderers))


def _memory(content: Content, time: Axis) -> Any:
    from bokeh.models import Legend, Span
    from bokeh.palettes import turbo

    highest = max(int(held.max()) for _, _, held in content.curves)
    unit, capacity = scales.fitting(highest, scales.SIZES), content.run.plan.capacity
    made = _figure(f"{content.label}: memory", time, 300)
    made.yaxis.axis_label = f"memory [{unit.name}]"
    made.y_range.start, made.y_range.end = 0, 1.08 * max(highest, 1) / unit.of
    colours = turbo(len(content.curves) + 2)[1:-1]
    items = []
    for (rank, moments, held), colour in zip(content.curves, colours, strict=True):
        columns = {"time": time.of(moments), "held": held / unit.of, "rank": np.full(len(held), rank, np.int32)}
        line = made.step(x="time", y="held", mode="after", source=columns, line_color=colour, line_width=1.5)
        items.append((f"rank {rank}", [line]))
    said = [
        ("rank", "@rank"),
        ("from", f"@time{{0,0.[000000]}} {time.unit.name}"),
        ("holds", f"@held{{0,0.[000]}} {unit.name}"),
    ]
    _hover(made, [line for _, lines in items for line in lines], said, line_policy="prev")
    if capacity is not None and capacity < 3 * highest:
        made.y_range.end = 1.08 * max(highest, capacity) / unit.of
        made.add_layout(Span(location=capacity / unit.of, dimension="width", line_color="#d62728", line_dash="dashed"))
    legend = Legend(
        items=items,
        orientation="horizontal",
        location="top_left",
        click_policy="hide",
        ncols=8,
        label_text_color=looks.INK,
    )
    legend.background_fill_alpha, legend.border_line_color, legend.padding = 0, None, 0
    made.add_layout(legend, "below")
    return made


def _links(content: Content, time: Axis, transfers: Any) -> Any:
    lines = [f"{src} → {dst}" if src != dst else f"sync of {src}" for src, dst in content.ways]
    made = _lined(f"{content.label}: links", time, lines)
    made.yaxis.axis_label = "from rank → to rank"
    colour = looks.BUSY.colour
    if np.any(content.transfers.row < 0):
        transfers.data["colour"], colour = content.transfers.rgba, "colour"
    plain = {"y": "line", "source": transfers, "line_color": None, "nonselection_fill_alpha": 0.15}
    flies = made.hbar(left="left", right="arrive", height=0.35, fill_color=looks.FLIES.colour, fill_alpha=0.6, **plain)
    busy = made.hbar(left="start", right="left", height=0.8, fill_color=colour, **plain)
    moments = [
        (word, f"@{column}{{0,0.[0000]}} {time.unit.name}")
        for word, column in (("ready", "ready"), ("on its ports", "start"), ("off them", "left"), ("arrives", "arrive"))
    ]
    _hover(made, [flies, busy], [("output of", "@name, rank @src to @dst"), ("size", "@size"), *moments])
    return made
