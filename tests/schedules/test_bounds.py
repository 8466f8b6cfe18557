"""No bound is above what was simulated, whatever the schedule: a bound that is would make a search lose the best."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ppsim
from ppsim.schedules import known
from ppsim.sweeps.bound import step_bound
from tests.simulated import experiment

EXAMPLES = 10
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "greedy": [{}, {"shape": "v"}, {"split_backward": False}],
    "interleaved_1f1b": [{}, {"virtual_stages": 3}, {"combined": True}, {"virtual_stages": 1}],
    "hanayo": [{}, {"waves": 2}],
    "pipedream": [{}, {"in_flight": 1}],
    "seq1f1b": [{"slices": 3}, {"slices": 2, "lengths": [3, 1]}],
    "gpipe": [{}, {"backward": "descending"}],
}
"""Settings of schedules that change what is run, beside the default."""


@st.composite
def cases(draw: st.DrawFn, name: str) -> ppsim.Experiment:
    """Small sizes with unequal costs, lengths, speeds, links and steps."""
    schedule = {"name": name, **draw(st.sampled_from(SETTINGS.get(name, [{}])))}
    ranks = draw(st.sampled_from([2, 4] if name in ("chimera", "dualpipe") else [1, 2, 3, 4]))
    microbatches = draw(st.integers(1, 6))
    if name == "pipedream" and draw(st.booleans()):
        schedule["replicas"] = [ranks - 1, 1] if ranks > 1 else [1]
    if name in ("chimera", "dualpipe", "dualpipev", "pipedream_2bw"):
        microbatches = 2 * ranks + 2 * (microbatches % 2)
    made = known()[name].model_validate(schedule)
    stages = made.placement(ranks).stages
    small = st.integers(0, 6)

    def each(unit: str) -> list[str]:
        return [f"{draw(small)} {unit}" for _ in range(stages)]

    costs: dict[str, Any] = {"forward": each("ns"), "message": each("B"), "weights": each("B")}
    costs |= draw(st.sampled_from([{"backward": each("ns")}, {"input_grad": each("ns"), "weight_grad": each("ns")}]))
    costs |= draw(st.sampled_from([{}, {"overlapped": each("ns")}, {"optimizer": "3 ns"}]))
    replicas = 1 if made.asynchronous else draw(st.integers(1, 2))
    pipeline: dict[str, Any] = {
        "steps": draw(st.integers(1, 3)), "data_parallel": replicas, "grad_bucket": "4 B",
        "recompute": draw(st.sampled_from(["none", "full", "except_last"])),
        "recompute_when": draw(st.sampled_from(["early", "late"])),
    }  # fmt: skip
    if draw(st.booleans()):
        pipeline["microbatch_weights"] = [draw(st.sampled_from([1, 2, 0.5])) for _ in range(microbatches)]
    cluster = {"ranks_per_node": 1, "inter_node": draw(st.sampled_from([
        {"latency": "2 ns"}, {"bandwidth": "1 GB/s"}, {"bandwidth": "1 GB/s", "latency": "1 ns", "overhead": "1 ns"},
    ]))}  # fmt: skip
    cluster["speed"] = [draw(st.sampled_from([1, 2, 0.5])) for _ in range(ranks)]
    runtime = {"barrier": draw(st.booleans()), "op_overhead": draw(st.sampled_from(["0 ns", "2 ns"]))}
    return experiment(
        schedule, ranks, microbatches, costs={**costs, "backward": costs.get("backward")}, pipeline=pipeline,
        cluster=cluster, runtime=runtime,
    )  # fmt: skip


@pytest.mark.parametrize("name", sorted(known().keys() - {"file"}))
def test_no_bound_is_above_what_was_simulated(name: str) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(cases(name))
    def holds(found: ppsim.Experiment) -> None:
        bound = float(step_bound(found, found.problem())) * (1 - 1e-12)
        summary = ppsim.simulate(found, engine="simpy").summary
        assert bound <= summary["step_time_s"]
        for speedup in (summary["max_speedup"], summary["max_speedup_stream"]):
            assert speedup is None or speedup >= 1

    holds()


def test_a_stream_of_forwards_is_no_longer_than_its_forwards() -> None:
    """Four stages of 1 ms and 8 items: 8 + 3 ms, though the costs tell what a backward would take; and 1 ms of overhead."""
    found = experiment("forward_only", 4, 8)
    assert float(step_bound(found, found.problem())) == pytest.approx(0.011, rel=1e-5)
    assert ppsim.simulate(found).summary["step_time_s"] == pytest.approx(0.011)
    found = experiment("forward_only", 4, 8, runtime={"op_overhead": "1 ms"})
    assert float(step_bound(found, found.problem())) == pytest.approx(0.022, rel=1e-5)
