"""The memory chart is true to the memory metric, and always shows the rank that decides."""

from __future__ import annotations

import re

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import ppsim
from ppsim import plot
from ppsim.metrics import Run
from ppsim.metrics import memory as metric
from ppsim.plan.table import CATEGORIES
from ppsim.plot import levels
from tests.marks import rest_slow
from tests.plot.runs import COSTS, HALVES, MS, SLOW, ids, legend_texts, outside, overlaps, run

GIB = 2**30
SILENT = {**COSTS, "message": "0 B"}


def panels(axes: Axes) -> dict[int, Axes]:
    """All axes of the figure by the rank in their title."""
    found = {}
    for one in axes.figure.axes:
        match = re.match(r"rank (\d+): peak ", one.get_title("left"))
        if match:
            found[int(match[1])] = one
    return found


def drawn(axes: Axes, category: str, time: float, what: str = "memory") -> tuple[float, float]:
    """Bottom and top of a category's area at a moment."""
    for area in axes.patches:
        if area.get_gid() == f"{what}-{category}":
            x, y = area.get_path().vertices[:, 0], area.get_path().vertices[:, 1]
            left, right = x[:-1], x[1:]
            cross = (np.minimum(left, right) <= time) & (np.maximum(left, right) > time)
            assert np.array_equal(y[:-1][cross], y[1:][cross])  # steps: level between changes
            levels = y[:-1][cross]
            return float(levels.min()), float(levels.max())
    return 0.0, 0.0


@pytest.mark.parametrize(
    "result",
    [
        run("1f1b", 4, 8),
        run("gpipe", 4, 8, cluster=SLOW),
        run("zbv", 4, 8, HALVES),
        run("1f1b", 4, 8, pipeline={"recompute": "full"}),
    ],
    ids=["1f1b", "slow links", "halves", "recompute"],
)
def test_the_stack_is_what_the_metric_says_at_every_moment(result):
    found = metric.curves(result.run)
    for rank, axes in panels(plot.memory(result)).items():
        mine = found.rank == rank
        time, held = found.time[mine], found.bytes[mine]
        for at, until, now in zip(time, np.append(time[1:], result.timeline.makespan), held, strict=True):
            bottom = 0
            for category, size in zip(CATEGORIES, now.tolist(), strict=True):
                if until > at and size:
                    assert drawn(axes, category, (at + until) / 2) == (bottom, bottom + size)
                bottom += size


def test_textbook_1f1b_holds_p_minus_r_activations():
    # 4 GiB of weights and as much of gradients, and on rank r at most p-r microbatches of 1 GiB in flight.
    axes = plot.memory(run("1f1b", 4, 8, SILENT))
    titles = {rank: one.get_title("left").replace("\u00a0", " ") for rank, one in panels(axes).items()}
    # Rank r's p-r-th forward begins after r forwards to reach it and p-r-1 of its own, so at (p-1)F = 30 ms.
    assert titles == {rank: f"rank {rank}: peak {8 + 4 - rank} GiB at 30 ms" for rank in range(4)}
    assert axes is panels(axes)[0]
    heading = axes.figure.get_suptitle().replace("\u00a0", " ")
    assert heading == "1f1b with p=4, m=8 holds at most 12 GiB, on rank 0 at 30 ms"
    assert {"weights up to 4 GiB", "gradients up to 4 GiB", "activations up to 4 GiB"} < set(legend_texts(axes.figure))


def test_the_peak_is_marked():
    result = run("1f1b", 4, 8, SILENT)
    for rank, axes in panels(plot.memory(result)).items():
        (mark,) = [line for line in axes.lines if line.get_gid() == "peak"]
        assert mark.get_xydata().tolist() == [[30 * MS, (12 - rank) * GIB]]


def test_axes_have_units():
    axes = plot.memory(run("1f1b", 4, 8, SILENT))
    assert axes.figure.get_supylabel() == "memory [GiB]"
    assert panels(axes)[3].get_xlabel() == "time [ms]"
    axes.figure.draw_without_rendering()
    assert {"0", "10"} <= {label.get_text() for label in axes.get_yticklabels()}
    small = plot.memory(run("1f1b", 2, 2, {**SILENT, "weights": "1 KiB", "activation": "1 KiB"}))
    assert small.figure.get_supylabel() == "memory [KiB]"


@pytest.mark.parametrize(
    ("memory", "line", "legend"),
    [
        ("11 GiB", True, "device memory 11 GiB"),  # below the peak of 12 GiB: it doesn't fit
        ("16 GiB", True, "device memory 16 GiB"),
        ("80 GiB", False, "device memory 80 GiB, far above"),  # would press the areas flat
    ],
)
def test_the_devices_memory_is_a_line(memory, line, legend):
    result = run("1f1b", 4, 8, SILENT, cluster={"device": {"memory": memory}, "inter_node": "free"})
    axes = plot.memory(result)
    for one in panels(axes).values():
        levels = [mark.get_ydata()[0] for mark in one.lines if mark.get_gid() == "device-memory"]
        assert levels == ([result.plan.capacity] if line else [])
    assert legend in legend_texts(axes.figure)
    verdict = "within" if result.summary["fits"] else "more than"
    assert f": {verdict} a device's {memory}" in axes.figure.get_suptitle().replace("\u00a0", " ")


@pytest.mark.parametrize("heaviest", [0, 13, 30, 31])
def test_of_many_ranks_some_are_shown_and_the_one_with_the_highest_peak_always(heaviest):
    activation = ["1 MiB"] * 32
    activation[heaviest] = "4 GiB"
    axes = plot.memory(run("1f1b", 32, 8, {**SILENT, "weights": "0 B", "activation": activation}))
    assert len(panels(axes)) == 8
    assert panels(axes)[heaviest] is axes
    assert {min(panels(axes)), max(panels(axes))} <= {0, 31, heaviest}
    assert "(8 of 32 ranks shown)" in axes.figure.get_suptitle()


