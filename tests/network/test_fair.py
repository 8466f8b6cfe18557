"""Messages that share what they go over, by hand: at 1 MB/s 1 MB takes 1 s."""

from __future__ import annotations

import itertools
import json
import random
from fractions import Fraction
from typing import Any

import pytest
import simpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ppsim
from ppsim.analysis.limit import lines as limits
from ppsim.engine import simpy_engine
from ppsim.engine.timeline import SENDS_AND_MOVES
from ppsim.errors import ConfigError, DeadlockError
from ppsim.formats.chrome_trace import text
from ppsim.metrics import Run
from ppsim.metrics.waits import by_cause
from ppsim.network.sharing.fair import _Fluid, fair_shares
from ppsim.plan import Plan
from tests.engine.strategies import plans
from tests.runs import listed
from tests.simulated import experiment, simulate

MB_S = {"bandwidth": "1 MB/s"}


def forwards(
    microbatches: int, ranks: int = 2, weights: list[Any] | None = None, times: list[str] | None = None, **cluster: Any
) -> ppsim.Result:
    """Forwards alone, of no time unless it is given: all messages of 1 MB start at 0."""
    found = simulate(
        "forward_only", ranks, microbatches,
        costs={"forward": times or "0 s", "message": "1 MB", "activation": "0 B"},
        pipeline={"microbatch_weights": weights} if weights else {},
        cluster={"ranks_per_node": 1, "inter_node": MB_S, "sharing": "fair", **cluster},
    )  # fmt: skip
    assert list(found.timeline.violations()) == []
    return found


def arrivals(found: ppsim.Result) -> dict[str, float]:
    """When each op's output is there, in s."""
    return dict(zip(found.transfers.op, found.transfers.arrive_s, strict=True))


@pytest.mark.parametrize("messages", [1, 2, 3, 4])
def test_equal_messages_over_one_port_take_as_many_times_as_long(messages: int) -> None:
    assert set(arrivals(forwards(messages)).values()) == {float(messages)}


def test_unequal_sizes() -> None:
    """1 and 3 MB: both have half until 1 MB each is over, at 2 s; the other 2 MB take 2 s more."""
    assert arrivals(forwards(2, weights=[1, 3])) == {"0F0": 2, "0F1": 4}


def test_one_that_joins_halfway() -> None:
    """0F1 ends at 0.5 s after 0F0's start at 0: half of 0F0's is over; the rest takes 1 s, then 0F1 has 0.5 s left.

    Forwards take 0.5 s each on rank 0: 0F0's message goes from 0.5, 0F1's from 1.0; there at 2.0 and 2.5.
    """
    assert arrivals(forwards(2, times=["0.5 s", "0 s"])) == {"0F0": 2.0, "0F1": 2.5}


def test_a_switch_of_half_the_bandwidth() -> None:
    """One message alone takes twice as long through it, and so does the one of each stage after that."""
    half = [{"ranks": [0, 1, 2, 3], "bandwidth": "500 kB/s"}]
    assert arrivals(forwards(1, ranks=4, switches=half)) == {"0F0": 2, "1F0": 4, "2F0": 6}


@pytest.mark.parametrize(
    ("lines_of", "capacity", "rates"),
    [
        ({0: (0,), 1: (0,), 2: (0,)}, {0: 6}, {0: 2, 1: 2, 2: 2}),
        # Flow 1 gets no more than 1 of its second line; what it leaves of line 0, 9, is flow 0's.
        ({0: (0,), 1: (0, 1)}, {0: 10, 1: 1}, {0: 9, 1: 1}),
        # Bertsekas and Gallager's kind of chain: the shared flow is held by the narrowest line, each line fills up.
        ({0: (0, 1, 2), 1: (0,), 2: (1,), 3: (2,)}, {0: 4, 1: 1, 2: 3}, {0: "1/2", 1: "7/2", 2: "1/2", 3: "5/2"}),
    ],
)
def test_max_min_fair_shares(lines_of: Any, capacity: Any, rates: Any) -> None:
    exact = {line: Fraction(value) for line, value in capacity.items()}
    assert fair_shares(lines_of, exact) == {flow: Fraction(rate) for flow, rate in rates.items()}


