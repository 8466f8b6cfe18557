"""Charts of several results: true to their timelines, under one time axis and one legend; parts that sum to the whole."""

from __future__ import annotations

import numpy as np
import pytest

import ppsim
from ppsim import plot
from ppsim.analysis.whatif import PARTS
from ppsim.ops import Kind
from tests.marks import rest_slow
from tests.plot.runs import SLOW, ids, legend_texts, outside, overlaps, run, spans, title


@pytest.fixture(scope="module")
def found() -> ppsim.Comparison:
    interleaved = {"name": "interleaved_1f1b", "virtual_stages": 2}
    return ppsim.compare([run(schedule, 4, 8, cluster=SLOW) for schedule in ("gpipe", "1f1b", interleaved, "zbv")])


def test_bars_of_every_chart_are_its_timeline(found):
    """Each F is a bar from its start to its end on the line of its rank: 4·8 of them, 8·8 with two stages per rank."""
    figure = plot.charts(found)
    assert len(figure.axes) == 1 + len(found.results)  # the first one only carries the legend
    for axes, result, count in zip(figure.axes[1:], found.results, (32, 32, 64, 64), strict=True):
        plan, timeline = result.plan, result.timeline
        rows = np.flatnonzero(plan.ops.kind == Kind.F)
        expected = set(
            zip(plan.ops.rank[rows].tolist(), timeline.start[rows].tolist(), timeline.end[rows].tolist(), strict=True)
        )
        assert len(expected) == count
        assert spans(axes, "ops-F") == expected


def test_one_time_axis_and_one_legend(found):
    figure = plot.charts(found)
    longest = max(result.timeline.makespan for result in found.results)
    assert {axes.get_xlim() for axes in figure.axes[1:]} == {(0, longest)}
    assert [axes.get_legend() for axes in figure.axes] == [None] * 5
    # Kinds that only one of the results has, and lengths from the shortest to the longest of all: as given, since per: stage.
    texts = legend_texts(figure)
    for entry in ("F forward 10 ms", "B backward 20 ms", "I input gradient 10 ms", "W weight gradient 10 ms"):
        assert entry in texts
    assert "a rank's first to last stage (the later, the higher its pale foot)" in texts
    assert "ops-W" in ids(figure.axes[4]) and "ops-W" not in ids(figure.axes[1])


@pytest.mark.parametrize("size", rest_slow(["notebook", "slide", "paper"]))
def test_no_text_touches_another_or_leaves_the_figure(found, size):
    figure = plot.charts(found, size=size)
    assert overlaps(figure) == []
    assert outside(figure) == []


def test_averages_are_noted():
    """64·512·2 ops on 1,500 pixels can't all be drawn."""
    figure = plot.charts(ppsim.compare([run("gpipe", 64, 512), run("1f1b", 64, 512)]))
    for axes in figure.axes[1:]:
        assert "colours averaged where ops are too thin to draw: 65,5" in title(axes)


def test_parts_of_a_step_sum_to_it(found):
    """The bars of a result end where its step does."""
    axes = plot.split(found)
    unit = 10**6  # the axis says ms
    assert axes.get_xlabel() == "time [ms]"
    ends = [0.0] * len(found.results)
    for container in axes.containers:
        for i, bar in enumerate(container):
            ends[i] += bar.get_width()
    assert ends == pytest.approx([result.timeline.makespan / unit for result in found.results])
    assert [container.get_label() for container in axes.containers] == [part.replace("_", " ") for part in PARTS]
    assert overlaps(axes.figure) == []


def test_names_that_look_like_formulas_are_text():
    results = [run("gpipe", 2, 2, name="a_b"), run("gpipe", 2, 2, name="c")]
    figure = plot.charts(ppsim.compare(results))
    assert title(figure.axes[1]).startswith("a_b: gpipe: ")
