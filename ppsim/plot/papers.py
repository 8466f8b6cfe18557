"""A paper's figure: published and simulated values, as lines where the paper draws lines, else side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ppsim.plot.style import OURS, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ppsim.papers.reproduce import Row, Table

MOST_BARS = 48
"""More rows are drawn as points, published along and simulated up."""
PUBLISHED, SIMULATED = "#0072B2", "#E69F00"


def figure(table: Table) -> Axes:
    """Lines over the page's ``plot``; else bars in pairs for few rows, points beside the line of equals for many."""
    from matplotlib.figure import Figure

    rows = [row for row in table.rows if row.simulated is not None]
    bars = table.figure.plot is None and len(rows) <= MOST_BARS
    drawn = Figure(figsize=(max(5.0, 1.6 + 0.32 * len(rows)) if bars else 6.2, 4.6), layout="constrained")
    drawn.set_label(OURS)
    axes = drawn.add_subplot()
    if table.figure.plot is not None:
        _lines(axes, table, rows)
    elif bars:
        _bars(axes, table, rows)
    else:
        _points(axes, table, rows)
    drawn.suptitle(f"{table.paper}: {table.figure.what}", fontsize=9, wrap=True, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _lines(axes: Axes, table: Table, rows: list[Row]) -> None:
    """A colour per line; published solid, simulated dashed."""
    plot = table.figure.plot
    if plot is None:
        return
    lines: dict[str, list[Row]] = {}
    for row in rows:
        lines.setdefault(", ".join(str(row.columns[key]) for key in plot.by), []).append(row)
    for number, (name, members) in enumerate(lines.items()):
        members.sort(key=lambda row: row.columns[plot.x])
        places = [float(row.columns[plot.x]) for row in members]
        colour = f"C{number % 10}"
        axes.plot(places, [row.published for row in members], "o-", color=colour, markersize=4, label=name)
        axes.plot(places, [row.simulated or 0.0 for row in members], "x--", color=colour, markersize=5)
    axes.plot([], [], "o-", color="0.4", markersize=4, label="published")
    axes.plot([], [], "x--", color="0.4", markersize=5, label="simulated")
    axes.set_xlabel(plot.x, parse_math=False)
    axes.set_ylabel(f"value{_unit(table)}", parse_math=False)
    axes.set_ylim(bottom=0)
    if plot.doubling:
        places = sorted({float(row.columns[plot.x]) for row in rows})
        axes.set_xscale("log", base=2)
        axes.set_xticks(places, [f"{place:g}" for place in places])
    title = ", ".join(plot.by)
    axes.legend(title=title, fontsize=8, title_fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _bars(axes: Axes, table: Table, rows: list[Row]) -> None:
    places = range(len(rows))
    axes.bar([x - 0.2 for x in places], [row.published for row in rows], 0.4, label="published", color=PUBLISHED)
    simulated = [row.simulated or 0.0 for row in rows]
    axes.bar([x + 0.2 for x in places], simulated, 0.4, label="simulated", color=SIMULATED, hatch="//", alpha=0.9)
    axes.set_xticks(list(places), [row.label for row in rows], rotation=90, fontsize=7, parse_math=False)
    axes.set_ylabel(f"value{_unit(table)}", parse_math=False)
    axes.legend(fontsize=8, frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0))


def _points(axes: Axes, table: Table, rows: list[Row]) -> None:
    published, simulated = [row.published for row in rows], [row.simulated or 0.0 for row in rows]
    low, high = min(published + simulated), max(published + simulated)
    axes.plot([low, high], [low, high], color="0.6", linewidth=1, label="equal")
    axes.plot(published, simulated, "o", markersize=3.5, color=PUBLISHED, label="a row", alpha=0.7)
    axes.set_xlabel(f"published{_unit(table)}", parse_math=False)
    axes.set_ylabel(f"simulated{_unit(table)}", parse_math=False)
    axes.legend(fontsize=8, frameon=False)


def _unit(table: Table) -> str:
    return f" ({table.figure.unit})" if table.figure.unit else ""


def draw(table: Table, path: Path) -> None:
    """Draw a figure into a file."""
    save(figure(table), path)