FLOWS = st.dictionaries(st.integers(0, 6), st.sets(st.integers(0, 4), min_size=1).map(tuple), min_size=1)


@given(FLOWS, st.lists(st.integers(1, 9), min_size=5, max_size=5))
def test_every_flow_is_held_by_a_full_line_on_which_none_has_more(lines_of: Any, capacity: list[int]) -> None:
    """Which is what max-min fair means (Bertsekas and Gallager 1992, section 6.5.2)."""
    rates = fair_shares(lines_of, {line: Fraction(value) for line, value in enumerate(capacity)})
    on = {line: [rates[flow] for flow, lines in lines_of.items() if line in lines] for line in range(5)}
    assert all(sum(found) <= capacity[line] for line, found in on.items())
    for flow, lines in lines_of.items():
        assert any(sum(on[line]) == capacity[line] and max(on[line]) == rates[flow] for line in lines)


def test_a_bottleneck_elsewhere_leaves_the_rest_to_others() -> None:
    """Rank 0 sends 1 MB to rank 1 over a link of 250 kB/s (4 s), then, at 4, 3 MB to rank 2 and another 1 MB to rank 1.

    Those have 750 and 250 kB/s: 4 s for both.
    """
    found = simulate(
        listed("0F0 2F0 0F1 2F1", "1F0 1F1", "3F0 3F1"), 3, 2,
        costs={"forward": "0 s", "message": ["1 MB", "0 B", "3 MB", "0 B"]},
        cluster={"ranks_per_node": 1, "inter_node": MB_S, "sharing": "fair",
                 "links": [{"ranks": [0, 1], "bandwidth": "250 kB/s"}]},
    )  # fmt: skip
    there = arrivals(found)
    assert (there["0F0"], there["2F0"], there["0F1"]) == (4, 8, 8)


def test_nothing_is_rounded_before_a_message_leaves() -> None:
    """Three of 10 B at 3 GB/s: 10 ns for all of 30 B. First come, first served each takes 3 1/3 ns, rounded to 3."""
    link = {"bandwidth": "3 GB/s"}
    sections: dict[str, Any] = {"costs": {"forward": "0 s", "message": "10 B"}}
    one_by_one = simulate("forward_only", 2, 3, cluster={"ranks_per_node": 1, "inter_node": link}, **sections)
    fair = simulate(
        "forward_only", 2, 3, cluster={"ranks_per_node": 1, "inter_node": link, "sharing": "fair"}, **sections
    )
    assert (one_by_one.timeline.makespan, fair.timeline.makespan) == (9, 10)


SIZES = st.lists(st.integers(0, 9), min_size=1, max_size=8)
SOME = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@SOME
@given(SIZES, st.integers(0, 5), st.integers(1, 3))
def test_a_busy_port_sends_at_its_full_bandwidth(sizes: list[int], every: int, overhead: int) -> None:
    """Bytes and ns are whole at 1 GB/s, and so is the time from when the port is busy to when it is idle again."""
    found = simulate(
        "forward_only", 2, len(sizes),
        costs={"forward": [f"{every} ns", "0 ns"], "message": "1 B"}, pipeline={"microbatch_weights": [s + 1 for s in sizes]},
        cluster={"ranks_per_node": 1, "inter_node": {"bandwidth": "1 GB/s", "overhead": f"{overhead} ns"}, "sharing": "fair"},
    )  # fmt: skip
    assert list(found.timeline.violations()) == []
    work = sum(size + 1 + overhead for size in sizes)
    assert [round(link["busy_s"] * 1e9) for link in found.summary["links"]] == [work, work]


@SOME
@given(st.integers(0, 50), st.integers(1, 7), st.integers(0, 3), st.integers(0, 3))
def test_a_single_message_never_differs_from_queueing(size: int, bandwidth: int, latency: int, overhead: int) -> None:
    link = {"bandwidth": f"{bandwidth} GB/s", "latency": f"{latency} ns", "overhead": f"{overhead} ns"}
    one, other = (
        simulate(
            "1f1b", 3, 1, costs={"forward": "3 ns", "backward": "5 ns", "message": f"{size} B"},
            cluster={"ranks_per_node": 1, "inter_node": link, "sharing": sharing},
        ).timeline
        for sharing in ("queueing", "fair")
    )  # fmt: skip
    assert one.times.tolist() == other.times.tolist()


