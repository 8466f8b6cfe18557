"""What a chosen order may hold: what the devices have left, or what is said; and that it loses to no plain order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ppsim
from tests.simulated import between_nodes, ms, simulate

UNIT = {"forward": "1 ms", "input_grad": "1 ms", "weight_grad": "1 ms"}


def activations(result: ppsim.Result) -> list[int]:
    return [row["peak_by_category"]["activations"] for row in result.summary["per_rank"]]


@given(
    name=st.sampled_from(["zb", "greedy"]),
    p=st.integers(1, 5),
    m=st.integers(1, 9),
    times=st.lists(st.tuples(*[st.integers(0, 6)] * 3), min_size=5, max_size=5),
    flags=st.fixed_dictionaries({
        "priority": st.sampled_from(["backward", "forward"]), "hold_for_first_gradient": st.booleans(),
        "share_memory": st.booleans(), "split_backward": st.booleans(),
    }),
    overhead=st.sampled_from([0, 1, 3]),
    latency=st.sampled_from([0, 2]),
    speed=st.lists(st.sampled_from([1, 2, 0.5]), min_size=5, max_size=5),
)  # fmt: skip
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_never_slower_than_1f1b_in_its_memory(
    name: str, p: int, m: int, times: list[tuple[int, int, int]], flags: dict[str, Any], overhead: int, latency: int,
    speed: list[float],
) -> None:  # fmt: skip
    """1F1B holds p activations, and so may they: unequal stages and ranks, links that take their time, overheads."""
    costs = {key: [f"{t[i]} ms" for t in times[:p]] for i, key in enumerate(("forward", "input_grad", "weight_grad"))}
    sections: dict[str, Any] = {
        "costs": costs, "runtime": {"op_overhead": f"{overhead} ms"},
        "cluster": {"speed": speed[:p], **between_nodes(latency=f"{latency} ms")},
    }  # fmt: skip
    schedule = {"name": name, "max_in_flight": p, **(flags if name == "greedy" else {})}
    found = ms(simulate(schedule, p, m, "compiled", **sections))
    assert found <= ms(simulate("1f1b", p, m, "compiled", **sections))
    if flags["split_backward"] or name == "zb":
        assert found <= ms(simulate("zb_h1", p, m, "compiled", **sections))


def test_whole_backwards_where_an_overhead_makes_halves_slower() -> None:
    """p = 1, m = 4, F = I = W = 1 ms and 5 ms an op: 4 (3 + 10) with whole backwards, 4 (3 + 15) with halves."""
    for name in ("zb", "greedy"):
        assert ms(simulate(name, 1, 4, costs=UNIT, runtime={"op_overhead": "5 ms"})) == 52


def test_interleaved_1f1b_is_beaten_in_its_memory() -> None:
    """Two stages per rank: interleaving holds up to 2(p-1) + (v-1)p + 1 = 11 activations of a stage for p = 4."""
    costs = {"forward": [f"{1 + s % 3} ms" for s in range(8)], "backward": "3 ms"}
    greedy = {"name": "greedy", "virtual_stages": 2, "max_in_flight": 11}
    assert ms(simulate(greedy, 4, 8, costs=costs)) <= ms(simulate("interleaved_1f1b", 4, 8, costs=costs))


@pytest.mark.parametrize(
    ("name", "memory", "most"),
    [
        # 10 B of weights, as much of gradients, 5 B of optimizer state: 25 B are held throughout on each stage.
        ("zb", 25 + 8, 8),
        ("zb", 25 + 3, 3),
        ("greedy", 25 + 3, 3),
        ("zbv_auto", 50 + 5, 5),
        # Half of p activations of both chunks is 2(4+2)/2 = 6, and no more however large the device is.
        ("v_half", 50 + 40, 6),
        ("v_half", 50 + 5, 5),
    ],
)
def test_by_default_an_order_fits_what_its_device_has_left(name: str, memory: int, most: int) -> None:
    costs = {**UNIT, "weights": "10 B", "optimizer_state": "5 B"}
    result = simulate(name, 4, 12, costs=costs, cluster={"device": {"memory": f"{memory} B"}})
    assert result.summary["fits"] is True
    assert max(activations(result)) <= most
    if name == "zb":  # twice 1F1B's memory is not asked for in vain
        assert ms(result) <= {8: 12 * 3 + 3, 3: 12 * 3 + 8}[most]


def test_messages_have_their_place() -> None:
    """Each rank leaves room for two messages each way at both ends of its stage: all fits, and so it is said."""
    for latency in ("0 ms", "2 ms"):
        result = simulate(
            "zb", 4, 12, costs={**UNIT, "weights": "0 B", "activation": "4 B", "message": "1 B"},
            cluster={"device": {"memory": "20 B"}, **between_nodes(latency=latency)},
        )  # fmt: skip
        assert result.summary["fits"] is True


def test_recomputation_holds_too_little_to_be_planned_by() -> None:
    """The device has room for one whole activation, and for many inputs: p in flight as where it isn't known."""
    result = simulate(
        "zb", 4, 12, costs={
            **UNIT, "weights": "0 B", "activation": "10 B", "stage_input": "0 B", "held_for_weight_grad": "0 B",
        }, pipeline={"recompute": "full"}, cluster={"device": {"memory": "11 B"}},
    )  # fmt: skip
    assert result.summary["fits"] is True
    assert max(row["peak_in_flight"] for row in result.summary["per_rank"]) == 4


