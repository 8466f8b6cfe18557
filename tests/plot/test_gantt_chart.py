"""The Gantt chart is true to the Timeline, says what it shows, and stays readable and bounded."""

from __future__ import annotations

import re

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import ppsim
from ppsim import plot
from ppsim.metrics import Run, waits
from ppsim.ops import Kind
from ppsim.plot.labels import MOST
from ppsim.plot.looks import KINDS, rgb
from tests.marks import rest_slow
from tests.plot.runs import (
    COSTS,
    HALVES,
    MS,
    SLOW,
    ids,
    legend_texts,
    lines,
    outside,
    overlaps,
    rectangles,
    run,
    spans,
    texts,
    title,
)  # fmt: skip

PLAIN = {
    "1f1b": lambda: run("1f1b", 4, 8),
    "gpipe": lambda: run("gpipe", 4, 8),
    "interleaved": lambda: run({"name": "interleaved_1f1b", "virtual_stages": 2}, 4, 8),
    "recompute": lambda: run("1f1b", 4, 8, pipeline={"recompute": "full"}),
    "slow links": lambda: run("1f1b", 4, 8, cluster=SLOW),
    "two steps and an optimizer": lambda: run("1f1b", 4, 4, HALVES, pipeline={"steps": 2}),
    "halves": lambda: run("zbv", 4, 8, HALVES),
    "lengths": lambda: run("1f1b", 4, 8, pipeline={"microbatch_weights": [1, 0.5, 0.7, 2, 1.2, 1, 1, 0.1]}),
    "one rank": lambda: run("1f1b", 1, 3),
}


def at(result: ppsim.Result, rows: np.ndarray) -> set[tuple[int, int, int]]:
    """(rank, start, end) of rows."""
    columns = result.plan.ops.rank[rows], result.timeline.start[rows], result.timeline.end[rows]
    return set(zip(*(column.tolist() for column in columns), strict=True))


def expected(result: ppsim.Result, kind: Kind) -> set[tuple[int, int, int]]:
    timeline = result.timeline
    return at(result, np.flatnonzero((result.plan.ops.kind == kind) & (timeline.end > timeline.start)))


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN.keys())
def test_every_op_is_a_bar_where_the_timeline_has_it(make):
    result = make()
    axes = plot.gantt(result)
    for kind in (Kind.F, Kind.B, Kind.I, Kind.W, Kind.R, Kind.OPTIM):
        assert spans(axes, f"ops-{kind.name}") == expected(result, kind)


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN.keys())
def test_idle_time_is_shaded_by_cause_and_fills_the_rest_of_every_line(make):
    result = make()
    axes = plot.gantt(result)
    by_cause = waits.by_cause(result.run)
    for number, cause in enumerate(waits.CAUSES):
        drawn = spans(axes, f"idle-{cause}")
        for rank in range(result.plan.ops.ranks):
            assert sum(end - start for line, start, end in drawn if line == rank) == by_cause[rank, number]
    for rank in range(result.plan.ops.ranks):  # one after the other from 0 to the makespan, no hole, no overlap
        names = [name for name in ids(axes) if name.startswith(("ops", "idle"))]
        here = sorted((start, end) for name in names for line, start, end in spans(axes, name) if line == rank)
        assert here[0][0] == 0 and here[-1][1] == result.timeline.makespan
        assert [end for _, end in here[:-1]] == [start for start, _ in here[1:]]


def test_textbook_1f1b():
    # p=4, F=10 ms, B=20 ms: the first forward reaches rank 3 after 3 F, its backward follows at once, and takes 2 F.
    axes = plot.gantt(run("1f1b", 4, 8))
    assert (3, 30 * MS, 40 * MS) in spans(axes, "ops-F")
    assert (3, 40 * MS, 60 * MS) in spans(axes, "ops-B")
    # (m+p-1)(F+B) = 11 * 30 ms; (p-1)/(m+p-1) = 3/11; (p-1)/m = 3/8.
    assert title(axes) == (
        "1f1b with p=4, m=8 takes 330 ms: bubble_ratio 27.3 % (idle / all time), bubble_overhead 37.5 % (idle / busy)"
    )


def test_rank_0_is_on_top_and_time_is_labelled_in_its_unit():
    axes = plot.gantt(run("1f1b", 4, 8))
    bottom, top = axes.get_ylim()
    assert (top, bottom) == (-0.5, 3.5)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0", "1", "2", "3"]
    assert axes.get_xlabel() == "time [ms]"
    assert axes.get_xlim() == (0, 330 * MS)
    figure = axes.figure
    figure.draw_without_rendering()
    assert {"0", "50", "300"} <= {label.get_text() for label in axes.get_xticklabels()}