@SOME
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=8))
def test_leaving_times_are_those_of_the_fluid(messages: list[tuple[int, int, int]]) -> None:
    """Messages of random sizes from three ranks to three others, all at 0, beside the same by a loop over exact times."""
    capacity = {line: Fraction(rate) for line, rate in enumerate((3, 7, 2, 5, 3, 1))}
    fluid = _Fluid(capacity)
    lines = {flow: (src, 3 + dst) for flow, (_, src, dst) in enumerate(messages)}
    left = {flow: Fraction(size) for flow, (size, _, _) in enumerate(messages)}
    fluid.add(left, lines, Fraction(0))
    expected: dict[int, Fraction] = {}
    now = Fraction(0)
    while left:
        rates = fair_shares({flow: lines[flow] for flow in left}, capacity)
        step = min(size / rates[flow] for flow, size in left.items())
        now += step
        left = {flow: size - step * rates[flow] for flow, size in left.items()}
        expected |= {flow: now for flow, size in left.items() if not size}
        left = {flow: size for flow, size in left.items() if size}
    found: dict[int, Fraction] = {}
    while (end := fluid.next_end()) is not None:
        found |= dict.fromkeys(fluid.advance(end), end)
    assert found == expected


def test_what_left_by_rounding_down_still_takes_its_share() -> None:
    """At 3 GB/s 4 B end at 4/3 ns, so at 1; another 4 B that start at 1 share the line with the last 1 B.

    Both have 1.5 B/ns: the first is over at 5/3, the other has 3 B left and the line for itself: 5/3 + 1 = 8/3, so at 3.
    """
    found = simulate(
        "forward_only", 2, 2, costs={"forward": ["1 ns", "0 ns"], "message": "4 B"},
        cluster={"ranks_per_node": 1, "inter_node": {"bandwidth": "3 GB/s"}, "sharing": "fair"},
    )  # fmt: skip
    assert found.timeline.left.tolist() == [2, 4]


def test_ranks_that_share_a_nic() -> None:
    """Two ranks of a node sum 1 MB of gradients each with their copies (2(n-1)/n = 1), over one NIC of 1 MB/s: 2 s."""
    found = simulate(
        "gpipe", 2, 1, costs={"forward": "1 us", "backward": "1 us", "gradients": "1 MB"}, pipeline={"data_parallel": 2},
        cluster={"ranks_per_node": 2, "ranks_per_nic": 2, "intra_node": "free", "inter_node": MB_S, "sharing": "fair"},
    )  # fmt: skip
    assert found.timeline.makespan == pytest.approx(2e9, rel=1e-4)
    assert found.summary["links"][0]["utilization"] == pytest.approx(1, rel=1e-4)


def test_an_oversubscribed_leaf_switch_under_data_parallel_sync() -> None:
    """Four ranks sum 1 MB of gradients with one copy each (2(n-1)/n = 1): 1 s at 1 MB/s, all at once.

    Through a leaf switch of 2 MB/s the 4 MB take 2 s, which is said: without it the step is shorter.
    """

    def step(**cluster: Any) -> ppsim.Result:
        return simulate(
            "gpipe", 4, 1, costs={"forward": "1 us", "backward": "1 us", "gradients": "1 MB"}, pipeline={"data_parallel": 2},
            cluster={"ranks_per_node": 4, "intra_node": "free", "inter_node": MB_S, "sharing": "fair", **cluster},
        )  # fmt: skip

    leaf = [{"ranks": [0, 1, 2, 3], "bandwidth": "2 MB/s"}]
    assert step().timeline.makespan == pytest.approx(1e9, rel=1e-4)
    slow = step(switches=leaf)
    assert slow.timeline.makespan == pytest.approx(2e9, rel=1e-4)
    assert any("messages share switches: that of ranks 0, 1, 2, 3" in line for line in limits(slow))


def test_gloo_over_shared_links() -> None:
    """A transport says what a message waits for, the rule how it takes time: one message at a time is the same."""
    sections: dict[str, Any] = {"costs": {"message": "1 kB"}, "runtime": {"preset": "pytorch", "transport": "gloo"}}
    link = {"ranks_per_node": 1, "inter_node": {"bandwidth": "1 MB/s"}}
    one = simulate("gpipe", 2, 4, cluster=link, **sections)
    other = simulate("gpipe", 2, 4, cluster={**link, "sharing": "fair"}, **sections)
    assert one.timeline.times.tolist() == other.timeline.times.tolist()


