"""The most held at once: by a hand count, the two ways to find it against each other, and pairs in both engines."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ppsim
from ppsim.metrics import peaks
from ppsim.metrics.peaks import Groups, Peaks
from ppsim.plan.table import Holdings
from tests.simulated import experiment

Arrays = dict[str, Any]
ENGINES = ["simpy", "compiled"] if find_spec("numba") else ["simpy"]


def by_sorting(found: Peaks, given: Arrays) -> None:
    peaks.fill_in(found, given["held"], given["groups"], given["times"])


def by_walking(found: Peaks, given: Arrays) -> None:
    from ppsim.metrics import _walk

    _walk.fill_in(found, given["held"], given["groups"], given["tail"], given["times"])


WAYS = [by_sorting, by_walking][: len(ENGINES)]


def found(way: Callable[..., None], given: Arrays) -> tuple[list[int], list[int]]:
    most = Peaks(np.zeros(given["groups"].count, np.int64), np.full(given["groups"].count, -1, np.int64))
    way(most, given)
    return most.bytes.tolist(), most.since.tolist()


def arrays(groups: int, of_row: list[int], tail: list[bool], times: list[int], held: list[tuple[int, ...]]) -> Arrays:
    """``held``: (since, until, group, bytes) of each."""
    since, until, group, size = np.array(held, np.int64).reshape(-1, 4).T
    none = np.zeros(len(held), np.int8)
    return {
        "held": Holdings(group.astype(np.int32), none, size.copy(), since.astype(np.int32), until.astype(np.int32)),
        "groups": Groups(groups, group.astype(np.int32), np.array(of_row, np.int32)),
        "tail": np.array(tail, bool),
        "times": np.array(times, np.int64),
    }


@pytest.mark.parametrize("way", WAYS)
def test_by_hand(way: Callable[..., None]) -> None:
    """Rank 0 runs two ops, 0 to 10 and 10 to 30; 5 B are held by the first, 3 B from 10 to 20, 4 B from 20 to 30.

    At 10 the 5 B go before the 3 B come: at most 5 B, from 0. Rank 1 holds 7 B for no time: nothing.
    Events: 0-2 begins, 3-5 ends of the three ops, 6 and 7 of transfers at 10 and 20.
    """
    held = [(0, 3, 0, 5), (6, 7, 0, 3), (7, 4, 0, 4), (2, 5, 1, 7)]
    given = arrays(2, [0, 0, 1], [False] * 3, [0, 10, 0, 10, 30, 0, 10, 20], held)
    assert found(way, given) == ([5, 0], [0, -1])


@pytest.mark.parametrize("way", WAYS)
def test_both_rows_of_a_pair_span_it(way: Callable[..., None]) -> None:
    """A pair from 0 to 10, an op from 10 to 20. The second row's end frees 5 B, held since a transfer at 0.

    A transfer at 10 brings 4 B, held to the op's end, which itself holds 1 B: 5 B until 10, 5 B from then on; never 9.
    Events: 0-2 begins, 3-5 ends, 6 and 7 of transfers at 0 and 10.
    """
    held = [(6, 4, 0, 5), (7, 5, 0, 4), (2, 5, 0, 1)]
    given = arrays(1, [0, 0, 0], [False, True, False], [0, 0, 10, 10, 10, 20, 0, 10], held)
    assert found(way, given) == ([5], [0])


@st.composite
def holdings(draw: st.DrawFn) -> Arrays:
    """Ops one after the other in each of a few groups, which may lie apart; events of theirs and of transfers."""
    groups = draw(st.integers(1, 3))
    of_row = draw(st.lists(st.integers(0, groups - 1), min_size=1, max_size=8))
    if draw(st.booleans()):
        of_row.sort()
    n, transfers = len(of_row), draw(st.integers(0, 5))
    begin, end, free, tail = [0] * n, [0] * n, [0] * groups, [False] * n
    for row, group in enumerate(of_row):
        tail[row] = row > 0 and not tail[row - 1] and draw(st.booleans())
        if tail[row]:  # of a pair; its rows may be of different groups, such as stages
            begin[row], end[row] = begin[row - 1], end[row - 1]
            if free[group] > begin[row]:
                tail[row] = False
        if not tail[row]:
            begin[row] = free[group] + draw(st.integers(0, 2))
            end[row] = begin[row] + draw(st.integers(0, 2))
        free[group] = end[row]
    others = [draw(st.integers(0, 12)) for _ in range(transfers)]
    times = [*begin, *end, *others]
    event = st.integers(0, len(times) - 1)
    pairs = draw(st.lists(st.tuples(event, event, st.integers(0, groups - 1), st.integers(1, 9)), max_size=12))
    pairs = [(b, a, g, s) if times[a] > times[b] else (a, b, g, s) for a, b, g, s in pairs]
    return arrays(groups, of_row, tail, times, pairs)


@given(holdings())
@settings(max_examples=300, deadline=None)
def test_both_ways_find_what_a_look_at_every_instant_finds(given: Arrays) -> None:
    times, held, count = given["times"], given["held"], given["groups"].count
    most, at = [0] * count, [-1] * count
    for now in sorted(set(times.tolist())):
        for group in range(count):
            mine = (held.rank == group) & (times[held.since] <= now) & (now < times[held.until])
            level = int(held.bytes[mine].sum())
            if level > most[group]:
                most[group], at[group] = level, now
    assert [found(way, given) for way in WAYS] == [(most, at)] * len(WAYS)


def paired(name: str, p: int, m: int, **sections: Any) -> ppsim.Experiment:
    cluster = {"ranks_per_node": 1, "device": {"memory": "12.5 MB"}, **sections.pop("cluster")}
    costs = {"weights": "0 B", "activation": "2 MB", "message": "1 MB", **sections.pop("costs")}
    return experiment(name, p, m, costs=costs, cluster=cluster)


def test_frees_at_a_pairs_end_count_before_what_arrives_then() -> None:
    """F = B = 2 ms, 1 MB messages that take a port 1 ms and fly 1 ms: on rank 1, 12 MB from 21 ms on at most.

    Held there then: activations of four chunks, 8 MB, and four messages; at a pair's end another starts to come in just
    when the pair gives its own back. 13 MB, more than the 12.5 MB of the device, would count both.
    """
    link = {"bandwidth": "1 GB/s", "latency": "1 ms"}
    costs = {"forward": "2 ms", "backward": "2 ms"}
    found = paired("dualpipev", 2, 4, costs=costs, cluster={"inter_node": link})
    for engine in [*ENGINES, "simpy"]:  # SimPy's answer is the same before and after a compiled run
        summary = ppsim.simulate(found, engine=engine).summary
        assert (summary["peak_memory_bytes"], summary["fits"]) == (12_000_000, True), engine


@st.composite
def pairs(draw: st.DrawFn) -> ppsim.Experiment:
    """Fused pairs whose times and transfers are whole ms, so that many things happen at one instant."""
    name = draw(st.sampled_from(["dualpipe", "dualpipev"]))
    p = draw(st.sampled_from([2, 4]))
    m = 2 * p + 2 * draw(st.integers(0, 2))
    whole = st.integers(1, 4).map(lambda n: f"{n} ms")
    costs = {"forward": draw(whole), "input_grad": draw(whole), "weight_grad": draw(whole)}
    costs["held_for_weight_grad"] = draw(st.sampled_from(["0 MB", "1 MB"]))
    if draw(st.booleans()):
        costs["overlapped"] = draw(whole)
    if draw(st.booleans()):
        costs["pair"] = "serial"
    link = {
        "bandwidth": draw(st.sampled_from(["1 GB/s", "0.5 GB/s"])),
        "latency": draw(st.sampled_from(["0 ms", "1 ms"])),
    }
    return paired(name, p, m, costs=costs, cluster={"inter_node": link})


@given(pairs(), st.permutations([*ENGINES, "simpy"]))
@settings(max_examples=40, deadline=None)
def test_a_peak_is_the_highest_point_of_the_memory_curve(found: ppsim.Experiment, engines: list[Any]) -> None:
    """By category at that moment, too; in every order of the engines."""
    told = []
    for engine in engines:
        result = ppsim.simulate(found, engine=engine)
        told.append(result.per_rank())
        highest = result.memory.groupby("rank")["total_bytes"].max()
        for row in told[-1]:
            assert row["peak_memory_bytes"] == highest[row["rank"]] == sum(row["peak_by_category"].values())
        assert result.summary["peak_memory_bytes"] == highest.max()
    assert told == [told[0]] * len(told)
