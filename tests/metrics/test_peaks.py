"""The most held at once: by a hand count, and the ways to find it against each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppsim import _jit as jit
from ppsim.metrics import memory, peaks

Arrays = dict[str, Any]


def ways(function: Any, otherwise: Callable[..., None]) -> list[Callable[..., None]]:
    """What Python runs, the compiled loop's code as Python, and, where Numba is installed, that compiled."""
    plain = function.__wrapped__
    try:
        return [otherwise, plain, jit.compiled(plain)]
    except ImportError:
        return [otherwise, plain]


SWEEPS = ways(peaks._sweep, peaks._sort)
ADDS = ways(memory._add_held, memory._add_there)


def found(way: Callable[..., None], given: Arrays) -> tuple[list[int], list[int]]:
    groups = given["groups"]
    most, at = np.zeros(groups, np.int64), np.full(groups, -1, np.int64)
    way(
        given["group_of_row"], given["group"], given["size"], given["since"], given["until"], given["times"], most, at
    )  # fmt: skip
    return most.tolist(), at.tolist()


@pytest.mark.parametrize("way", SWEEPS)
def test_by_hand(way: Callable[..., None]) -> None:
    """Rank 0 runs two ops, 0 to 10 and 10 to 30; 5 B are held by the first, 3 B from 10 to 20, 4 B from 20 to 30.

    At 10 the 5 B go before the 3 B come: at most 5 B, from 0. Rank 1 holds 7 B for no time: nothing.
    Events: 0-2 begins, 3-5 ends of the three ops, 6 and 7 of transfers at 10 and 20.
    """
    times = np.array([0, 10, 0, 10, 30, 0, 10, 20], np.int64)
    given = {
        "groups": 2, "group_of_row": np.array([0, 0, 1], np.int32), "group": np.array([0, 0, 0, 1], np.int32),
        "size": np.array([5, 3, 4, 7], np.int64), "since": np.array([0, 6, 7, 2], np.int32),
        "until": np.array([3, 7, 4, 5], np.int32), "times": times,
    }  # fmt: skip
    assert found(way, given) == ([5, 0], [0, -1])


@st.composite
def holdings(draw: st.DrawFn) -> Arrays:
    """Ops one after the other in each of a few groups, which may lie apart; events of theirs and of transfers."""
    groups = draw(st.integers(1, 3))
    group_of_row = draw(st.lists(st.integers(0, groups - 1), min_size=1, max_size=8))
    if draw(st.booleans()):
        group_of_row.sort()
    n, transfers = len(group_of_row), draw(st.integers(0, 5))
    begin, end, free = [0] * n, [0] * n, [0] * groups
    for row, group in enumerate(group_of_row):
        begin[row] = free[group] + draw(st.integers(0, 2))
        end[row] = free[group] = begin[row] + draw(st.integers(0, 2))
    others = [draw(st.integers(0, 12)) for _ in range(transfers)]
    times = np.array([*begin, *end, *others], np.int64)
    event = st.integers(0, len(times) - 1)
    pairs = draw(st.lists(st.tuples(event, event, st.integers(0, groups - 1), st.integers(1, 9)), max_size=12))
    pairs = [(b, a, g, s) if times[a] > times[b] else (a, b, g, s) for a, b, g, s in pairs]
    columns = np.array(pairs, np.int64).reshape(-1, 4).T
    return {
        "groups": groups, "group_of_row": np.array(group_of_row, np.int32), "group": columns[2].astype(np.int32),
        "size": columns[3].copy(), "since": columns[0].astype(np.int32), "until": columns[1].astype(np.int32),
        "times": times,
    }  # fmt: skip


@given(holdings())
@settings(max_examples=300, deadline=None)
def test_all_ways_find_what_a_look_at_every_instant_finds(given: Arrays) -> None:
    times = given["times"]
    most, at = [0] * given["groups"], [-1] * given["groups"]
    for now in sorted(set(times.tolist())):
        for group in range(given["groups"]):
            mine = (given["group"] == group) & (times[given["since"]] <= now) & (now < times[given["until"]])
            held = int(given["size"][mine].sum())
            if held > most[group]:
                most[group], at[group] = held, now
    assert [found(way, given) for way in SWEEPS] == [(most, at)] * len(SWEEPS)

    category = (given["size"] % 2).astype(np.int8)
    sums = []
    for way in ADDS:
        out = np.zeros((2, given["groups"]), np.int64)
        way(
            given["group"], category, given["size"], given["since"], given["until"], times,
            np.array(at, np.int64), out,
        )  # fmt: skip
        sums.append(out.sum(axis=0).tolist())
    assert sums == [most] * len(ADDS)