def test_limits_per_rank() -> None:
    """A list is each rank's own; counted with weights, gradients and optimizer it is by those smaller."""
    costs = {**UNIT, "weights": "10 B", "optimizer_state": "5 B"}
    limits = [4, 3, 3, 1]
    alone = {"name": "zb", "memory_limit": [f"{n} B" for n in limits]}
    whole = {"name": "zb", "memory_limit": [f"{25 + n} B" for n in limits], "limit_counts": "all"}
    one, other = simulate(alone, 4, 12, costs=costs), simulate(whole, 4, 12, costs=costs)
    assert all(held <= most for held, most in zip(activations(one), limits, strict=True))
    assert [table.cells() for table in one.orders] == [table.cells() for table in other.orders]


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ({"memory_limit": ["4 B", "4 B"]}, "schedule.memory_limit: the list has 2 values, there are 4 ranks"),
        (
            {"limit_counts": "all"},
            "schedule.limit_counts: there is no memory_limit whose bytes it could be about; give one",
        ),
        (
            {"memory_limit": "25 B", "limit_counts": "all"},
            "schedule.memory_limit: 0 B is less than one activation of each stage on rank 0, 1 B; no order can run in less",
        ),
    ],
)
def test_limits_that_are_refused(schedule: dict[str, Any], message: str) -> None:
    with pytest.raises(ppsim.PpsimError) as caught:
        simulate({"name": "zb", **schedule}, 4, 12, costs={**UNIT, "weights": "10 B", "optimizer_state": "5 B"})
    assert str(caught.value) == message


def test_an_input_half_may_leave_more_than_its_forward_kept() -> None:
    """One rank, one microbatch: F and I hold 2 B to 2 ms, when I leaves 5 B to W, which ends at 3 ms."""
    costs = {**UNIT, "activation": "2 B", "held_for_weight_grad": "5 B"}
    held = simulate({"name": "zb", "max_in_flight": 1}, 1, 1, costs=costs).memory
    assert (held.time_s.tolist(), held.activations_bytes.tolist()) == ([0, 0.002, 0.003], [2, 5, 0])
    again = simulate("zb_h1", 1, 1, costs={**costs, "stage_input": "1 B"}, pipeline={"recompute": "full"}).memory
    # The input alone from 0, the whole from R's start at 1 ms to I's end at 3 ms, W's to 4 ms.
    assert (again.time_s.tolist(), again.activations_bytes.tolist()) == ([0, 0.001, 0.003, 0.004], [1, 2, 5, 0])


def test_a_limit_holds_where_the_input_half_leaves_more() -> None:
    """4 ranks, 2 B kept by F and 5 by I: with room for 15 B no more than three microbatches are between F and W."""
    costs = {**UNIT, "activation": "2 B", "held_for_weight_grad": "5 B"}
    for name in ("zb", "greedy"):
        result = simulate({"name": name, "memory_limit": "15 B"}, 4, 8, costs=costs)
        assert 5 <= max(activations(result)) <= 15


@pytest.mark.parametrize(
    ("schedule", "costs", "helps"),
    [
        ("gpipe", {}, "schedule: 1f1b, which holds at most p microbatches on a rank, pipeline.recompute: full"),
        (
            {"name": "zb", "max_in_flight": 4},
            {},
            "schedule.memory_limit or schedule.max_in_flight, pipeline.recompute: full",
        ),
        # Nothing smaller could be kept; and nothing that is held for a while matters where the weights alone are too much.
        ("1f1b", {"stage_input": "1 B"}, "a shorter schedule.warmup"),
        ("naive", {"weights": "9 B"}, "more pipeline.ranks, each with a smaller part of the model"),
    ],
)
def test_a_warning_of_memory_names_what_helps(schedule: Any, costs: dict[str, str], helps: str) -> None:
    result = simulate(schedule, 4, 8, costs={**UNIT, **costs}, cluster={"device": {"memory": "3 B"}})
    (message,) = [notice.message for notice in result.notices if notice.code == "does_not_fit"]
    assert message.endswith(f"; what helps: {helps}")
    alone = [notice.message for notice in result.notices if notice.code == "weights_alone"]
    assert [text.endswith(f"; what helps: {helps}") for text in alone] == [True] * ("weights" in costs)
