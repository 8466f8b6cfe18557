"""A paper's figure: published and simulated values side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ppsim.plot.style import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ppsim.papers.reproduce import Table

MOST_BARS = 48
"""More rows are drawn as points, published along and simulated up."""


def figure(table: Table) -> Axes:
    """Bars in pairs for a figure of few rows; points beside the line where both are equal for one of many."""
    from matplotlib.figure import Figure

    rows = [row for row in table.rows if row.simulated is not None]
    few = len(rows) <= MOST_BARS
    drawn = Figure(figsize=(max(5.0, 1.6 + 0.32 * len(rows)) if few else 5.5, 4.6), layout="constrained")
    axes = drawn.add_subplot()
    published = [row.published for row in rows]
    simulated = [row.simulated or 0.0 for row in rows]
    unit = f" ({table.figure.unit})" if table.figure.unit else ""
    if few:
        places = range(len(rows))
        axes.bar([x - 0.2 for x in places], published, 0.4, label="published", color="#0072B2")
        axes.bar([x + 0.2 for x in places], simulated, 0.4, label="simulated", color="#E69F00", hatch="//", alpha=0.9)
        axes.set_xticks(list(places), [row.label for row in rows], rotation=90, fontsize=7, parse_math=False)
        axes.set_ylabel(f"value{unit}", parse_math=False)
    else:
        low, high = min(published + simulated), max(published + simulated)
        axes.plot([low, high], [low, high], color="0.6", linewidth=1, label="equal")
        axes.plot(published, simulated, "o", markersize=3.5, color="#0072B2", label="a row", alpha=0.7)
        axes.set_xlabel(f"published{unit}", parse_math=False)
        axes.set_ylabel(f"simulated{unit}", parse_math=False)
    axes.set_title(f"{table.paper}: {table.figure.what}", fontsize=9, wrap=True, parse_math=False)
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def draw(table: Table, path: Path) -> None:
    """Draw a figure into a file."""
    save(figure(table), path)