def test_the_compiled_engine_says_that_it_can_not() -> None:
    fair = experiment(
        "gpipe", 2, 2, costs={"message": "1 kB"}, cluster={"ranks_per_node": 1, "inter_node": MB_S, "sharing": "fair"}
    )
    with pytest.raises(ConfigError, match=r"'compiled' doesn't play cluster\.sharing: fair: what is left of a message"):
        ppsim.simulate(fair, engine="compiled")
    assert ppsim.simulate(fair).engine == "simpy"


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({"sharing": "fare"}, "cluster.sharing: unknown rule 'fare'; did you mean 'fair'? known: fair, queueing"),
        (
            {"switches": [{"ranks": [0, 1], "bandwidth": "1 MB/s"}]},
            "messages share a switch under 'sharing: fair' alone",
        ),
        (
            {"sharing": "fair", "switches": [{"ranks": [0, 7], "bandwidth": "1 MB/s"}]},
            "switches.0.ranks: rank 7 is unknown",
        ),
        ({"sharing": "fair", "switches": [{"ranks": [0, 0], "bandwidth": "1 MB/s"}]}, "a rank is named twice"),
        (
            {"sharing": "fair", "inter_node": "free", "switches": [{"ranks": [0], "bandwidth": "1 MB/s"}]},
            "which has no bandwidth",
        ),
        ({"sharing": "fair", "switches": [{"ranks": [0], "bandwidth": "0 MB/s"}]}, "switches.0.bandwidth"),
    ],
)
def test_what_cannot_be_is_said(cluster: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        experiment("gpipe", 2, 2, cluster={"ranks_per_node": 1, "inter_node": MB_S, **cluster})
    assert said in str(error.value)


def test_a_trace_has_a_thread_for_each_message_on_a_port_at_once() -> None:
    """Perfetto drops spans that overlap on one thread: three messages at once have three."""
    trace = json.loads(text(forwards(3)))["traceEvents"]
    threads = [event["args"]["name"] for event in trace if event["name"] == "thread_name"]
    assert [name for name in threads if "egress" in name and name.startswith("node 0")] == [
        "node 0 nic 0 egress", "node 0 nic 0 egress (1)", "node 0 nic 0 egress (2)"
    ]  # fmt: skip


@SOME
@given(plans("fair"), st.integers())
def test_the_order_of_simultaneous_events_changes_nothing(plan: Plan, seed: int) -> None:
    """SimPy breaks ties by the number of the event; here those numbers are thrown. No rule is broken, either."""
    dice = random.Random(seed)

    class Shuffled(simpy.Environment):
        def __init__(self) -> None:
            super().__init__()
            self._eid = ((dice.random(), number) for number in itertools.count())

    def answer() -> list[list[int]] | str:
        try:
            timeline = simpy_engine.run(plan)
        except DeadlockError as deadlock:
            return str(deadlock)
        assert list(timeline.violations()) == []
        idle = sum(sum(rank) for rank in by_cause(Run(timeline.plan, timeline)).tolist())
        busy = int(timeline.plan.duration.sum())
        kept_waiting = timeline.makespan * plan.ops.ranks - busy
        assert idle == kept_waiting or plan.ops.index.has(*SENDS_AND_MOVES)
        return [timeline.times.tolist(), timeline.ready.tolist()]

    found = answer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simpy, "Environment", Shuffled)
        assert answer() == found


def test_a_sweep_takes_the_engine_that_can() -> None:
    """By the compiled engine where it plays the rule, else by SimPy's: here three messages share a port of 1 MB/s."""
    costs = {"forward": "0 s", "message": "1 MB"}
    both = [
        experiment(
            "forward_only", 2, 3, costs=costs, cluster={"ranks_per_node": 1, "inter_node": MB_S, "sharing": sharing}
        )
        for sharing in ("queueing", "fair")
    ]
    assert [row["makespan_s"] for row in ppsim.simulate_many(both, ["makespan_s"])] == [3, 3]
