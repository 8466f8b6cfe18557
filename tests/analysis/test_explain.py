"""Why an op started when it did: the chain is gapless, and its slack is what a counterfactual run shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ppsim
from ppsim.analysis.explain import explain, find
from ppsim.engine import simpy_engine
from tests.simulated import between_nodes, experiment, simulate
from tests.test_invariants import costs, experiments, sizes


def test_chain_of_the_second_rank() -> None:
    """p = 2, F = 1, B = 2 ms, latency 0.5 ms: 0B0 waits for F0 (1), flight (1.5), F0 on rank 1 (2.5), B0 (4.5), flight (5)."""
    result = simulate("1f1b", 2, 2, cluster=between_nodes(latency="500 us"))
    row = find(result, None, "0B0", None)
    links = explain(result, row)
    assert [(link.what, link.start / 1e6, link.end / 1e6) for link in links] == [
        ("output of 1B0, rank 1 to 0", 4.5, 5.0),
        ("1B0 on rank 1", 2.5, 4.5),
        ("1F0 on rank 1", 1.5, 2.5),
        ("output of 0F0, rank 0 to 1", 1.0, 1.5),
        ("0F0 on rank 0", 0.0, 1.0),
    ]
    # Without it rank 0 would have been free at 2 ms, after its second forward.
    assert links[0].slack == 3e6


def test_an_op_by_rank_and_instant() -> None:
    """1F1B, p = 4, m = 8: at 20 ms rank 2 runs 2B4 (its backwards start at 6, 9, 12, 15, 18)."""
    result = simulate("1f1b", 4, 8)
    assert str(result.plan.ops[find(result, 2, None, 19_500_000)]) == "2B4"


@pytest.mark.parametrize(
    ("rank", "op", "message"),
    [
        (None, "9F9", "--op: there is no 9F9; rank 0 runs 0F0, 0F1, …"),
        (3, "0F0", "--op: there is no 0F0 on rank 3; rank 0 runs 0F0, 0F1, …"),
        (None, None, "--rank: say which op: --op 2B3, or --rank 2 --at 41ms"),
    ],
)
def test_no_such_op(rank: int | None, op: str | None, message: str) -> None:
    with pytest.raises(ppsim.ConfigError) as error:
        find(simulate("1f1b", 4, 8), rank, op, None)
    assert str(error.value) == message


@settings(max_examples=60, deadline=None)
@given(experiments(), st.data())
def test_chain_is_gapless_down_to_time_0(exp: ppsim.Experiment, data: st.DataObject) -> None:
    result = ppsim.simulate(exp, engine="simpy")
    row = data.draw(st.integers(0, len(result.plan.ops) - 1))
    links = explain(result, row)
    instants = [int(result.timeline.start[row]), *(link.start for link in links)]
    assert [link.end for link in links] == instants[:-1]
    assert instants[-1] == 0


@settings(max_examples=100, deadline=None)
@given(sizes(), st.data())
def test_slack_is_what_a_shorter_blocker_wins(found: dict[str, object], data: st.DataObject) -> None:
    """An op of the chain made shorter by no more than its slack moves the explained op by exactly that."""
    schedule = found["schedule"]
    assert isinstance(schedule, dict)
    stages = int(found["ranks"]) * int(schedule.get("virtual_stages", 1))  # type: ignore[call-overload]
    exp = experiment(
        schedule, found["ranks"], found["microbatches"], costs=data.draw(costs(stages)),  # type: ignore[arg-type]
        cluster={"intra_node": {"latency": f"{data.draw(st.integers(0, 3))} ns"}},
    )  # fmt: skip
    result = ppsim.simulate(exp, engine="simpy")
    plan = result.plan
    row = data.draw(st.integers(0, len(plan.ops) - 1))
    ops = [
        (link, find(result, None, link.what.split()[0], None)) for link in explain(result, row) if " on " in link.what
    ]
    able = [(link, at, min(link.slack or 0, int(plan.duration[at]))) for link, at in ops]
    able = [item for item in able if item[2]]
    assume(able)
    _, at, less = data.draw(st.sampled_from(able))
    shorter = plan.duration - np.where(np.arange(len(plan.ops)) == at, less, 0)
    again = simpy_engine.run(replace(plan, duration=shorter))
    assert int(result.timeline.start[row] - again.start[row]) == less
