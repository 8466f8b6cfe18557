"""How orders are searched for: legal, within their memory, never worse than the fixed orders, the same every time."""

# ruff: noqa: E741 - I is the field's letter

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ppsim
from ppsim.ops import Kind, Orders
from ppsim.plan import check
from ppsim.schedules.search.building_block import Block, repeated, v_half, v_min
from ppsim.schedules.search.instance import Instance, Memory
from ppsim.schedules.search.justify import graphs, play
from tests.marks import rest_slow
from tests.simulated import between_nodes, experiment, ms, simulate

RATIOS = [(1, 1, 1), (10, 12, 8), (3, 2, 1), (2, 3, 2), (1, 3, 1), (1, 1, 2), (2, 1, 3)]
"""F, I, W in ms: equal, as measured, each of them the longest once."""
SIZES = [(p, m) for p in (1, 2, 3, 5) for m in (1, p, 2 * p, 3 * p + 1)]


def split(F: Any, I: Any, W: Any, **more: Any) -> dict[str, Any]:
    return {"forward": F, "input_grad": I, "weight_grad": W, **more}


def in_ms(F: float, I: float, W: float, **more: Any) -> dict[str, Any]:
    return split(f"{F} ms", f"{I} ms", f"{W} ms", **more)


def span_ms(result: ppsim.Result) -> float:
    return round(result.summary["max_span_s"] * 1e3, 6)


@pytest.mark.parametrize(("p", "m"), rest_slow(SIZES, 8, several=True))
def test_never_worse_than_the_fixed_order_of_the_same_memory(p: int, m: int) -> None:
    """ZB-H1 fits p activations, ZB-H2 2p-1, ZB-V 2p of a stage: each is one of the starts."""
    for costs in RATIOS:
        for fixed, searched, most in (("zb_h1", "zb", p), ("zb_h2", "zb", 2 * p - 1), ("zbv", "zbv_auto", 2 * p)):
            rule = simulate(fixed, p, m, "compiled", costs=in_ms(*costs))
            for objective, figure in (("makespan", ms), ("span", span_ms)):
                schedule = {"name": searched, "max_in_flight": most, "objective": objective}
                found = simulate(schedule, p, m, "compiled", costs=in_ms(*costs))
                assert figure(found) <= figure(rule), (costs, fixed, objective)


