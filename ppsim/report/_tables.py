"""Tables of a page; a click on a column's name sorts by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ppsim.engine.timeline import PER_SECOND
from ppsim.plot.scales import SIZES, TIMES
from ppsim.report._content import Content
from ppsim.report._figures import Axis

ROW = 26
"""Pixels of a row's height."""
MOST_HIGH = 320
"""Pixels of the highest table; it scrolls."""
SECONDS = tuple((unit.name, unit.of / PER_SECOND) for unit in TIMES)
BYTES = tuple((unit.name, float(unit.of)) for unit in SIZES)
PERCENT = (("%", 0.01),)
_WORDS = {True: "yes", False: "no", None: ""}
Column = tuple[str, str, tuple[tuple[str, float], ...]]
"""A figure's key, its title, and the units that it may be told in, the largest first; none: as it is."""
SUMMARY: tuple[Column, ...] = (
    ("schedule", "schedule", ()), ("ranks", "ranks", ()), ("microbatches", "microbatches", ()),
    ("makespan_s", "time", SECONDS), ("step_time_s", "per step", SECONDS), ("bubble_ratio", "bubble_ratio", PERCENT),
    ("bubble_overhead", "bubble_overhead", PERCENT), ("samples_per_s", "samples/s", ()), ("mfu", "mfu", PERCENT),
    ("peak_memory_bytes", "peak memory", BYTES), ("fits", "fits", ()),
)  # fmt: skip
RANKS: tuple[Column, ...] = (
    ("rank", "rank", ()), ("busy_s", "busy", SECONDS), ("idle_s", "idle", SECONDS),
    ("bubble_ratio", "bubble_ratio", PERCENT), ("peak_memory_bytes", "peak memory", BYTES),
    ("peak_in_flight", "in flight", ()),
)  # fmt: skip
PORTS: tuple[Column, ...] = (
    ("port", "port", ()), ("bytes", "bytes", BYTES), ("busy_s", "busy", SECONDS),
    ("utilization", "utilization", PERCENT),
)  # fmt: skip


def summary(contents: Sequence[Content]) -> Any:
    """A row per result."""
    return _table(SUMMARY, [(content.label, content.summary) for content in contents])


def ranks(contents: Sequence[Content]) -> Any:
    """A row per rank of each result, with its idle time by cause."""
    rows = [(content.label, row) for content in contents for row in content.summary["per_rank"]]
    causes = dict.fromkeys(cause for _, row in rows for cause, value in (row.get("waits_s") or {}).items() if value)
    flat = [(label, {**row, **(row.get("waits_s") or {})}) for label, row in rows]
    return _table((*RANKS, *((cause, cause, SECONDS) for cause in causes)), flat)


def ports(contents: Sequence[Content]) -> Any:
    """A row per port of each result; None where there is none."""
    rows = [(content.label, row) for content in contents for row in content.summary["links"] or ()]
    return _table(PORTS, rows) if rows else None


def ops(source: Any, time: Axis) -> Any:
    """All ops of a result, with what makes the Gantt chart: to pick one picks it there."""
    from bokeh.models import NumberFormatter, TableColumn

    number = NumberFormatter(format="0,0.[000000]", text_align="right")
    unit = time.unit.name
    columns = [
        TableColumn(field="name", title="op", width=110), TableColumn(field="rank", title="rank", width=60),
        TableColumn(field="left", title=f"start [{unit}]", formatter=number, width=110),
        TableColumn(field="right", title=f"end [{unit}]", formatter=number, width=110),
        TableColumn(field="inputs", title="inputs", width=240), TableColumn(field="why", title="waited", width=360),
    ]  # fmt: skip
    return _made(source, columns, len(source.data["name"]))


def _table(shape: Sequence[Column], rows: Sequence[tuple[str, dict[str, Any]]]) -> Any:
    """A table whose columns sort by their values, each in one unit; without what no row knows."""
    from bokeh.models import ColumnDataSource, NumberFormatter, StringFormatter, TableColumn

    data: dict[str, list[Any]] = {"result": [label for label, _ in rows]}
    columns = [TableColumn(field="result", title="result", formatter=StringFormatter(), width=170)]
    for key, title, units in shape:
        values = [row.get(key) for _, row in rows]
        if all(value is None for value in values):
            continue
        name, of = _fitting(values, units)
        text = any(isinstance(value, bool | str) for value in values)
        number = NumberFormatter(format="0,0.[000]", text_align="right", nan_format="–")
        title = f"{title} [{name}]" if name else title
        data[key] = [
            _WORDS.get(value, str(value)) if text else float("nan") if value is None else value / of for value in values
        ]
        columns.append(TableColumn(field=key, title=title, width=125, formatter=StringFormatter() if text else number))
    return _made(ColumnDataSource(data), columns, len(rows))


def _fitting(values: Sequence[Any], units: Sequence[tuple[str, float]]) -> tuple[str, float]:
    """The largest unit of which one of the values holds at least one."""
    largest = max((abs(value) for value in values if value is not None), default=0) if units else 0
    return next((unit for unit in units if largest >= unit[1]), units[-1] if units else ("", 1.0))


def _made(source: Any, columns: list[Any], rows: int) -> Any:
    from bokeh.models import DataTable, InlineStyleSheet

    sheet = InlineStyleSheet(css=_CSS)
    return DataTable(
        source=source, columns=columns, index_position=None, sizing_mode="stretch_width", autosize_mode="none",
        height=min(ROW * (rows + 1) + 20, MOST_HIGH), stylesheets=[sheet], row_height=ROW, reorderable=False,
    )  # fmt: skip


_CSS = """
:host, .bk-data-table, .slick-viewport, .grid-canvas { background: var(--page); color: var(--ink); }
.slick-header, .slick-header-columns, .slick-header-column.ui-state-default {
  background: var(--shade) !important; color: var(--ink) !important; }
.slick-row, .slick-row.odd, .slick-cell { background: var(--page) !important; color: var(--ink);
  border-color: var(--line) !important; }
.slick-cell.selected { background: var(--lit) !important; }
"""
