"""Why one run is slower than another, in the parts of its ranks' mean time."""

from __future__ import annotations

from typing import Any

import ppsim
from ppsim.analysis.slower import slower
from ppsim.config.experiment import Experiment


def run(schedule: Any = "1f1b", **pipeline: Any) -> Any:
    sizes = {"ranks": 4, "microbatches": 8, **pipeline}
    costs = {"per": "model", "forward": "40 ms", "backward": "80 ms", "activation": "4 MB"}
    return ppsim.simulate(Experiment(schedule=schedule, pipeline=sizes, costs=costs))


def test_recomputation_is_named() -> None:
    # 1F1B of 10 + 20 ms: 11 · 30 = 330 ms; with 10 ms more each that fill no wait: 8 more on each rank, 80 ms
    text = slower(run(), run(recompute="full", recompute_when="late"))
    assert text.startswith("33.3% slower: 80 ms more recomputation")  # 11 · 40 = 440 ms
    assert text.endswith("(mean of its ranks)")


def test_the_other_way_round_it_is_faster() -> None:
    text = slower(run(recompute="full", recompute_when="late"), run())
    assert text.startswith("25.0% faster: 80 ms less recomputation")


def test_idle_time_is_named_by_its_cause() -> None:
    # interleaved, two stages per rank: 8 · 30 + 3 · 15 = 285 ms against 330: 45 ms less idle on every rank
    text = slower(run({"name": "interleaved_1f1b", "virtual_stages": 2}), run())
    assert text.startswith("15.8% slower: ")
    assert "work" not in text  # both compute as much


def test_the_same_is_as_fast() -> None:
    assert slower(run(), run()) == "as fast"
