"""What an op needs while it runs: held from its start to its end, in both engines."""

from __future__ import annotations

from typing import Any

import pytest

import ppsim
from ppsim.config.experiment import Experiment

COSTS = {
    "per": "stage", "forward": "10 ms", "backward": "20 ms", "activation": "100 B",
    "transient_forward": ["7 B", "1 B"], "transient_backward": ["40 B", "500 B"],
}  # fmt: skip


def peaks(engine: str, schedule: Any = "1f1b", **changes: Any) -> list[dict[str, int]]:
    given = {"ranks": 2, "microbatches": 4, **changes.pop("pipeline", {})}
    run = Experiment(schedule=schedule, pipeline=given, costs={**COSTS, **changes})
    return [row["peak_by_category"] for row in ppsim.simulate(run, engine=engine).per_rank()]


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_an_op_holds_it_while_it_runs(engine: str) -> None:
    """Rank 0 has two microbatches in flight and runs a backward; rank 1 one, whose backward needs the most."""
    first, last = peaks(engine)
    assert (first["activations"], first["transient"]) == (200, 40)
    assert (last["activations"], last["transient"]) == (100, 500)


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_a_forward_that_needs_more_than_a_backward(engine: str) -> None:
    # the second forward of rank 0 starts with two microbatches in flight, too
    first, _ = peaks(engine, transient_forward="60 B", transient_backward="0 B")
    assert (first["activations"], first["transient"]) == (200, 60)


def test_halves_of_a_backward_and_recomputations_hold_it_too() -> None:
    halves = {"backward": None, "input_grad": "10 ms", "weight_grad": "10 ms"}
    assert peaks("simpy", "zb_h1", **halves)[1]["transient"] == 500
    again = peaks("simpy", pipeline={"recompute": "full"}, transient_forward="900 B", stage_input="10 B")
    assert again[1] == {**again[1], "activations": 100, "transient": 900}  # while R runs, all is there again


def test_a_longer_microbatch_needs_more() -> None:
    first, _ = peaks("simpy", pipeline={"microbatch_weights": [1, 1, 3, 1]})
    assert first["transient"] == 120


def test_nothing_transient_is_nothing() -> None:
    assert {row["transient"] for row in peaks("simpy", transient_forward="0 B", transient_backward="0 B")} == {0}
