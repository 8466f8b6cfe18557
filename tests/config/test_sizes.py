"""Sizes that must agree: global_batch = micro_batch_size · microbatches · data_parallel; costs scale with the size."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import ppsim
from ppsim.config import resolved
from ppsim.errors import ConfigError
from tests.simulated import ms

SIZES = ("global_batch", "micro_batch_size", "microbatches", "data_parallel")
COSTS = {"per": "stage", "forward": "1 ms", "backward": "2 ms"}


def experiment(pipeline: dict[str, Any], costs: dict[str, Any] | None = None, **settings: Any) -> ppsim.Experiment:
    settings.setdefault("schedule", "gpipe")
    return ppsim.Experiment(pipeline={"ranks": 4, **pipeline}, costs={**COSTS, **(costs or {})}, **settings)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # 64 = 2 · 8 · 4, whichever is left out
        ({"micro_batch_size": 2, "microbatches": 8, "data_parallel": 4}, (64, 2, 8, 4)),
        ({"global_batch": 64, "microbatches": 8, "data_parallel": 4}, (64, 2, 8, 4)),
        ({"global_batch": 64, "micro_batch_size": 2, "data_parallel": 4}, (64, 2, 8, 4)),
        ({"global_batch": 64, "micro_batch_size": 2, "microbatches": 8}, (64, 2, 8, 4)),
        ({"global_batch": 64, "micro_batch_size": 2, "microbatches": 8, "data_parallel": 4}, (64, 2, 8, 4)),
        # where two are left out, there is one copy of the pipeline
        ({"global_batch": 64, "micro_batch_size": 2}, (64, 2, 32, 1)),
        ({"global_batch": 64, "microbatches": 8}, (64, 8, 8, 1)),
        ({"micro_batch_size": 2, "microbatches": 8}, (16, 2, 8, 1)),
        ({"microbatches": 8}, (None, None, 8, 1)),
    ],
)
def test_any_one_follows_from_the_others(given: dict[str, int], expected: tuple[int | None, ...]) -> None:
    pipeline = experiment(given).pipeline
    assert tuple(getattr(pipeline, key) for key in SIZES) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"global_batch": 64, "micro_batch_size": 2, "microbatches": 8, "data_parallel": 2},
            "pipeline.global_batch: global_batch = micro_batch_size · microbatches · data_parallel doesn't hold: 64 is "
            "not 2 · 8 · 2 = 32; leave one of them out and it is derived",
        ),
        (
            {"global_batch": 64, "micro_batch_size": 3},
            "pipeline.global_batch: microbatches = global_batch / (micro_batch_size · data_parallel) = 64 / (3 · 1) is "
            "not a whole number; global_batch 63 or 66 works",
        ),
        (
            {"global_batch": 3, "microbatches": 8},
            "pipeline.global_batch: micro_batch_size = global_batch / (microbatches · data_parallel) = 3 / (8 · 1) is "
            "not a whole number; global_batch 8 works",
        ),
        ({"global_batch": 64}, "pipeline.microbatches: missing"),
        (
            {"global_batch": "64", "microbatches": 2},
            "pipeline.global_batch: '64' is not a whole number, but text; write 64",
        ),
        ({"global_batch": 0, "microbatches": 2}, "pipeline.global_batch: 0 is too small; at least 1"),
    ],
)
def test_contradictions_are_shown_with_the_equation_filled_in(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        experiment(given)
    assert str(caught.value).startswith(message)


def test_a_contradiction_is_found_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "sizes.yaml"
    path.write_text(
        "schedule: 1f1b\npipeline:\n  ranks: 4\n  global_batch: 64\n  micro_batch_size: 3\n"
        "costs: {forward: 1 ms, backward: 2 ms}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as caught:
        ppsim.load(path)
    assert str(caught.value).startswith(f"{path}:4:3: pipeline.global_batch: microbatches = ")


def test_the_resolved_config_holds_what_was_derived(tmp_path: Path) -> None:
    path = tmp_path / "resolved.yaml"
    first = experiment({"global_batch": 64, "micro_batch_size": 2, "data_parallel": 4})
    path.write_text(resolved.text(first), encoding="utf-8")
    assert "microbatches: 8" in path.read_text(encoding="utf-8")
    assert ppsim.load(path).pipeline == first.pipeline


def test_given_costs_scale_from_the_size_they_were_measured_at() -> None:
    """Measured at 4 samples, used with 6: times, activation, message and stage input are 3/2 of it, weights are not."""
    sizes = {"activation": "8 MB", "message": "2 MB", "stage_input": "1 MB", "weights": "40 MB", "optimizer": "4 ms"}
    costs = experiment({"microbatches": 8, "micro_batch_size": 6}, {"micro_batch_size": 4, **sizes}).problem().costs
    assert costs.forward[0] == Fraction(15, 10_000)
    assert costs.backward[0] == Fraction(3, 1000)
    assert costs.recompute[0] == Fraction(15, 10_000)
    assert (costs.activation[0], costs.message[0], costs.stage_input[0]) == (12_000_000, 3_000_000, 1_500_000)
    assert (costs.weights[0], costs.optimizer[0]) == (40_000_000, Fraction(4, 1000))


@pytest.mark.parametrize(
    ("pipeline", "costs", "code"),
    [
        ({"micro_batch_size": 2}, {"micro_batch_size": 1}, None),
        ({}, {}, None),
        ({"micro_batch_size": 2}, {}, None),  # costs that don't follow the size, beside samples/s that do
        ({}, {"micro_batch_size": 1}, "no_effect"),
    ],
)
def test_a_measured_size_that_nothing_is_scaled_to_is_pointed_out(
    pipeline: dict[str, int], costs: dict[str, int], code: str | None
) -> None:
    found = experiment({"microbatches": 4, **pipeline}, costs)
    notices = [notice for notice in ppsim.simulate(found).notices if notice.key == "costs.micro_batch_size"]
    assert [notice.code for notice in notices] == ([code] if code else [])


def test_overhead_and_latency_do_not_scale() -> None:
    """Twice the size: (F + B) = 6 and 2·0.5 of overhead a microbatch, (m+p-1) = 5 of them, and 2 flights of 1 ms."""
    run = experiment(
        {"ranks": 2, "microbatches": 4, "micro_batch_size": 2}, {"micro_batch_size": 1},
        cluster={"inter_node": {"latency": "1 ms"}}, runtime={"op_overhead": "500 us"},
    )  # fmt: skip
    assert ms(ppsim.simulate(run)) == 5 * (6 + 1) + 2


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_best_number_of_microbatches_at_a_fixed_batch(schedule: str) -> None:
    """64 samples on 8 ranks, F=1 and B=2 ms a sample, 0.5 ms of overhead an op: (m + 7)(3·64/m + 1) for each divisor m.

    Few microbatches leave a bubble, small ones cost their overhead: the best m is neither the least nor the most.
    """
    closed = {m: (m + 7) * (3 * 64 / m + 1) for m in (1, 2, 4, 8, 16, 32, 64)}
    simulated = {
        m: ms(
            ppsim.simulate(
                experiment(
                    {"ranks": 8, "global_batch": 64, "microbatches": m}, {"micro_batch_size": 1}, schedule=schedule,
                    runtime={"op_overhead": "500 us"},
                )
            )
        )
        for m in closed
    }  # fmt: skip
    assert simulated == pytest.approx(closed)
    assert min(simulated, key=simulated.__getitem__) == min(closed, key=closed.__getitem__) == 32


def fixed_batch(m: int, overhead: str) -> float:
    """public question D27: GPipe p=8; all of a step's work on a rank is 17.1 times what one microbatch's overhead is."""
    batch = 720_720  # divided by every m from 8 to 16
    return ms(
        ppsim.simulate(
            experiment(
                {"ranks": 8, "global_batch": batch, "microbatches": m},
                {"micro_batch_size": batch, "forward": "5.7 ms", "backward": "11.4 ms"},
                runtime={"op_overhead": overhead},
            )
        )
    )


def test_overhead_eats_what_more_microbatches_gain() -> None:
    """D27 (marin-community/marin#6532): 8 to 16 microbatches would gain 15/8 : 23/16; measured 7987 : 8077 tokens/s.

    (m + 7)(17.1/m + 1) is least at m = sqrt(7·17.1) = 10.9.
    """
    assert fixed_batch(8, "0 s") / fixed_batch(16, "0 s") == pytest.approx(1.304, abs=5e-4)
    assert fixed_batch(8, "500 us") / fixed_batch(16, "500 us") == pytest.approx(0.989, abs=5e-4)
    assert min(range(8, 17), key=lambda m: fixed_batch(m, "500 us")) == 11
