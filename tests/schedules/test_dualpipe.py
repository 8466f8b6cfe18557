"""DualPipe and DualPipeV: the authors' picture slot by slot, their table of bubbles, and what sizes are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ppsim
from ppsim.engine.timeline import Timeline
from ppsim.ops import Kind
from tests.simulated import simulate

SPLIT = {"input_grad": "1 ms", "weight_grad": "1 ms", "overlapped": "3 ms"}

PICTURE = (
    "FFFFFFFFBWFBWFBWFFBB...FBBFBBFBBFBBFBB.BBFBB.BBFBB.BBFBBBBBWBWBWBW",
    ".FFFFFFFFBWFBWFFBB..FBBFBBFBBFBBFBBFBBFBB.BBFBB.BBFBB.BBBBBBWBWBWW",
    "..FFFFFFFFBWFFBB.FBBFBBFBBFBBFBBFBBFBBFBBFBB.BBFBB.BB.BBBBBBBWBWWW",
    "...FFFFFFFFFBBFBBFBBFBBFBBFBBFBBFBBFBBFBBFBBFBB.BB.BB.BBBBBBBBWWWW",
)
"""deepseek-ai/DualPipe, images/dualpipe.png (8 ranks, 20 microbatches; ranks 4 to 7 mirror these) and dualpipev.png (4
ranks, 10 microbatches), read slot by slot: F, B (twice for a full backward, once for its input half), W, . for idle."""


LETTERS = {Kind.F: "F", Kind.B: "BB", Kind.I: "B", Kind.W: "W"}


def as_drawn(result: ppsim.Result, rows: tuple[str, ...]) -> Timeline:
    """The timeline that a picture shows for a result's plan: a letter is a ms, and every letter its op's."""
    plan = result.plan
    start, end = np.zeros(len(plan.ops), np.int64), np.zeros(len(plan.ops), np.int64)
    for rank, text in enumerate(rows):
        slot = 0
        for row in plan.ops.rows(rank):
            slot += len(text[slot:]) - len(text[slot:].lstrip("."))
            letters = LETTERS[Kind(int(plan.ops.kind[row]))]
            assert text[slot : slot + len(letters)] == letters, f"{plan.ops[row]} on rank {rank}, slot {slot}"
            start[row], end[row] = slot, slot + len(letters)
            slot += len(letters)
        assert slot == len(text), f"rank {rank} has more slots than ops"
    pairs = np.flatnonzero(plan.tail)
    end[pairs - 1] = end[pairs]
    start[pairs] = start[pairs - 1]
    sent = end[plan.transfers.producer] * 10**6
    return Timeline(plan, start * 10**6, end * 10**6, sent, sent)


@pytest.mark.parametrize(
    ("schedule", "p", "m", "rows"), [("dualpipe", 8, 20, PICTURE + PICTURE[::-1]), ("dualpipev", 4, 10, PICTURE)]
)
def test_picture_is_this_order_slot_by_slot(schedule: str, p: int, m: int, rows: tuple[str, ...]) -> None:
    """The picture's ops are ours, at times that break none of our dependencies, and as soon done as ours.

    It shows some of the later backwards after their idle slot, where eager ranks idle behind them: 6 slots either way.
    """
    result = simulate(schedule, p, m, costs=SPLIT)
    picture = as_drawn(result, rows)
    assert list(picture.violations()) == []
    assert np.all(result.timeline.start <= picture.start)
    assert result.timeline.makespan == picture.makespan == 66 * 10**6
    assert [row["idle_s"] for row in result.per_rank()] == [text.count(".") / 1000 for text in rows]
    # Up to the last fused pair of the steady state the two are one.
    steady = picture.start < 30 * 10**6
    assert np.array_equal(result.timeline.start[steady], picture.start[steady])


def test_d17_bubble_and_activations() -> None:
    """(p/2-1)(F&B+B-3W) = 3 · (3+2-3) = 6 idle of 66 on every rank; p+1 = 9 activations (README's table)."""
    result = simulate("dualpipe", 8, 20, costs=SPLIT)
    assert result.timeline.makespan == 66 * 10**6
    assert [row["idle_s"] for row in result.per_rank()] == [0.006] * 8
    assert [row["peak_in_flight"] for row in result.per_rank()] == [9] * 8
    assert result.summary["theory"]["makespan_s"] == 0.066


def test_d19_from_four_chunks_on_interleaving_has_the_smaller_bubble() -> None:
    """p = 8: interleaved (p-1)(F+B)/v = 21/v against 6; DualPipe holds all weights twice."""
    costs = {**SPLIT, "per": "rank", "weights": "1 GB"}
    dual = simulate("dualpipe", 8, 32, costs=costs)
    assert [row["idle_s"] for row in dual.per_rank()] == [0.006] * 8
    assert {row["peak_by_category"]["weights"] for row in dual.per_rank()} == {2 * 10**9}
    for v, bubble_ms in ((1, 21), (2, 10.5), (3, 7), (4, 5.25)):
        result = simulate({"name": "interleaved_1f1b", "virtual_stages": v}, 8, 32, costs=costs)
        # A third of a millisecond isn't a whole number of ns: each op is rounded once, up to 0.5 ns off.
        idle = [row["idle_s"] * 1e3 for row in result.per_rank()]
        assert idle == pytest.approx([bubble_ms] * 8, abs=1e-6 * 2 * 32 * v)
        assert {row["peak_by_category"]["weights"] for row in result.per_rank()} <= {10**9, 3 * 333333333}
        assert (idle[0] < 6) == (v > 3)


def test_two_stages_of_a_rank_hand_over_without_a_transfer() -> None:
    """A V of p ranks has 2p-1 hand-overs each way and microbatch; one, at its point, stays on the rank."""
    result = simulate("dualpipev", 3, 6, costs={**SPLIT, "message": "1 MB"})
    assert len(result.transfers) == 2 * (2 * 3 - 2) * 6


def test_copies_of_a_stage_sum_their_gradients_at_the_end() -> None:
    """Ranks r and p-1-r hold the same two stages. Each sends the other 2(n-1)/n = 1 of 10 MB for either: 2 · 1 ms."""
    costs = {**SPLIT, "weights": "10 MB"}
    result = simulate("dualpipe", 4, 8, costs=costs, cluster={"inter_node": {"bandwidth": "10 GB/s"}})
    assert result.timeline.makespan == (3 * 8 + 2 + 2) * 10**6
    sums = [(t.op, t.src, t.dst, t.bytes) for t in result.transfers.itertuples() if "REDUCE_GRAD" in t.op]
    assert sorted(sums) == sorted((f"{s}REDUCE_GRAD", r, 3 - r, 10**7) for r in range(4) for s in (r, 3 - r))


@pytest.mark.parametrize(
    ("schedule", "p", "m", "message"),
    [
        ("dualpipe", 7, 20, "pipeline.ranks: dualpipe needs an even number of ranks; 7 is odd, 8 would do"),
        ("dualpipe", 8, 14, "pipeline.microbatches: dualpipe needs 2 · ranks = 16 microbatches or more; 14 is too few"),
        ("dualpipe", 8, 17, "pipeline.microbatches: dualpipe needs an even number of microbatches, half for each"),
        ("dualpipev", 4, 7, "pipeline.microbatches: dualpipev needs 2 · ranks = 8 microbatches or more; 7 is too few"),
    ],
)
def test_sizes_that_are_refused(schedule: Any, p: int, m: int, message: str) -> None:
    with pytest.raises(ppsim.ConfigError) as caught:
        simulate(schedule, p, m)
    assert message in str(caught.value)
    assert "would do" in str(caught.value)


def test_pairs_that_overlap_are_faster_and_have_no_closed_form() -> None:
    """A pair takes 2 ms instead of F+B = 3: each saves a ms of the 60 that a rank works."""
    result = simulate("dualpipe", 8, 20, costs={**SPLIT, "overlapped": "2 ms"})
    assert result.theory == {}
    pairs = np.bincount(result.plan.ops.rank[result.plan.tail])
    assert [row["busy_s"] for row in result.per_rank()] == [(60 - n) / 1000 for n in pairs.tolist()]
    assert result.timeline.makespan < 66 * 10**6