@pytest.mark.parametrize(("forward", "unit"), [("10 ns", "ns"), ("10 us", "us"), ("10 ms", "ms"), ("10 s", "s")])
def test_the_unit_fits_the_length(forward, unit):
    axes = plot.gantt(run("1f1b", 2, 2, {**COSTS, "forward": forward, "backward": forward}))
    assert axes.get_xlabel() == f"time [{unit}]"
    assert f"F forward {forward}" in legend_texts(axes.figure)


def test_a_fused_pair_is_its_forward_above_its_backward():
    result = run("dualpipe", 4, 8, HALVES)
    pairs = at(result, np.flatnonzero(result.plan.tail) - 1)
    axes = plot.gantt(result)
    assert pairs and spans(axes, "ops-pair-F") == spans(axes, "ops-pair-B") == pairs
    upper, lower = rectangles(axes, "ops-pair-F"), rectangles(axes, "ops-pair-B")
    assert np.allclose(upper[:, 3], lower[:, 2])  # they meet: y grows downwards
    single = rectangles(axes, "ops-F")[0]
    assert np.allclose(upper[0, 3] - upper[0, 2], (single[3] - single[2]) / 2)
    assert "F + B fused pair 30 ms" in legend_texts(axes.figure)  # 10 ms + 20 ms


def test_transfers_are_thin_bars_beneath_their_senders_line():
    result = run("1f1b", 4, 8, cluster=SLOW)
    plan, timeline = result.plan, result.timeline
    src = plan.routes.src[plan.transfers.route].tolist()
    axes = plot.gantt(result)
    on_ports = set(zip(src, timeline.transfer_start.tolist(), timeline.left.tolist(), strict=True))
    in_flight = set(zip(src, timeline.left.tolist(), timeline.arrive.tolist(), strict=True))
    assert len(on_ports) == 2 * 3 * 8  # 2(p-1) pairs of neighbours, m messages each
    assert spans(axes, "transfers-on-ports") == on_ports
    assert spans(axes, "transfers-in-flight") == in_flight
    bars, sends = rectangles(axes, "ops-F"), rectangles(axes, "transfers-on-ports")
    assert np.all(sends[:, 2] - lines(sends) > (bars[:, 3] - lines(bars)).max())
    assert np.all(sends[:, 3] - lines(sends) < 0.5)
    assert (sends[0, 3] - sends[0, 2]) < (bars[0, 3] - bars[0, 2]) / 3
    assert "transfer in flight 2 ms" in legend_texts(axes.figure)


def test_free_links_leave_no_strip():
    assert not {name for name in ids(plot.gantt(run("1f1b", 4, 8))) if "transfers" in name}


def test_the_legend_gives_durations_and_shares():
    result = run("1f1b", 4, 8, pipeline={"microbatch_weights": [1, 0.5, 0.7, 2, 1.2, 1, 1, 0.1]})
    found = legend_texts(plot.gantt(result).figure)
    assert "F forward 1–20 ms" in found  # 10 ms times 0.1 to 2
    assert "B backward 2–40 ms" in found
    idle = [float(match[1]) for text in found if (match := re.fullmatch(r"idle, .* (\d+\.\d) %", text))]
    assert sum(idle) == pytest.approx(100 * result.summary["bubble_ratio"], abs=0.05 * len(idle))  # each rounded once


def test_the_ends_of_steps_are_lines():
    # A step takes (m+p-1)(F+B) = 7 * 30 ms; with a barrier it ends on all ranks at once.
    result = run("1f1b", 4, 4, pipeline={"steps": 2})
    (drawn,) = [c for c in plot.gantt(result).collections if c.get_gid() == "step-ends"]
    assert [path.vertices[0, 0] for path in drawn.get_paths()] == [210 * MS] * 4


def test_without_a_barrier_a_step_ends_on_each_rank_by_itself():
    result = run("1f1b", 4, 4, pipeline={"steps": 2}, runtime={"barrier": False})
    plan, timeline = result.plan, result.timeline
    (drawn,) = [c for c in plot.gantt(result).collections if c.get_gid() == "step-ends"]
    last = [timeline.end[(plan.ops.rank == rank) & (plan.ops.step == 0)].max() for rank in range(4)]
    assert [path.vertices[0, 0] for path in drawn.get_paths()] == last


