"""Recomputation: an op of its own before the backward, for the price of a forward and the gain of its activation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ppsim.metrics import bubble, memory
from tests.runs import listed, makespan_ms, row, simulated, span_ms
from tests.simulated import simulate


def run_of(p: int, m: int, schedule: Any = "gpipe", pipeline: dict[str, Any] | None = None, **settings: Any) -> Any:
    return simulated(schedule, {"ranks": p, "microbatches": m, **(pipeline or {})}, **settings)


@pytest.mark.parametrize(("recompute", "expected"), [("none", 12), ("except_last", 15), ("full", 16)])
def test_one_rank_pays_a_forward_for_each(recompute: str, expected: int) -> None:
    """public question D25: 4·(1 + 2), and one more ms for each of 3 or 4 recomputed microbatches."""
    assert makespan_ms(run_of(1, 4, pipeline={"recompute": recompute})) == expected


def test_except_last_spares_the_last_microbatch_of_every_step() -> None:
    run = run_of(1, 2, pipeline={"recompute": "except_last", "steps": 2})
    assert row(run, 0) == "0F0 0F1 0R0 0B0 0B1 0OPTIM 0F0@1 0F1@1 0R0@1 0B0@1 0B1@1 0OPTIM@1"


@pytest.mark.parametrize(("when", "expected"), [("late", 44), ("early", 41)])
def test_early_takes_the_recomputation_off_the_way_back(when: str, expected: int) -> None:
    """1F1B p=4, m=8. Late it makes a backward of 3: (8+3)·(1+3) = 44 (public question D25).

    Early, a gradient that goes up 3 ranks finds the recomputation done on each: 3 ms less.
    """
    run = run_of(4, 8, "1f1b", {"recompute": "full", "recompute_when": when})
    assert makespan_ms(run) == expected
    assert bubble.recompute(run).tolist() == [8_000_000] * 4
    assert bubble.bubble_ratio(run) == pytest.approx(3 / 11 if when == "late" else 1 - 32 / 41)


@pytest.mark.parametrize(("when", "expected", "again"), [("late", 14, 11), ("early", 13, 1)])
def test_early_fills_the_wait_for_a_late_gradient(when: str, expected: int, again: int) -> None:
    """p=2, m=1, a flight of 3: 1 + 3 + (1 + 1 + 2) + 3 to the gradient at 11; then B, and late first R.

    On rank 1 nothing is waited for; on rank 0 the early R runs right after its F, at 1.
    """
    run = run_of(
        2, 1, pipeline={"recompute": "full", "recompute_when": when}, cluster={"inter_node": {"latency": "3 ms"}}
    )
    assert makespan_ms(run) == expected
    assert span_ms(run, "0R0") == (again, again + 1)


def test_recomputation_costs_what_it_is_given() -> None:
    assert makespan_ms(run_of(1, 4, pipeline={"recompute": "full"}, costs={"recompute": "500 us"})) == 4 * 3.5


def test_gpipe_keeps_inputs_and_one_activation() -> None:
    """m·a = 8·10 MB without; with recomputation 7 inputs of 1 MB and the one activation that is being used."""
    costs = {"activation": "10 MB", "message": "1 MB"}
    assert memory.peak_by_category(run_of(2, 8, costs=costs))[4].tolist() == [80_000_000] * 2
    again = run_of(2, 8, pipeline={"recompute": "full"}, costs=costs)
    assert memory.peak_by_category(again)[4].tolist() == [17_000_000] * 2
    assert memory.peak_in_flight(again).tolist() == [8, 8]


@pytest.mark.parametrize(
    ("costs", "kept"),
    [
        ({"message": "1 MB"}, 1_000_000),  # by default the incoming message,
        ({"message": "99 MB"}, 10_000_000),  # never more than the activation,
        ({"message": "1 MB", "stage_input": "2 MB"}, 2_000_000),  # or as given
    ],
)
def test_what_a_recomputed_forward_keeps(costs: dict[str, str], kept: int) -> None:
    run = run_of(1, 4, pipeline={"recompute": "full"}, costs={"activation": "10 MB", **costs})
    assert memory.peak_by_category(run)[4].tolist() == [3 * kept + 10_000_000]


def test_recomputation_per_stage() -> None:
    """Only stage 0 recomputes. Its F's end at 8, 0R0 at 9; rank 1's F's at 9, so that the first gradient comes at 11.

    The others come every 2. So 0B0 ends at 13 and each further microbatch takes R and B: 13 + 7·3.
    """
    run = run_of(2, 8, pipeline={"recompute": ["full", "none"]}, costs={"activation": "10 MB", "message": "1 MB"})
    assert bubble.recompute(run).tolist() == [8_000_000, 0]
    assert memory.peak_by_category(run)[4].tolist() == [17_000_000, 80_000_000]
    assert makespan_ms(run) == 34


def test_the_weight_half_holds_its_part_of_what_was_recomputed() -> None:
    """One microbatch, a = 10 MB, its input 2 MB, held for W 4 MB: 2 during F, 10 in R and I, then 4 until W ends."""
    costs = {
        "input_grad": "1 ms", "weight_grad": "1 ms", "activation": "10 MB", "stage_input": "2 MB",
        "held_for_weight_grad": "4 MB",
    }  # fmt: skip
    run = run_of(1, 1, listed("0F0 0I0 0W0"), {"recompute": "full"}, costs=costs)
    assert row(run, 0) == "0F0 0R0 0I0 0W0"
    curve = memory.curves(run)
    megabytes = (curve.bytes[:, 4] // 1_000_000).tolist()
    assert list(zip((curve.time // 1_000_000).tolist(), megabytes, strict=True)) == [(0, 2), (1, 10), (3, 4), (4, 0)]


def test_an_order_that_lists_its_recomputation_is_left_as_it_is() -> None:
    rows = "0F0 0F1 0R1 0B1 0R0 0B0", "1F0 1F1 1R1 1B1 1R0 1B0"
    for recompute in ("none", "full"):
        run = run_of(2, 2, listed(*rows), {"recompute": recompute})
        assert row(run, 1) == rows[1]
        # Rank 1: F until 3, R, B, R, B until 9; rank 0: 0R1 at 2, its B 6-8, 0R0 8-9, 0B0 9-11.
        assert makespan_ms(run) == 11


def test_a_recomputation_that_stands_early_is_still_needed_by_its_backward() -> None:
    run = run_of(1, 2, listed("0F0 0F1 0R0 0R1 0B0 0B1"))
    assert makespan_ms(run) == 2 * 1 + 2 * 1 + 2 * 2


def test_fused_batches_recompute_after_the_gradient_is_there() -> None:
    """Megatron recomputes inside its backward, which starts when the batch is over, be it early or late."""
    starts = []
    for when in ("early", "late"):
        run = run_of(
            4, 8, "1f1b", {"recompute": "full", "recompute_when": when},
            cluster={"inter_node": {"latency": "250 us"}}, runtime={"p2p": "fused"},
        )  # fmt: skip
        starts.append(run.timeline.start)
    assert np.array_equal(*starts)


@pytest.mark.parametrize(("when", "codes"), [("early", ["no_effect"]), ("late", [])])
def test_early_is_pointed_out_where_it_has_no_effect(when: str, codes: list[str]) -> None:
    result = simulate("1f1b", 4, 8, pipeline={"recompute": "full", "recompute_when": when}, runtime={"p2p": "fused"})
    assert [notice.code for notice in result.notices if notice.key == "pipeline.recompute_when"] == codes
