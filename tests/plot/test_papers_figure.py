"""A paper's figure as a picture: lines where its page says so, else bars, with the legend beside what is drawn."""

from __future__ import annotations

from typing import Any

import pytest

from ppsim.papers.paper import named
from ppsim.papers.reproduce import reproduce
from ppsim.plot.papers import figure


def drawn(paper: str, name: str) -> Any:
    page = named(paper)
    only = page.model_copy(update={"figures": [each for each in page.figures if each.name == name]})
    (table,) = reproduce(only)
    return figure(table)


def test_lines_are_published_solid_and_simulated_dashed_in_one_colour() -> None:
    """Figure 11 of Megatron-LM: batch 8 and 128, each over p = 1, 2, 4, 8."""
    pytest.importorskip("scipy")
    axes = drawn("megatron", "figure11")
    lines = [line for line in axes.lines if len(line.get_xdata()) > 0]
    assert [list(line.get_xdata()) for line in lines] == [[1, 2, 4, 8]] * 4
    assert [line.get_linestyle() for line in lines] == ["-", "--", "-", "--"]
    assert [line.get_color() for line in lines] == ["C0", "C0", "C1", "C1"]
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["8", "128", "published", "simulated"]


def test_the_legend_covers_no_bar() -> None:
    axes = drawn("pipedream", "figure17")
    axes.figure.draw_without_rendering()
    legend = axes.get_legend()
    assert len(axes.patches) == 2 * 4  # four models
    assert legend.get_window_extent().y0 >= axes.get_window_extent().y1 - 1