def test_a_microbatch_number_stands_in_the_middle_of_its_bar_and_within_it():
    axes = plot.gantt(run("1f1b", 4, 8))
    assert len(axes.texts) == 2 * 4 * 8  # all fit here
    axes.figure.draw_without_rendering()
    bars = np.concatenate([rectangles(axes, "ops-F"), rectangles(axes, "ops-B")])
    for text in axes.texts:
        x, y = text.get_position()
        inside = bars[(bars[:, 0] < x) & (x < bars[:, 1]) & (bars[:, 2] < y) & (y < bars[:, 3])]
        assert len(inside) == 1
        assert x == inside[0, :2].mean()
        box = text.get_window_extent()
        (left, top), (right, bottom) = axes.transData.transform(inside[0][[[0, 2], [1, 3]]])
        assert left < box.x0 and box.x1 < right
        assert bottom < box.y0 and box.y1 < top


def test_numbers_that_do_not_fit_are_left_out_and_parts_of_the_run_are_enlarged():
    result = run("1f1b", 16, 64)  # 237 units of 10 ms in 1,430 pixels: 6 pixels, 3 points, for a number of two digits
    axes, *panels = plot.gantt(result).figure.axes
    assert not axes.texts
    assert [panel.get_title("left") for panel in panels] == [
        "warm-up, enlarged", "steady state, enlarged", "end, enlarged",
    ]  # fmt: skip
    ranks = [[label.get_text() for label in panel.get_yticklabels()] for panel in panels]
    assert ranks == [["12", "13", "14", "15"], ["6", "7", "8", "9"], ["0", "1", "2", "3"]]
    # Rank 12's first forward comes after 12 others; the last backward ends the run; the middle is in the middle.
    assert panels[0].get_xlim()[0] == 120 * MS
    assert panels[2].get_xlim()[1] == result.timeline.makespan
    assert np.mean(panels[1].get_xlim()) == result.timeline.makespan / 2
    for panel in panels:
        low, high = panel.get_xlim()
        whole = [
            box for name in ("ops-F", "ops-B") for box in rectangles(panel, name) if low <= box[0] and box[1] <= high
        ]
        assert len(panel.texts) == len(whole) > 4  # all that aren't cut are numbered
    frames = [patch.get_bbox() for patch in axes.patches if patch.get_gid() == "enlarged"]
    assert [(box.x0, box.x1) for box in frames] == [panel.get_xlim() for panel in panels]
    assert [(box.y0, box.y1) for box in frames] == [(11.5, 15.5), (5.5, 9.5), (-0.5, 3.5)]


def test_a_window_or_a_few_ranks_are_an_enlargement_themselves():
    result = run("1f1b", 16, 64)
    assert len(plot.gantt(result, ranks=[0, 1]).figure.axes) == 1
    assert len(plot.gantt(result, window=(0, 0.5)).figure.axes) == 1


def labels(axes: Axes) -> set[str]:
    return {text.get_text() for text in axes.texts}


@pytest.mark.parametrize("schedule", ["1f1b", {"name": "interleaved_1f1b", "virtual_stages": 2}])
def test_one_rule_for_labels_the_whole_op_where_all_fit_else_all_numbers_else_none(schedule):
    # The shortest forward has 10 ms of the window's: '0F0' in 6 points is 12.9 points wide, a number less than half.
    result = run(schedule, 4, 8)
    for window, form in (((0, 0.25), r"\d[FB]\d"), ((0, 0.8), r"\d"), ((0, 5), "none")):
        found = labels(plot.gantt(result, window=window))
        assert found or form == "none"
        assert all(re.fullmatch(form, text) for text in found)


def test_where_ranks_hold_several_stages_a_label_is_the_whole_op_if_all_fit():
    axes = plot.gantt(run("dualpipe", 4, 8, HALVES))
    assert {"0F0", "3I4", "3W4", "3B5"} <= labels(axes)
    narrow = plot.gantt(run("zbv", 4, 8, HALVES))
    assert labels(narrow) == {str(number) for number in range(8)}


def test_far_shorter_ops_do_not_take_the_others_labels():
    axes = plot.gantt(run("1f1b", 2, 4, pipeline={"microbatch_weights": [1, 1, 1, 0.01]}))
    assert labels(axes) == {f"{stage}{kind}{k}" for stage in (0, 1) for kind in "FB" for k in range(3)}


