"""simulate_many: rows of many cases are those of one at a time, whatever neighbours share."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pytest

import ppsim
from ppsim.metrics import chosen
from ppsim.ops import Orders
from ppsim.schedules import Problem
from ppsim.schedules.one_f_one_b import OneFOneB
from tests.simulated import between_nodes, experiment

PORTS = between_nodes(bandwidth="1 GB/s", latency="3 us")
SLOW = between_nodes(bandwidth="100 MB/s", latency="1 ms")
SPLIT = {"input_grad": "1 ms", "weight_grad": "1 ms", "held_for_weight_grad": "1 MB"}
# Pairs of neighbours: each pair differs in what a plan's structure must tell apart, or in what it must not depend on.
NEIGHBOURS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"costs": {"forward": "3 ms"}}),
    ({"costs": {"message": "1 MB"}, "cluster": PORTS}, {"costs": {"message": "1 MB"}, "cluster": SLOW}),
    ({"costs": {"message": "1 MB"}, "cluster": PORTS}, {"costs": {"message": "0 B"}, "cluster": PORTS}),
    ({"costs": {"activation": "0 B"}}, {"costs": {"activation": "2 MB", "transient_backward": "1 MB"}}),
    ({"pipeline": {"steps": 2}}, {"pipeline": {"steps": 2}, "runtime": {"barrier": False}}),
    ({"costs": {"optimizer": "1 ms"}}, {"costs": {"optimizer": "0 s"}}),
    ({"pipeline": {"recompute": "full"}}, {"pipeline": {"recompute": "except_last", "recompute_when": "late"}}),
    ({"pipeline": {"microbatch_weights": [1, 2, 1, 1, 1, 1, 1, 3]}}, {"pipeline": {"microbatch_weights": [2] * 8}}),
    (
        {"pipeline": {"data_parallel": 2}, "costs": {"weights": "1 MB"}, "cluster": PORTS},
        {"pipeline": {"data_parallel": 2, "grad_bucket": "300 kB"}, "costs": {"weights": "2 MB"}, "cluster": PORTS},
    ),
    (
        {"runtime": {"send": "rendezvous", "eager_threshold": "2 MB"}, "costs": {"message": "1 MB"}, "cluster": PORTS},
        {"runtime": {"send": "rendezvous", "eager_threshold": "2 MB"}, "costs": {"message": "3 MB"}, "cluster": PORTS},
    ),
    ({"runtime": {"send": "blocking"}, "cluster": PORTS}, {"runtime": {"p2p": "fused"}, "cluster": PORTS}),
]
SCHEDULES = (
    "1f1b",
    {"name": "interleaved_1f1b", "virtual_stages": 2},
    "zb_h1",
    "greedy",
    "bpipe",
    "chimera",
    "pipedream",
)


def cases() -> list[ppsim.Experiment]:
    """Every schedule with both of each pair, one pair after the other; what doesn't go together is left out."""
    found = []
    for schedule, pair in product(SCHEDULES, NEIGHBOURS):
        for sections in pair:
            settings = {key: dict(value) for key, value in sections.items()}
            if schedule in ("zb_h1", "greedy"):
                settings["costs"] = {**SPLIT, **settings.get("costs", {})}
            try:
                found.append(experiment(schedule, 4, 8, **settings))
            except ppsim.ConfigError:
                continue
    return found


def test_rows_are_those_of_single_runs() -> None:
    """By ``==``: floats are the nearest ones to exact figures, and so have to be the same."""
    experiments = cases()
    assert len(experiments) > 100
    rows = ppsim.simulate_many(experiments)
    for case, row in zip(experiments, rows, strict=True):
        summary = ppsim.simulate(case).summary
        assert row == {name: summary[name] for name in row}, case
        assert list(row) == list(chosen())


def neighbours_that_share(schedule: Any) -> list[ppsim.Experiment]:
    """As a sweep makes them: the very same sections, but for one in which each differs from the first case."""
    first = experiment(
        schedule, 4, 8, costs={"message": "1 MB", "weights": "1 MB", "transient_forward": "1 MB", "optimizer": "1 ms"},
        cluster=PORTS,
    )  # fmt: skip
    others = [
        {"cluster": SLOW}, {"cluster": {**PORTS, "speed": "0.5"}}, {"cluster": {**PORTS, "speed": [1, 1, 2, 1]}},
        {"cluster": {**PORTS, "links": [{"ranks": [0, 1], "latency": "7 us"}]}}, {"cluster": between_nodes(latency="1 us")},
        {"cluster": {"ranks_per_node": 2, "intra_node": "free", "inter_node": {"bandwidth": "1 GB/s"}}},
        {"cluster": {**PORTS, "ranks_per_node": 2, "intra_node": "free", "ranks_per_nic": 2}},
        {"cluster": {"ranks_per_node": 2, "inter_node": {"bandwidth": "1 GB/s"}, "intra_node": {"overhead": "1 us"}}},
        {"runtime": {"op_overhead": "10 us"}}, {"runtime": {"send": "rendezvous"}}, {"runtime": {"send": "blocking"}},
        {"pipeline": {"microbatch_weights": [1, 2, 1, 1, 1, 1, 1, 3]}}, {"pipeline": {"steps": 2}},
        {"pipeline": {"data_parallel": 2}}, {"pipeline": {"recompute": "full"}},
    ]  # fmt: skip
    made = [first]
    for changes in others:
        ((key, _),) = changes.items()
        changed = getattr(experiment(schedule, 4, 8, **{"cluster": PORTS, **changes}), key)
        made += [first.model_copy(update={key: changed}), first]
    return made