@given(
    name=st.sampled_from(["zb", "zbv_auto"]),
    p=st.integers(1, 5),
    turns=st.integers(1, 4),
    times=st.tuples(*[st.integers(0, 9)] * 3),
    share=st.integers(0, 4),
    memory=st.integers(1, 3),
    latency=st.sampled_from([0, 1, 6]),
    objective=st.sampled_from(["makespan", "span"]),
)
@settings(max_examples=20, deadline=None)
def test_never_worse_than_any_greedy_or_fixed_order(
    name: str, p: int, turns: int, times: tuple[int, int, int], share: int, memory: int, latency: int, objective: str
) -> None:
    """Whatever ``greedy`` is told at the same memory; ZB-H1 and ZB-V from p activations of a rank on, ZB-H2 from 2p."""
    V = name == "zbv_auto"
    sections: dict[str, Any] = {
        "costs": in_ms(*times, activation="4 B", held_for_weight_grad=f"{share} B"),
        "cluster": between_nodes(latency=f"{latency} ms"),
    }
    most = max(1, p * memory // 2) * (2 if V else 1)

    def figure(schedule: Any) -> float:
        result = simulate(schedule, p, turns * p + turns % 2, "compiled", **sections)
        return ms(result) if objective == "makespan" else span_ms(result)

    greedy = {"name": "greedy", "shape": "v" if V else "loop", "max_in_flight": most}
    others: list[Any] = [
        {**greedy, "priority": priority, "hold_for_first_gradient": hold, "share_memory": share_memory}
        for priority in ("backward", "forward") for hold in (False, True) for share_memory in (False, True)
    ]  # fmt: skip
    fits = {"zbv": 2 * p} if V else {"zb_h1": p, "zb_h2": 2 * p}
    others += [fixed for fixed, needs in fits.items() if needs <= most]
    found = figure({"name": name, "max_in_flight": most, "objective": objective})
    assert [other for other in others if figure(other) < found] == []


@pytest.mark.parametrize("p", [3, 4, 5, 8])
@pytest.mark.parametrize(("name", "block"), [("v_half", v_half), ("v_min", v_min)])
def test_never_worse_than_the_papers_building_block(name: str, block: Callable[[int], Block], p: int) -> None:
    """2405.15362, tables 8 and 9: what repeating the block takes in the schedule's own memory, where it fits."""
    m, fits = 3 * p, 0
    for costs in RATIOS:
        problem = experiment(name, p, m, costs=in_ms(*costs)).problem()
        instance = Instance.of(problem, experiment(name, p, m).schedule.memory(problem))
        played, makespan, _ = play(graphs(instance)[0], repeated(instance, block(p)), [0] * p, tolerance=0, window=0)
        if len(played) == instance.ops:
            fits += 1
            assert ms(simulate(name, p, m, "compiled", costs=in_ms(*costs))) <= makespan / 1e6
    assert fits


@pytest.mark.slow
def test_numba_changes_nothing() -> None:
    """The same order where it is missing; memory so short that no order reaches the bound and all are tried."""
    code = """
import sys
if {numba}: import numba
else: sys.modules["numba"] = None
from tests.simulated import experiment
costs = {{"forward": "10 ms", "input_grad": "12 ms", "weight_grad": "3 ms", "held_for_weight_grad": "0.4 B"}}
for name in "zb", "zbv_auto":
    found = experiment({{"name": name, "max_in_flight": 3}}, 4, 10, costs=costs)
    table = found.schedule.orders(found.problem()).table
    print([column.tolist() for column in (table.kind, table.stage, table.microbatch)])
"""
    with_it, without = (
        subprocess.run(
            [sys.executable, "-c", code.format(numba=numba)], cwd=Path(__file__).parents[2], capture_output=True,
            text=True, check=True,
        ).stdout
        for numba in (True, False)
    )  # fmt: skip
    assert with_it == without != ""


@pytest.mark.slow
def test_a_large_search_ends() -> None:
    """p = 32, m = 512, F, I and W of two stages per rank: 98,304 ops, about 3 s of CPU time where Numba is there."""
    pytest.importorskip("numba")
    found = experiment("zbv_auto", 32, 512, costs=in_ms(10, 12, 8))
    orders = found.schedule.orders(found.problem())
    assert len(orders.table) == 32 * 2 * 512 * 3


@pytest.mark.parametrize("p", [2, 3, 4, 6])
@pytest.mark.parametrize("extra", [0, 1, 5])
def test_zb_h2_closed_form(p: int, extra: int) -> None:
    """Zero Bubble, table 2: a rank waits (p-1)(F+I-2W) inside its span, for m >= 2p-1; nothing where that is negative."""
    m = 2 * p - 1 + extra
    for F, I, W in RATIOS:
        result = simulate("zb_h2", p, m, costs=in_ms(F, I, W))
        assert span_ms(result) == m * (F + I + W) + max(0, (p - 1) * (F + I - 2 * W))
        # Section 2.3: up to 2p-1 activations on each rank, until W.
        assert max(row["peak_by_category"]["activations"] for row in result.summary["per_rank"]) == 2 * p - 1


@pytest.mark.parametrize(("p", "m"), [(2, 1), (2, 2), (4, 3), (4, 4), (8, 8)])
def test_few_microbatches(p: int, m: int) -> None:
    """Zero Bubble, appendix H: (m+p-1)(F+I) + W for m <= p and W no longer than F or I."""
    for F, I, W in [(1, 1, 1), (10, 12, 8), (3, 2, 1)]:
        assert ms(simulate("zb", p, m, costs=in_ms(F, I, W))) == (m + p - 1) * (F + I) + W


@pytest.mark.parametrize("p", [2, 4, 6])
def test_twice_the_memory_and_no_bubble(p: int) -> None:
    """ZB-2p and ZB-V for F = I = W: the longest span is the work alone (sail-sg README: bubble 0)."""
    m = 3 * p
    for schedule, stages in ({"name": "zb", "max_in_flight": 2 * p}, 1), ({"name": "zbv_auto"}, 2):
        result = simulate({**schedule, "objective": "span"}, p, m, costs=in_ms(1, 1, 1))
        assert span_ms(result) == 3 * m * stages


def test_steps_without_a_barrier_take_a_span_each() -> None:
    """p = 4, m = 8, F = I = W = 1: 24 ms a step, and 3 ms to start; with a barrier 27 ms each (D15's figures)."""
    schedule = {"name": "zb", "max_in_flight": 8, "objective": "span"}
    for steps in (1, 2, 4):
        free = simulate(schedule, 4, 8, costs=in_ms(1, 1, 1), pipeline={"steps": steps}, runtime={"barrier": False})
        held = simulate(schedule, 4, 8, costs=in_ms(1, 1, 1), pipeline={"steps": steps})
        assert (ms(free), ms(held)) == (24 * steps + 3, 27 * steps)


def test_memory_does_not_grow_with_microbatches_of_less() -> None:
    """D35: gradients are one buffer; p activations of a batch's m-th part are less, the smaller the part."""
    runs = {
        m: simulate("zb_h1", 8, m, costs=in_ms(1, 1, 1, activation=f"{64 / m} KiB", weights="1 MiB"))
        for m in (8, 16, 32)
    }
    for m, run in runs.items():
        for row in run.summary["per_rank"]:
            assert row["peak_by_category"]["gradients"] == 2**20
            assert row["peak_by_category"]["activations"] == 8 * 64 * 1024 // m


def test_a_slow_link_is_planned_for() -> None:
    """p = 2, m = 8, F = I = W = 1 ms, 3 ms a hop, 8 in flight: rank 1 starts at 1 + 3 and has 24 ms of work, no less.

    ZB-H2 has too few forwards before the first gradient: it takes 8 ms more.
    """
    cluster = between_nodes(latency="3 ms")
    schedule = {"name": "zb", "max_in_flight": 8}
    assert ms(simulate(schedule, 2, 8, costs=in_ms(1, 1, 1), cluster=cluster)) == 4 + 24
    assert ms(simulate("zb_h2", 2, 8, costs=in_ms(1, 1, 1), cluster=cluster)) == 36


def test_slow_ranks_and_overheads_are_planned_for() -> None:
    """What the search takes an op for is what it takes: its own makespan is the engine's."""
    settings_ = {
        "costs": in_ms(1, 2, 1), "cluster": {"speed": [1, 0.5, 1, 0.8], **between_nodes(latency="300 us")},
        "runtime": {"op_overhead": "50 us"},
    }  # fmt: skip
    problem = experiment("zb", 4, 9, **settings_).problem()
    instance = Instance.of(problem, Memory.in_activations(problem, 4))
    assert instance.duration[:4] == [1_050_000, 2_050_000, 1_050_000, 1_300_000]
    assert instance.hop == [300_000, 300_000, 300_000, 0]


def test_a_bound_is_no_longer_than_any_order() -> None:
    """ZB-H1's span is the least that fits its memory, for W <= F, I: (p-1)(F+I-W) of waiting on rank 0."""
    for p, m in SIZES:
        for F, I, W in RATIOS:
            costs = in_ms(F, I, W)
            problem = experiment("zb", p, m, costs=costs).problem()
            instance = Instance.of(problem, Memory.in_activations(problem, p))
            found = simulate("zb", p, m, "compiled", costs=costs).timeline.makespan
            assert max(instance.memory_bound, instance.chain_bound) <= found
            if min(F, I) >= W and m > p:
                assert instance.memory_bound == (m * (F + I + W) + (p - 1) * (F + I - W)) * 10**6


@st.composite
def problems(draw: st.DrawFn) -> tuple[dict[str, Any], int, int, int, dict[str, Any]]:
    """A schedule without its limit, p, m, the limit in bytes, and costs per stage that differ."""
    p, m = draw(st.integers(1, 4)), draw(st.integers(1, 7))
    schedule: dict[str, Any] = draw(
        st.sampled_from(
            [
                {"name": "zb"},
                {"name": "zbv_auto"},
                {"name": "greedy"},
                {"name": "greedy", "priority": "forward", "shape": "v"},
                {"name": "greedy", "shape": "wave", "share_memory": True},
                {"name": "greedy", "virtual_stages": 3, "hold_for_first_gradient": True},
                {"name": "greedy", "virtual_stages": 2, "split_backward": False},
            ]
        )
    )
    if schedule["name"] != "greedy":
        schedule = schedule | {"objective": draw(st.sampled_from(["makespan", "span"]))}
    stages = experiment(schedule, p, m).placement.stages
    each = st.lists(st.integers(0, 5), min_size=stages, max_size=stages)
    activation = draw(st.lists(st.integers(1, 4), min_size=stages, max_size=stages))
    costs = split(
        *([f"{value} ms" for value in draw(each)] for _ in range(3)),
        activation=[f"{a} B" for a in activation],
        held_for_weight_grad=[f"{draw(st.integers(0, a))} B" for a in activation],
    )
    least = max(sum(activation[s] for s in held) for held in experiment(schedule, p, m).placement.stages_of)
    return schedule, p, m, least + draw(st.integers(0, 10)), costs


@given(case=problems(), latency=st.sampled_from(["0 ms", "1 ms", "7 ms"]))
@settings(max_examples=30, deadline=None)
def test_orders_are_legal_and_within_their_memory(
    case: tuple[dict[str, Any], int, int, int, dict[str, Any]], latency: str
) -> None:
    """Ops that take no time, stages that differ, no more memory than one activation per stage: all come to an end."""
    schedule, p, m, limit, costs = case
    schedule = {**schedule, "memory_limit": f"{limit} B"}
    cluster = between_nodes(latency=latency)
    problem = experiment(schedule, p, m, costs=costs, cluster=cluster).problem()
    check(experiment(schedule, p, m).schedule.orders(problem), problem)
    result = simulate(schedule, p, m, costs=costs, cluster=cluster)
    assert list(result.timeline.violations()) == []
    assert max(row["peak_by_category"]["activations"] for row in result.summary["per_rank"]) <= limit


def test_the_same_order_every_time() -> None:
    def order(unit: str) -> Orders:
        costs = split([f"{2 + s % 3} {unit}" for s in range(8)], f"3 {unit}", f"2 {unit}")
        found = experiment("zbv_auto", 4, 6, costs=costs)
        return found.schedule.orders(found.problem())

    first, again, longer = order("ms"), order("ms"), order("s")
    for other in (again, longer):
        for column in ("kind", "stage", "microbatch"):
            assert np.array_equal(getattr(first.table, column), getattr(other.table, column))


def test_greedy_with_a_whole_backward() -> None:
    """F and B alone; with B as long as F twice and p activations it is 1F1B: 3(m+p-1)."""
    result = simulate({"name": "greedy", "split_backward": False}, 4, 8)
    assert set(result.orders.table.kind.tolist()) == {Kind.F, Kind.B}
    assert ms(result) == 3 * (8 + 4 - 1)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (
            {"name": "zb", "max_in_flight": 4, "memory_limit": "4 B"},
            "schedule.memory_limit: max_in_flight is given, too",
        ),
        (
            {"name": "zbv_auto", "max_in_flight": 1},
            "schedule.max_in_flight: a rank holds 2 stages; 1 is too few, 2 works",
        ),
        (
            {"name": "greedy", "shape": "v", "virtual_stages": 3},
            "schedule.virtual_stages: 3 stages per rank make no v; 2",
        ),
        ({"name": "greedy", "shape": "wave", "virtual_stages": 3}, "3 stages per rank make no wave; 4 works"),
    ],
)
def test_limits_that_make_no_sense(schedule: dict[str, Any], message: str) -> None:
    with pytest.raises(ppsim.ConfigError, match=message):
        simulate(schedule, 4, 8)


def test_no_order_runs_in_less_than_an_activation_of_each_stage() -> None:
    with pytest.raises(
        ppsim.PpsimError, match=r"schedule\.memory_limit: 3 B is less than one activation of each stage on"
    ):
        simulate({"name": "zbv_auto", "memory_limit": "3 B"}, 4, 8, costs=in_ms(1, 1, 1, activation="2 B"))