def test_a_ranks_later_stages_have_a_pale_foot():
    result = run({"name": "interleaved_1f1b", "virtual_stages": 3}, 4, 4, {**COSTS, "per": "stage"})
    axes = plot.gantt(result)
    forwards, feet = rectangles(axes, "ops-F"), rectangles(axes, "feet-F")
    later = result.plan.ops.stage[result.plan.ops.kind == Kind.F] >= 4  # p stages are the first chunk
    assert len(feet) == later.sum() == 2 * 4 * 4
    heights = np.unique(np.round((feet[:, 3] - feet[:, 2]) / (forwards[0, 3] - forwards[0, 2]), 6))
    assert heights.tolist() == [0.12, 0.24]  # half of it, and all of it
    assert not ids(plot.gantt(run("1f1b", 4, 8))) & {"feet-F", "feet-B"}


def test_moves_have_their_own_colour_and_number():
    result = run("bpipe", 8, 16, cluster=SLOW)
    plan, timeline = result.plan, result.timeline
    axes = plot.gantt(result).figure.axes[0]
    for kind in (Kind.EVICT, Kind.LOAD):
        rows = np.flatnonzero(plan.ops.kind[plan.transfers.issuer] == kind)
        src = plan.routes.src[plan.transfers.route[rows]].tolist()
        expected_ = set(zip(src, timeline.transfer_start[rows].tolist(), timeline.left[rows].tolist(), strict=True))
        assert spans(axes, f"moves-{kind.name}") == expected_ and expected_
        numbers = {str(k) for k in plan.ops.microbatch[plan.transfers.issuer[rows]].tolist()}
        assert numbers <= labels(axes)
    # 1 GiB at 5 GB/s takes 214.7 ms.
    assert "EVICT, an activation moved away 214.7 ms" in legend_texts(axes.figure)


def test_messages_that_wait_for_a_port_are_shown_beneath_the_transfers():
    result = run("1f1b", 4, 8, cluster=SLOW)
    timeline, plan = result.timeline, result.plan
    axes = plot.gantt(result)
    waiting = np.flatnonzero(timeline.transfer_start > timeline.ready)
    src = plan.routes.src[plan.transfers.route[waiting]]
    # Four forwards of 10 ms each, messages of 11.74 ms: the second to fourth wait 1.74, 3.49, 5.23 ms on rank 0.
    first = np.sort((timeline.transfer_start - timeline.ready)[waiting][(src == 0)])[:3]
    assert np.round(first / MS, 2).tolist() == [1.74, 3.49, 5.23]
    assert len(rectangles(axes, "transfers-waiting")) == len(waiting)
    assert rectangles(axes, "transfers-waiting")[0, 2] > rectangles(axes, "transfers-on-ports")[0, 3]


def test_arrows_lead_from_sender_to_receiver_in_small_runs():
    result = run("1f1b", 4, 8, cluster=SLOW)
    (drawn,) = [c for c in plot.gantt(result).collections if c.get_gid() == "arrows"]
    ends = np.array([path.vertices for path in drawn.get_paths()])
    assert len(ends) == 2 * 3 * 8
    plan, timeline = result.plan, result.timeline
    route = plan.transfers.route
    assert np.array_equal(ends[:, 0, 0], timeline.transfer_start) and np.array_equal(ends[:, 1, 0], timeline.arrive)
    assert np.array_equal(
        np.round(ends[:, 1, 1] - np.sign(ends[:, 1, 1] - ends[:, 0, 1]) * -0.2), plan.routes.dst[route]
    )
    assert "arrows" not in ids(plot.gantt(run("1f1b", 4, 32, cluster=SLOW)))  # 192 would be a thicket


def test_updates_are_drawn_where_there_is_no_flush():
    result = run("pipedream", 4, 8)
    axes = plot.gantt(result)
    (marks,) = [line for line in axes.lines if line.get_gid() == "updates"]
    ends = expected(result, Kind.B)  # an update after each backward: eight steps of one minibatch on each rank
    drawn = {(round(y + 0.44), int(x)) for x, y in zip(*marks.get_data(), strict=True)}
    assert drawn == {(rank, end) for rank, _, end in ends} and len(drawn) == 4 * 8
    assert "update of the weights" in legend_texts(axes.figure)
    assert not [line for line in plot.gantt(run("1f1b", 4, 8)).lines if line.get_gid() == "updates"]


