"""Peaks by going through the ops, which are in the order of time on their rank; compiled by Numba.

Only what happens at transfers has to be put in order. Sorting all of it, as ``peaks`` does where there is no compiled
engine, makes the whole flow from orders to summary half as slow again: 1.4 s of CPU time for 1,048,576 ops with
messages, here 0.9 s. Importing this module needs Numba.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ppsim._jit import compiled
from ppsim.metrics.peaks import Groups, Peaks
from ppsim.ops import Flags, Ints, Longs
from ppsim.plan.table import Holdings

NEVER_OVER = int(np.iinfo(np.int64).max)
"""An instant after all others."""


class _Held(NamedTuple):
    """What is held: by which group, how much, from which event to which, and when every event is."""

    group: Ints
    size: Longs
    since: Ints
    until: Ints
    times: Longs


class _Rows(NamedTuple):
    """The group of each op; and 1 for the second of an atomic pair, whose events are those of the first."""

    group: Ints
    tail: Ints


class _Changes(NamedTuple):
    """When something changes, and by how much."""

    time: Longs
    size: Longs


class _Others(NamedTuple):
    """Changes that are at no op of their group, by group: group g's are ``first[g]:first[g + 1]``."""

    first: Longs
    changes: _Changes


class _State(NamedTuple):
    """By group: what it holds at which instant, once that is over; the most so far, and since when."""

    total: Longs
    now: Longs
    most: Longs
    since: Longs


def fill_in(found: Peaks, held: Holdings, groups: Groups, tail: Flags, times: Longs) -> None:
    """Find the peaks; always with the same types, so that the loops are compiled once.

    What numpy could do with a slice the loops do themselves: its checks of shapes take seconds to compile.
    """
    group, of_row = np.ascontiguousarray(groups.of_holding, np.int32), np.ascontiguousarray(groups.of_row, np.int32)
    rows = _Rows(of_row, tail.astype(np.int32))
    _walk(
        rows,
        _Held(group, np.ascontiguousarray(held.bytes), held.since, held.until, times),
        _State(np.zeros(groups.count, np.int64), np.zeros(groups.count, np.int64), found.bytes, found.since),
    )


@compiled
def _walk(rows: _Rows, held: _Held, state: _State) -> None:
    """Go through the ops' begins and ends; before each, through what else its group does until then."""
    n, groups = len(rows.group), len(state.most)
    own, count = _own(rows, held, groups)
    others = _others(rows, held, count)
    _sort(others)
    following = others.first.copy()
    for row in range(n):
        group = int(np.int64(rows.group[row]))
        for end in range(2):
            if own[2 * row + end]:
                when = held.times[row + n * end]
                _until(when, group, others, following, state)
                _change(state, group, when, own[2 * row + end])
    for group in range(groups):
        _until(int(np.int64(NEVER_OVER)), group, others, following, state)  # as it is: compiled a second time


@compiled
def _change(state: _State, group: int, when: int, change: int) -> None:
    """Add a change; where an instant is over, what was held at its end may be the most."""
    if when > state.now[group]:
        if state.total[group] > state.most[group]:
            state.most[group], state.since[group] = state.total[group], state.now[group]
        state.now[group] = when
    state.total[group] += change


@compiled
def _until(when: int, group: int, others: _Others, following: Longs, state: _State) -> None:
    """Add all other changes of a group up to an instant."""
    place = following[group]
    time, size = others.changes
    while place < others.first[group + 1] and time[place] <= when:
        _change(state, group, time[place], size[place])
        place += 1
    following[group] = place


@compiled
def _place(rows: _Rows, event: int, group: int) -> int:
    """Where the op stands whose begin or end the event is, if it is the group's: 2 · row, plus 1 for its end; or -1."""
    n = len(rows.group)
    row = event if event < n else event - n
    if row >= n:
        return -1
    row -= rows.tail[row]
    return 2 * row + (event >= n) if rows.group[row] == group else -1


@compiled
def _own(rows: _Rows, held: _Held, groups: int) -> tuple[Longs, Longs]:
    """The changes at the begin and the end of every op; and how many others each group has."""
    own, others = np.zeros(2 * len(rows.group), np.int64), np.zeros(groups, np.int64)
    for i in range(len(held.size)):
        group, since, until = held.group[i], held.since[i], held.until[i]
        if held.times[until] > held.times[since]:
            for event, change in ((since, held.size[i]), (until, -held.size[i])):
                place = _place(rows, event, group)
                if place >= 0:
                    own[place] += change
                else:
                    others[group] += 1
    return own, others


@compiled
def _others(rows: _Rows, held: _Held, count: Longs) -> _Others:
    """All other changes, by group."""
    first = np.zeros(len(count) + 1, np.int64)
    for group in range(len(count)):
        first[group + 1] = first[group] + count[group]
    time, delta = np.empty(first[-1], np.int64), np.empty(first[-1], np.int64)
    free = first.copy()
    if first[-1]:
        for i in range(len(held.size)):
            group, since, until = held.group[i], held.since[i], held.until[i]
            if held.times[until] > held.times[since]:
                for event, change in ((since, held.size[i]), (until, -held.size[i])):
                    if _place(rows, event, group) < 0:
                        time[free[group]], delta[free[group]] = held.times[event], change
                        free[group] += 1
    return _Others(first, _Changes(time, delta))


@compiled
def _sort(others: _Others) -> None:
    """Put each group's changes into the order of time: the stretches that are in order already are merged in pairs."""
    first, changes = others
    longest = 0
    for group in range(len(first) - 1):
        longest = max(longest, first[group + 1] - first[group])
    room = _Changes(np.empty(longest, np.int64), np.empty(longest, np.int64))
    begins = np.empty(longest + 1, np.int64)  # of the stretches; the last entry is where they end
    for group in range(len(first) - 1):
        stretches = 0
        for i in range(first[group], first[group + 1]):
            if i == first[group] or changes.time[i] < changes.time[i - 1]:
                begins[stretches] = i
                stretches += 1
        begins[stretches] = first[group + 1]
        while stretches > 1:
            for pair in range(0, stretches, 2):
                if pair + 1 < stretches:
                    _merge(changes, begins[pair], begins[pair + 1], begins[pair + 2], room)
                begins[pair // 2] = begins[pair]
            stretches = (stretches + 1) // 2
            begins[stretches] = first[group + 1]


@compiled
def _merge(changes: _Changes, low: int, middle: int, high: int, room: _Changes) -> None:
    """Merge two stretches that are in order, one behind the other; in ``room`` is room for the first."""
    length = middle - low
    for i in range(length):
        room.time[i], room.size[i] = changes.time[low + i], changes.size[low + i]
    i, to = 0, low
    while i < length:  # what is left of the second is in its place
        if middle == high or room.time[i] <= changes.time[middle]:
            changes.time[to], changes.size[to] = room.time[i], room.size[i]
            i += 1
        else:
            changes.time[to], changes.size[to] = changes.time[middle], changes.size[middle]
            middle += 1
        to += 1
