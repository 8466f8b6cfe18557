"""simulate with a schedule of its own: the experiment that it then is, in the result, its id and what is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ppsim
from ppsim import store
from ppsim.config.load import load
from ppsim.config.resolved import config_id
from ppsim.ops import OpTable, Orders, alternate
from ppsim.schedules.base import Problem, Rank
from ppsim.schedules.gpipe import GPipe
from ppsim.schedules.one_f_one_b import OneFOneB
from tests.simulated import experiment, ms


def test_the_result_is_of_the_experiment_under_that_schedule(tmp_path: Path) -> None:
    """Its id is that of the same experiment written with that schedule, and the stored config runs to the same time."""
    base, written = experiment("1f1b", 4, 8), experiment("gpipe", 4, 8)
    result = ppsim.simulate(base, schedule=GPipe())
    assert result.experiment == written
    assert result.summary["config_id"] == config_id(written) != config_id(base)
    store.write(result, tmp_path / "out")
    again = load(tmp_path / "out" / "config.yaml")
    assert again.schedule == GPipe()
    assert ppsim.simulate(again).timeline.makespan == result.timeline.makespan
    assert base.schedule == OneFOneB()


@pytest.mark.parametrize(
    ("runtime", "before", "after", "kept"),
    [
        # Schedule1F1B alone waits for fused batches; what nobody set follows the schedule.
        ("pytorch", "1f1b", GPipe(), {"p2p": "separate"}),
        ("pytorch", "gpipe", OneFOneB(), {"p2p": "fused"}),
        ({"preset": "megatron", "op_overhead": "1 us"}, "1f1b", GPipe(), {"p2p": "separate", "op_overhead": 1e-6}),
        # What was changed stays.
        (
            {"preset": "pytorch", "p2p": "separate", "barrier": True},
            "1f1b",
            GPipe(),
            {"p2p": "separate", "barrier": True},
        ),
        ({"send": "blocking"}, "1f1b", GPipe(), {"send": "blocking"}),
    ],
)
def test_a_preset_is_that_of_the_schedule_that_runs(
    runtime: Any, before: str, after: ppsim.Schedule, kept: dict[str, Any]
) -> None:
    result = ppsim.simulate(experiment(before, 4, 8, runtime=runtime), schedule=after)
    assert {key: getattr(result.experiment.runtime, key) for key in kept} == pytest.approx(kept)
    written = experiment(after.name, 4, 8, runtime=runtime)
    assert result.experiment == written


def test_what_doesnt_go_together_is_said_of_what_somebody_set() -> None:
    base = experiment("1f1b", 4, 8, runtime={"p2p": "fused"})
    with pytest.raises(ppsim.ConfigError, match=r"^runtime\.p2p: no framework fuses the sends and receives of 'gpipe'"):
        ppsim.simulate(base, schedule=GPipe())


class Turns(ppsim.Schedule):
    """A schedule of a notebook, with a function among its settings."""

    name: str = "turns"
    order: Callable[[Rank], OpTable]

    def orders(self, problem: Problem) -> Orders:
        return problem.per_rank(self.order)


def test_a_schedule_of_ones_own_may_hold_what_no_config_can_say() -> None:
    """One microbatch at a time: 2 · 3 ms on each of 2 ranks in turn."""
    result = ppsim.simulate(
        experiment("1f1b", 2, 2), schedule=Turns(order=lambda r: alternate(r.forwards(), r.backwards()))
    )
    assert ms(result) == 12
    assert result.summary["schedule"] == "turns"
    assert len(result.summary["config_id"]) == 64


@pytest.mark.parametrize(("weights", "fits"), [({}, None), ({"weights": "0 B"}, True), ({"weights": "1 GiB"}, True)])
def test_what_was_not_given_stays_unknown_in_the_stored_config(weights: Any, fits: bool | None, tmp_path: Path) -> None:
    """A run of its own resolved config says of memory what it said; 4 · 1 GiB of activations are far below 80 GB."""
    from ppsim.config.resolved import text

    costs = {"activation": "1 GiB", **weights}
    first = experiment("1f1b", 4, 8, costs=costs, cluster={"device": {"like": "a100-80gb"}})
    (tmp_path / "again.yaml").write_text(text(first), encoding="utf-8")
    again = load(tmp_path / "again.yaml")
    assert ppsim.simulate(first).summary["fits"] is ppsim.simulate(again).summary["fits"] is fits
    assert ("weights_per_stage: not given" in text(first)) is (not weights)