CHARTS = {
    **PLAIN,
    "fused": lambda: run("dualpipe", 4, 8, HALVES),
    "sync": lambda: run("1f1b", 4, 8, cluster=SLOW, runtime="megatron", pipeline={"data_parallel": 2, "steps": 2}),
    "blocking": lambda: run("1f1b", 4, 8, cluster=SLOW, runtime={"send": "blocking"}),
    "moves": lambda: run("bpipe", 8, 16, cluster=SLOW),
    "16 ranks": lambda: run("1f1b", 16, 64),
    "64 ranks": lambda: run("1f1b", 64, 8),
    "256 ranks": lambda: run("1f1b", 256, 8),
}


@pytest.mark.parametrize("size", rest_slow(["paper", "notebook", "slide"]))
@pytest.mark.parametrize("make", rest_slow(CHARTS.values(), 7), ids=CHARTS.keys())
def test_no_text_overlaps_or_leaves_the_figure(make, size):
    figure = plot.gantt(make(), size=size).figure
    assert overlaps(figure) == []
    assert outside(figure) == []


def averaged(axes: Axes, name: str = "averaged-ops") -> np.ndarray:
    """Red, green, blue and opacity per row of pixels and column."""
    (image,) = [image for image in axes.images if image.get_gid() == name]
    return np.asarray(image.get_array()) / 255