@pytest.mark.parametrize("schedule", (*SCHEDULES[:2], "gpipe", "zbv", "chimera"), ids=str)
def test_cases_that_share_sections_are_those_of_single_runs(schedule: Any) -> None:
    """What is kept by a section's identity must not outlive what else it follows from."""
    experiments = neighbours_that_share(schedule)
    for case, row in zip(experiments, ppsim.simulate_many(experiments), strict=True):
        again = ppsim.Experiment(**{key: getattr(case, key) for key in ppsim.Experiment.model_fields})
        summary = ppsim.simulate(again).summary
        assert row == {name: summary[name] for name in row}, case


def test_only_what_is_asked_for_is_there() -> None:
    """1F1B of F = 1 ms, B = 2 ms at p = 4, m = 8 takes (m + p - 1) · 3 ms = 33 ms; 9 of 33 ms are lost."""
    case = experiment("1f1b", 4, 8)
    assert ppsim.simulate_many([case], ["bubble_ratio", "makespan_s"], engine="simpy") == [
        {"bubble_ratio": 9 / 33, "makespan_s": 0.033}
    ]
    (row,) = ppsim.simulate_many(iter([case]), ["critical_path"])
    assert row == {"critical_path": ppsim.simulate(case).summary["critical_path"]}
    assert ppsim.simulate_many([]) == []


def test_errors_say_what_would_work_and_which_experiment() -> None:
    with pytest.raises(ppsim.ConfigError, match="'step_time' is no figure of a whole run; did you mean 'step_time_s'"):
        ppsim.simulate_many([], ["step_time"])
    with pytest.raises(ppsim.ConfigError, match="a list of names"):
        ppsim.simulate_many([], "step_time_s")
    with pytest.raises(ppsim.ConfigError, match=r"experiment 1: simulate takes an Experiment, not 'x.yaml'"):
        ppsim.simulate_many([experiment("1f1b", 2, 2), "x.yaml"])  # type: ignore[list-item]
    stuck = experiment({"name": "interleaved_1f1b", "group": 1}, 4, 8)
    with pytest.raises(ppsim.DeadlockError, match=r"^experiment 0 \(experiment\): deadlock"):
        ppsim.simulate_many([stuck])


class Counted(OneFOneB):
    """1F1B that counts how often it is asked, and may look at the costs."""

    name: str = "counted"  # type: ignore[assignment]
    looks: bool = False
    asked: ClassVar[list[bool]] = []

    def orders(self, problem: Problem) -> Orders:
        self.asked.append(self.looks)
        if self.looks:
            assert problem.costs.forward[0] > Fraction(0)
        return super().orders(problem)


def test_orders_are_made_once_unless_the_schedule_looks_at_costs() -> None:
    Counted.asked.clear()
    plain, looking = Counted(), Counted(looks=True)
    costs: list[dict[str, Any]] = [{"forward": f"{i} ms"} for i in (1, 2, 3)]
    ppsim.simulate_many([experiment(schedule, 4, 8, costs=c) for schedule in (plain, looking) for c in costs])
    assert Counted.asked == [False, True, True, True]


def test_an_order_file_that_has_changed_is_read_again(tmp_path: Path) -> None:
    """Two microbatches on one rank: F and B alternate, or both F come first; with F held, the peak is 1 or 2 bytes."""
    path = tmp_path / "order.csv"
    peaks = []

    def experiments() -> Any:
        for text in ("0F0,0B0,0F1,0B1", "0F0,0F1,0B0,0B1"):
            path.write_text(text + "\n", encoding="utf-8")
            yield experiment({"name": "file", "path": str(path)}, 1, 2)

    peaks = [row["peak_memory_bytes"] for row in ppsim.simulate_many(experiments(), ["peak_memory_bytes"])]
    assert peaks == [1, 2]
