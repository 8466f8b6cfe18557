"""Both engines, and the rule as it is written down, give the same answer to the nanosecond."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
import simpy
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from ppsim.engine import simpy_engine
from ppsim.errors import DeadlockError
from ppsim.plan import Dependencies, Plan
from tests.engine.stepwise import NOT_YET, Stepwise
from tests.engine.strategies import plans
from tests.simulated import simulate

compiled = pytest.importorskip("ppsim.engine.compiled", reason="Numba is not installed")
room = pytest.importorskip("ppsim.engine.room", reason="Numba is not installed")
SOME = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(SOME, max_examples=120)
THOUSANDS = settings(SOME, max_examples=3000)
Answer = list[list[int]] | str


def answer(engine: object, plan: Plan) -> Answer:
    """All columns; of a deadlock, its message."""
    try:
        timeline = engine.run(plan)  # type: ignore[attr-defined]
    except DeadlockError as deadlock:
        return str(deadlock)
    assert list(timeline.violations()) == []
    return [column.tolist() for column in (timeline.start, timeline.end, timeline.ready, timeline.transfer_start)]


@MANY
@given(plans())
def test_both_engines_agree(plan: Plan) -> None:
    assert answer(compiled, plan) == answer(simpy_engine, plan)


@pytest.mark.slow
@THOUSANDS
@given(plans())
def test_both_engines_agree_on_thousands_of_plans(plan: Plan) -> None:
    found = answer(simpy_engine, plan)
    event(f"{'deadlock' if isinstance(found, str) else 'runs'}, {'ports' if plan.ports else 'no ports'}")
    assert answer(compiled, plan) == found


@SOME
@given(plans())
def test_both_engines_follow_the_rule_as_it_is_written(plan: Plan) -> None:
    start, end, ready, begun = Stepwise(plan).run()
    for engine in (simpy_engine, compiled):
        found = answer(engine, plan)
        if isinstance(found, str):
            assert NOT_YET in end + begun
        else:
            spans_the_pair = [start[row - 1] if tail else start[row] for row, tail in enumerate(plan.tail)]
            assert found == [spans_the_pair, end, ready, begun]


@SOME
@given(plans(), st.integers())
def test_the_order_of_simultaneous_events_changes_nothing(plan: Plan, seed: int) -> None:
    """SimPy breaks ties by the number of the event; here those numbers are thrown."""
    dice = random.Random(seed)

    class Shuffled(simpy.Environment):
        def __init__(self) -> None:
            super().__init__()
            self._eid = ((dice.random(), number) for number in itertools.count())

    found = answer(simpy_engine, plan)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simpy, "Environment", Shuffled)
        assert answer(simpy_engine, plan) == found


@MANY
@given(plans(), st.sampled_from([1, 2, 8]))
def test_how_many_queues_the_compiled_engine_has_changes_nothing(plan: Plan, queues: int) -> None:
    """With few, most of them are shared by things that take different times, and what comes too early for its own one
    goes into the heap."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "QUEUES", queues)
        assert answer(compiled, plan) == answer(simpy_engine, plan)


@SOME
@given(plans(), st.integers(0, 2**32))
def test_other_numbers_for_routes_and_ports_change_nothing(plan: Plan, seed: int) -> None:
    """Nor does the order in which a thing's needs are listed."""
    dice = np.random.default_rng(seed)
    shuffled = renumbered(plan, dice)
    for engine in (simpy_engine, compiled):
        found = answer(engine, plan)
        if not isinstance(found, str):  # a deadlock's message lists what is missing in the order of the needs
            assert answer(engine, shuffled) == found


def renumbered(plan: Plan, dice: np.random.Generator) -> Plan:
    """The same plan, with routes and ports numbered anew and the needs of each thing in another order."""
    routes, transfers = plan.routes, plan.transfers
    order = dice.permutation(len(routes.src))
    port = np.append(dice.permutation(len(plan.ports)), -1).astype(np.int32)
    names = np.empty(len(plan.ports), object)
    names[port[:-1]] = plan.ports

    def mixed(needs: Dependencies) -> Dependencies:
        return Dependencies(needs.ptr, needs.event[np.lexsort((dice.random(len(needs.event)), needs.owner))])

    columns = {name: getattr(routes, name)[order] for name in ("src", "dst", "bytes", "occupancy", "latency")}
    return replace(
        plan,
        routes=replace(routes, **columns, egress=port[routes.egress[order]], ingress=port[routes.ingress[order]]),
        ports=tuple(names),
        transfers=replace(
            transfers, route=np.argsort(order).astype(np.int32)[transfers.route], needs=mixed(transfers.needs)
        ),
        start_needs=mixed(plan.start_needs),
        end_needs=mixed(plan.end_needs),
    )


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_a_chain_of_thousands_of_transfers(engine: str) -> None:
    """Gradient buckets go one after the other, here 5000 that take no time: the step is F + B = 3 ms."""
    result = simulate(
        "1f1b", 1, 1, engine=engine, costs={"weights": "5000 B"}, pipeline={"data_parallel": 2, "grad_bucket": "1 B"}
    )
    assert len(result.plan.transfers) == 5000
    assert result.timeline.makespan == 3_000_000


def test_a_changed_copy_of_a_timeline_has_its_own_times() -> None:
    """Of a compiled run the times of all events lie together; a copy whose ops end later doesn't show those."""
    cluster = {"ranks_per_node": 1, "inter_node": {"bandwidth": "10 GB/s", "latency": "5 us"}}
    before = simulate("1f1b", 2, 4, engine="compiled", costs={"message": "1 MB"}, cluster=cluster).timeline
    assert np.array_equal(before.arrive - before.transfer_start, np.full(8, 105_000))  # 1 MB / 10 GB/s + 5 us
    n = len(before.end)
    later = replace(before, end=before.end + 1)
    assert np.array_equal(later.times[n : 2 * n], before.times[n : 2 * n] + 1)
    for timeline in (before, later):
        parts = (timeline.start, timeline.end, timeline.transfer_start, timeline.left, timeline.arrive)
        assert np.array_equal(timeline.times, np.concatenate(parts))