def test_thin_ops_are_averaged_and_the_figure_says_so():
    result = run("1f1b", 4, 2000)  # 16,000 ops; 6009 units of 10 ms in some 1,430 pixels
    axes = plot.gantt(result).figure.axes[0]
    assert re.match(r"time \[s\], colours averaged where ops are too thin to draw: 16,000 of 16,000", axes.get_xlabel())
    assert not len(rectangles(axes, "ops-F"))
    # In the steady state a rank spends a third of its time with F, two thirds with B, whatever the pixels.
    mixed = (np.array(rgb(KINDS[Kind.F].colour)) + 2 * np.array(rgb(KINDS[Kind.B].colour))) / 3
    picture = averaged(axes)
    for rank in range(4):
        line = picture[int((rank + 0.5) / 4 * len(picture))]
        steady = line[len(line) // 4 : 3 * len(line) // 4]
        assert np.all(steady[:, 3] > 0.999)
        assert np.abs(steady[:, :3] - mixed).max() < 0.005


def test_no_pattern_arises_that_is_not_in_the_run():
    # 64 lines of the steady state are all alike; each pixel's own bars would beat with the pixels.
    picture = averaged(plot.gantt(run("1f1b", 64, 512)).figure.axes[0])
    lines = picture[[int((rank + 0.5) / 64 * len(picture)) for rank in range(64)]]
    width = lines.shape[1]
    steady = lines[:, int(0.3 * width) : int(0.7 * width)]
    assert np.all(steady[..., 3] > 0.999)
    assert np.ptp(steady[..., :3], axis=(0, 1)).max() < 0.005


@pytest.mark.parametrize(("p", "m", "cluster"), [(64, 256, None), (64, 64, SLOW), (4, 5000, None)])
def test_the_number_of_artists_does_not_grow_with_the_ops(p, m, cluster):
    axes = plot.gantt(run("1f1b", p, m, **({"cluster": cluster} if cluster else {}))).figure.axes[0]
    # Two kinds, three of transfers, at most eight causes; hatches are an artist per cause; what is averaged an image.
    assert len(axes.collections) <= 13
    assert len(axes.patches) + len(axes.artists) <= 12
    assert len(axes.images) <= 4
    assert len(axes.texts) <= MOST


def test_more_labels_than_anybody_reads_are_left_out():
    # In 0.6 s of the steady state each of 64 lines has 20 pairs of F and B with room for a number: 2,560 labels.
    axes = plot.gantt(run("1f1b", 64, 128), window=(2.8, 3.4))
    assert not axes.texts
    assert 0 < len(plot.gantt(run("1f1b", 64, 128), window=(2.8, 3.0)).texts) <= MOST


def test_a_window_and_some_ranks():
    result = run("1f1b", 4, 8)
    axes = plot.gantt(result, ranks=[3, 0], window=(0.1, 0.2))
    assert axes.get_xlim() == (100 * MS, 200 * MS)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["3", "0"]
    swapped = {0: 3, 1: 0}
    for kind in (Kind.F, Kind.B):
        seen = {(r, s, e) for r, s, e in expected(result, kind) if r in (0, 3) and s < 200 * MS and e > 100 * MS}
        assert {(swapped[line], s, e) for line, s, e in spans(axes, f"ops-{kind.name}")} == seen


def test_more_ranks_than_lines_of_pixels_are_thinned():
    axes = plot.gantt(run("1f1b", 1000, 1))
    assert re.search(r", (\d+) of 1,000 ranks shown", axes.get_xlabel())
    shown = int(axes.get_ylim()[0] + 0.5)
    assert axes.bbox.height / shown >= 2
    assert axes.get_xlabel().endswith(f"{shown} of 1,000 ranks shown")


def test_ops_that_take_no_time():
    nothing = run("1f1b", 2, 2, {"per": "stage", "forward": "0 ms", "backward": "0 ms"})
    axes = plot.gantt(nothing)
    assert axes.get_xlabel() == "time [ns], no op takes any time"
    some = run("1f1b", 2, 2, {"per": "stage", "forward": "0 ms", "backward": "1 ms"})
    axes = plot.gantt(some)
    assert spans(axes, "ops-B") == expected(some, Kind.B)
    assert not len(rectangles(axes, "ops-F"))


def test_a_run_that_does_not_know_what_its_ops_waited_for():
    simulated = run("1f1b", 4, 8).run
    axes = plot.gantt(Run(simulated.plan, simulated.timeline))
    assert {name for name in ids(axes) if "idle" in name} == {"idle-unknown"}
    # Idle: 3/11 of 4 ranks times 330 ms.
    assert sum(end - start for _, start, end in spans(axes, "idle-unknown")) == 360 * MS
    assert title(axes).startswith("A run with p=4, m=8 takes 330 ms")


def test_axes_of_the_user_are_drawn_into():
    figure = Figure(figsize=(12, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    result = run("1f1b", 4, 8)
    assert plot.gantt(result, left) is left
    assert plot.gantt(result, right) is right
    assert spans(left, "ops-F") == spans(right, "ops-F") == expected(result, Kind.F)
    assert overlaps(figure) == []
    assert isinstance(left, Axes) and left.get_legend() is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ranks": [4]}, "ranks: 4 is no rank of this run; they are 0 to 3"),
        ({"ranks": ["x"]}, "ranks: 'x' is no rank of this run; they are 0 to 3"),
        ({"ranks": []}, "ranks: name at least one rank, and each once"),
        ({"ranks": [1, 1]}, "ranks: name at least one rank, and each once"),
        ({"window": (0.2, 0.1)}, "window: 0.2 s to 0.1 s is no part of a run; give (start, end) in seconds"),
        ({"size": "slides"}, "size: unknown size 'slides'; did you mean 'slide'? known: notebook, slide, paper"),
    ],
)
def test_mistakes_are_answered(arguments, message):
    with pytest.raises(ppsim.PpsimError, match=f"^{re.escape(message)}$"):
        plot.gantt(run("1f1b", 4, 8), **arguments)


def test_texts_are_found_at_all():
    """The checks for overlaps above would pass if they saw no text."""
    figure = plot.gantt(run("1f1b", 4, 8)).figure
    assert len(texts(figure)) > 64 + 4 + 7  # bars, ranks, times
    figure.text(0.5, 0.5, "over the bars", fontsize=40)
    assert overlaps(figure)
    figure.text(0.99, 0.5, "beyond the edge")
    assert outside(figure) == ["beyond the edge"]


def test_where_nothing_goes_on_in_the_middle_what_comes_nearest_is_enlarged():
    """GPipe with p = 64 and m = 8: the ranks in the middle idle from their forwards to their backwards."""
    result = run("gpipe", 64, 8)
    (panel,) = [
        other for other in plot.gantt(result).figure.axes if other.get_title("left").startswith("in the middle")
    ]
    assert not panel.get_xlim()[0] < result.timeline.makespan / 2 < panel.get_xlim()[1]
    assert len(rectangles(panel, "ops-F")) + len(rectangles(panel, "ops-B")) > 0


def test_the_end_that_is_enlarged_is_of_the_ranks_that_end_last():
    """Zero bubble up and down a V: rank 0 is done a while before the last one."""
    result = run("zbv", 64, 128, HALVES)
    (panel,) = [other for other in plot.gantt(result).figure.axes if other.get_title("left").startswith("end")]
    last = {row["rank"] for row in result.per_rank() if row["waits_s"]["drain"] == 0}
    assert last & {int(label.get_text()) for label in panel.get_yticklabels()}
    assert len(rectangles(panel, "ops-W")) > 0