def test_ranks_can_be_chosen():
    axes = plot.memory(run("1f1b", 8, 8), ranks=[5, 2])
    assert list(panels(axes)) == [5, 2]
    assert axes is panels(axes)[2]


def test_many_changes_are_drawn_as_the_most_and_the_mean_and_no_peak_is_lost():
    result = run("1f1b", 2, 1000, SILENT, cluster=SLOW)
    axes = plot.memory(result)
    words = "at most and on average, where changes are denser than pixels"
    assert words in legend_texts(axes.figure)
    static = 8 * GIB  # 4 GiB of weights and as much of gradients
    middle = result.timeline.makespan / 2
    for rank, one in panels(axes).items():
        for name in ("most", "mean"):
            (area,) = [patch for patch in one.patches if patch.get_gid() == f"{name}-activations"]
            # A column per pixel: two corners above and two below.
            assert len(area.get_path().vertices) <= 4 * one.bbox.width + 8
            if name == "most":
                assert area.get_path().vertices[:, 1].max() == metric.peak_bytes(result.run)[rank]
        # Rank 0 has two forwards in flight all the time. Rank 1 holds one during F, B, F, B, then waits for two
        # latencies: 1 GiB in 60 of 64 ms; a pixel is 43 ms.
        assert drawn(one, "activations", middle, "most") == (static, static + (2 - rank) * GIB)
        _, high = drawn(one, "activations", middle, "mean")
        assert (high - static) / GIB == pytest.approx([2, 60 / 64][rank], rel=0.005)


def test_the_mean_weighs_what_is_held_by_its_time():
    # 1 byte from 0 to 30 of every 100 ns, 3 from 30 to 40, then nothing: 0.6 on average, 3 at most.
    time = (np.arange(1000)[:, None] * 100 + np.array([0, 30, 40])).ravel()
    held = np.tile([[1], [3], [0]], (1000, 1))
    most, mean = levels.dense(time, held, 100_000, columns=50, reach=3)
    assert np.array_equal(most.edges, np.arange(0, 100_001, 2000))
    assert most.held.ravel().tolist() == [3] * 50
    assert mean.held.ravel() == pytest.approx(np.full(50, 0.6))


def test_what_is_held_when_a_column_begins_counts_in_it_and_nothing_counts_before_the_first_change():
    # 5 bytes from 250 to 725 ns, in columns of 100.
    most, mean = levels.dense(np.array([250, 725]), np.array([[5], [0]]), 1000, columns=10, reach=1)
    assert most.held.ravel().tolist() == [0, 0, 5, 5, 5, 5, 5, 5, 0, 0]
    assert mean.held.ravel() == pytest.approx([0, 0, 2.5, 5, 5, 5, 5, 1.25, 0, 0])


def test_the_mean_of_what_is_held_all_the_time_is_that():
    # 7 bytes always; above them 4 more from 500 ns on. Averaged over two columns of 100 ns to either side that would be
    # 4/9 and 12/9 before 500 ns, where it isn't held at all, and 4 - 12/9 and 4 - 4/9 after.
    most, mean = levels.dense(np.array([0, 500]), np.array([[7, 0], [7, 4]]), 1000, columns=10, reach=3)
    assert most.held.tolist() == [[7, 0]] * 5 + [[7, 4]] * 5
    assert mean.held[:, 0] == pytest.approx(np.full(10, 7))
    assert mean.held[:, 1] == pytest.approx([0, 0, 0, 0, 0, 24 / 9, 32 / 9, 4, 4, 4])


@pytest.mark.parametrize("size", rest_slow(["paper", "notebook", "slide"]))
@pytest.mark.parametrize(("p", "m"), [(1, 2), (3, 4), (4, 8), (64, 16)])
def test_no_text_overlaps_or_leaves_the_figure(p, m, size):
    cluster = {"device": {"memory": "16 GiB"}, **SLOW}
    figure = plot.memory(run("1f1b", p, m, HALVES, cluster=cluster), size=size).figure
    assert overlaps(figure) == []
    assert outside(figure) == []


def test_nothing_held_and_no_time():
    axes = plot.memory(run("1f1b", 2, 2, {"per": "stage", "forward": "0 ms", "backward": "0 ms"}))
    assert {name for name in ids(axes) if name.startswith("memory")} == set()
    assert axes.get_title("left").replace("\u00a0", " ") == "rank 0: peak 0 B at 0 ns"


def test_axes_of_the_user_show_the_highest_rank():
    figure = Figure(layout="constrained")
    axes = figure.add_subplot()
    assert plot.memory(run("1f1b", 4, 8), axes) is axes
    assert axes.get_title("left").startswith("rank 0: peak ")
    assert axes.get_ylabel() == "memory [GiB]"
    assert overlaps(figure) == []


def test_mistakes_are_answered():
    result = run("1f1b", 4, 8)
    with pytest.raises(ppsim.PpsimError, match=r"^ranks: 9 is no rank of this run; they are 0 to 3$"):
        plot.memory(result, ranks=[9])
    with pytest.raises(ppsim.PpsimError, match=r"^ranks: 2 ranks don't fit into one Axes; give one rank, or no ax$"):
        plot.memory(result, Figure().add_subplot(), ranks=[0, 1])
    with pytest.raises(ppsim.PpsimError, match=r"^memory: this run doesn't know what its ops hold; its gantt chart"):
        plot.memory(Run(result.plan, result.timeline))
