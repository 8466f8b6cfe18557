"""The peaks of all ranks: a stacked bar each, true to the metric, for any number of ranks."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ppsim
from ppsim import plot
from ppsim.metrics import Run
from ppsim.metrics import memory as metric
from ppsim.plan.table import CATEGORIES
from tests.plot.runs import COSTS, HALVES, legend_texts, outside, overlaps, rectangles, run, title

GIB = 2**30
DEVICE = {"device": {"memory": "20 GiB"}, "inter_node": "free"}


@pytest.mark.parametrize("result", [run("1f1b", 4, 8), run("zbv", 4, 8, HALVES), run("1f1b", 200, 4)], ids=str)
def test_each_bar_is_what_its_rank_holds_at_its_peak(result):
    axes = plot.peaks(result)
    held = metric.peak_by_category(result.run)
    tops = np.zeros(held.shape[1])
    for category, of_ranks in zip(CATEGORIES, held, strict=True):
        bars = rectangles(axes, f"peaks-{category}")  # left, right, lower, upper
        ranks = np.round((bars[:, 0] + bars[:, 1]) / 2).astype(int)
        assert ranks.tolist() == np.flatnonzero(of_ranks).tolist()
        assert np.array_equal(bars[:, 3] - bars[:, 2], of_ranks[ranks])
        assert np.array_equal(bars[:, 2], tops[ranks])
        tops[ranks] = bars[:, 3]
    assert np.array_equal(tops, metric.peak_bytes(result.run))


def test_textbook_1f1b_and_the_device():
    # 4 GiB of weights, as much of gradients, and on rank r 16-r microbatches of 1 GiB: ranks 0 to 3 hold over 20 GiB.
    axes = plot.peaks(run("1f1b", 16, 64, {**COSTS, "message": "0 B"}, cluster=DEVICE))
    assert title(axes) == (
        "1f1b with p=16, m=64 holds 9 GiB to 24 GiB at its ranks' peaks: 4 of 16 ranks hold more than a device's 20 GiB"
    )
    (line,) = [line for line in axes.lines if line.get_gid() == "device-memory"]
    assert set(line.get_ydata()) == {20 * GIB}
    assert legend_texts(axes.figure) == ["weights", "gradients", "activations", "device memory 20 GiB"]


@pytest.mark.parametrize("size", ["notebook", "slide", "paper"])
@pytest.mark.parametrize("p", [4, 64, 1024])
def test_no_text_overlaps_or_leaves_the_figure(p, size):
    figure = plot.peaks(run("1f1b", p, 2, cluster=DEVICE), size=size).figure
    assert overlaps(figure) == []
    assert outside(figure) == []


def test_where_not_every_rank_has_a_panel_the_peaks_of_all_stand_above():
    figure = plot.memory(run("1f1b", 16, 4)).figure
    (axes,) = [axes for axes in figure.axes if axes.get_title("left") == "peak of every rank"]
    assert len(rectangles(axes, "peaks-weights")) == 16
    assert overlaps(figure) == []
    assert len(plot.memory(run("1f1b", 4, 4)).figure.axes) == 4


def test_a_run_that_does_not_know_its_memory():
    simulated = run("1f1b", 2, 2).run
    with pytest.raises(ppsim.PpsimError, match=re.escape("peaks: this run doesn't know what its ops hold")):
        plot.peaks(Run(simulated.plan, simulated.timeline))
