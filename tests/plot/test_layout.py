"""Axes stand where matplotlib's own constrained layout, which measures everything twice, would put them."""

from __future__ import annotations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ppsim.plot import layout


def drawn(constrained: bool) -> tuple[Figure, list]:
    """A chart above, three panels of another height beneath; title, legend and a label for all at the side."""
    figure = Figure(figsize=(10, 6), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 3, height_ratios=[3, 1])
    axes = [figure.add_subplot(grid[0, :]), *(figure.add_subplot(grid[1, column]) for column in range(3))]
    for number, one in enumerate(axes):
        one.set_title(f"part {number}", loc="left")
        one.set_xlabel("time [ms]")
        one.set_yticks([0, 0.5, 1], ["0", "5" * (number + 1), "1"])
        one.plot([0, 1], [0, 1], label=str(number))
    head, side = figure.suptitle("What goes on\nin two lines"), figure.supylabel("rank")
    figure.legend(loc="outside lower left")
    if constrained:
        figure.get_layout_engine().execute(figure)
    else:
        layout.place(figure, head, side)
    return figure, [*(one.get_position().bounds for one in axes), head.get_position(), side.get_position()]


def test_axes_stand_as_in_constrained_layout():
    (_, expected), (_, found) = drawn(True), drawn(False)
    for one, other in zip(found, expected, strict=True):
        # 1 % of the figure: how far the last label of an axis reaches beyond it depends on how wide the axis is.
        assert one == pytest.approx(other, abs=0.01)


def test_what_is_placed_twice_stays_where_it_is():
    figure, first = drawn(False)
    layout.place(figure, *figure.texts)
    for one, bounds in zip(figure.axes, first[:4], strict=True):
        assert one.get_position().bounds == pytest.approx(bounds, abs=0.01)
