"""What holds for every experiment: hypothesis over sizes, costs and links."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ppsim
from ppsim.metrics import bounds, bubble, memory, waits
from ppsim.ops import Kind
from tests import reference
from tests.simulated import experiment

MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def sizes(draw: st.DrawFn) -> dict[str, Any]:
    """A schedule with its p and m."""
    name = draw(st.sampled_from(["naive", "gpipe", "1f1b", "eager_1f1b", "interleaved_1f1b"]))
    schedule: dict[str, Any] = {"name": name}
    if name == "interleaved_1f1b":
        schedule["virtual_stages"] = draw(st.integers(1, 3))
    if name == "gpipe":
        schedule["backward"] = draw(st.sampled_from(["ascending", "descending"]))
    return {"schedule": schedule, "ranks": draw(st.integers(1, 6)), "microbatches": draw(st.integers(1, 9))}


@st.composite
def costs(draw: st.DrawFn, stages: int) -> dict[str, Any]:
    """Times per stage in whole ns, zero among them; some memory."""
    times = st.lists(st.integers(0, 5), min_size=stages, max_size=stages)
    return {
        "per": "stage",
        "forward": [f"{t} ns" for t in draw(times)],
        "backward": [f"{t} ns" for t in draw(times)],
        "activation": [f"{b} B" for b in draw(times)],
        "message": f"{draw(st.integers(0, 4))} B",
    }


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    """Nodes with shared NICs: links that are free, a flight, an occupancy, or both."""

    def link() -> Any:
        kind = draw(st.sampled_from(["free", "flight", "ports", "both"]))
        if kind == "free":
            return "free"
        found: dict[str, Any] = {}
        if kind in ("flight", "both"):
            found["latency"] = f"{draw(st.integers(0, 3))} ns"
        if kind in ("ports", "both"):
            found["bandwidth"] = draw(st.sampled_from(["1 GB/s", "2 GB/s", "500 MB/s"]))
            found["overhead"] = f"{draw(st.integers(0, 2))} ns"
        return found

    return {
        "ranks_per_node": draw(st.integers(1, 3)),
        "ranks_per_nic": draw(st.integers(1, 3)),
        "intra_node": link(),
        "inter_node": link(),
    }


@st.composite
def experiments(draw: st.DrawFn) -> ppsim.Experiment:
    found = draw(sizes())
    stages = found["ranks"] * found["schedule"].get("virtual_stages", 1)
    return experiment(
        found["schedule"], found["ranks"], found["microbatches"], costs=draw(costs(stages)), cluster=draw(clusters())
    )


@MANY
@given(experiments())
def test_whatever_runs_obeys_the_semantics(exp: ppsim.Experiment) -> None:
    """Every op once, none before its inputs, ranks and ports do one thing at a time, nothing is left in memory."""
    result = ppsim.simulate(exp, engine="simpy")
    plan, timeline, run = result.plan, result.timeline, result.run
    p, m = exp.pipeline.ranks, exp.pipeline.microbatches
    stages = plan.placement.stages
    names = {str(plan.ops[row]) for row in range(len(plan.ops))}
    assert names == {f"{s}{k}{b}" for s in range(stages) for b in range(m) for k in "FB"}
    assert len(plan.ops) == 2 * stages * m
    assert list(timeline.violations()) == []
    for row in range(len(plan.ops)):
        op = plan.ops[row]
        if op.kind == Kind.B:
            own = [r for r in plan.ops.rows(int(plan.ops.rank[row])) if plan.ops[r] == op._replace(kind=Kind.F)]
            assert timeline.end[own[0]] <= timeline.start[row]
    idle = run.once(waits.by_cause).sum(axis=1)
    assert idle.tolist() == bubble.idle(run).tolist()
    assert timeline.makespan * p == int(run.once(bubble.busy).sum() + idle.sum())
    assert timeline.makespan >= bounds.step_bound(run)
    level = memory.curves(run)
    for rank in range(p):
        mine = level.bytes[level.rank == rank]
        assert np.all(mine >= 0)
        assert np.all(mine[-1] == plan.static[:, rank])


@MANY
@given(sizes(), st.data())
def test_free_links_equal_a_recurrence(found: dict[str, Any], data: st.DataObject) -> None:
    """The reference evaluator knows nothing of plans, events or engines; with a latency on every hop it agrees, too."""
    stages = found["ranks"] * found["schedule"].get("virtual_stages", 1)
    given_costs = data.draw(costs(stages))
    latency = data.draw(st.integers(0, 4))
    exp = experiment(
        found["schedule"], found["ranks"], found["microbatches"], costs=given_costs,
        cluster={"intra_node": {"latency": f"{latency} ns"}},
    )  # fmt: skip
    result = ppsim.simulate(exp, engine="simpy")
    time = {k: [int(t.split()[0]) for t in given_costs[n]] for k, n in ((Kind.F, "forward"), (Kind.B, "backward"))}
    expected = reference.times(list(result.orders), lambda kind, stage: time[kind][stage], latency)
    assert expected is not None
    plan, timeline = result.plan, result.timeline
    for row in range(len(plan.ops)):
        assert (int(timeline.start[row]), int(timeline.end[row])) == expected[plan.ops[row]]


@MANY
@given(experiments(), st.integers(2, 5))
def test_time_scales(exp: ppsim.Experiment, factor: int) -> None:
    """All times and sizes k-fold (bandwidths as they are) make everything take k times as long."""

    def scaled(value: Any) -> Any:
        return [v * factor for v in value] if isinstance(value, list) else value * factor

    given_costs = exp.costs.model_copy(
        update={k: scaled(getattr(exp.costs, k)) for k in ("forward", "backward", "activation", "message")}
    )
    assert exp.cluster is not None
    links = {
        k: link.model_copy(update={"latency": link.latency * factor, "overhead": link.overhead * factor})
        for k in ("intra_node", "inter_node")
        if (link := getattr(exp.cluster, k)) is not None
    }
    larger = exp.model_copy(update={"costs": given_costs, "cluster": exp.cluster.model_copy(update=links)})
    once, again = ppsim.simulate(exp, engine="simpy").timeline, ppsim.simulate(larger, engine="simpy").timeline
    # Occupancies that were rounded need not scale; only whole ones are compared.
    if all(Fraction(int(b)) % 2 == 0 for b in once.plan.routes.bytes):
        assert (once.start * factor).tolist() == again.start.tolist()


@pytest.mark.parametrize("p", [1, 2, 5])
def test_same_input_same_output(p: int) -> None:
    exp = experiment("1f1b", p, 7, costs={"message": "3 B"}, cluster={"intra_node": {"bandwidth": "1 GB/s"}})
    first, second = (ppsim.simulate(exp, engine="simpy").summary for _ in range(2))
    assert first == second
