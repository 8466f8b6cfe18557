"""Peaks by going through the ops, which are in the order of time on their rank; compiled by Numba.

Only what happens at transfers has to be put in order. Sorting all of it, as ``peaks`` does where there is no compiled
engine, makes the whole flow from orders to summary half as slow again: 1.4 s of CPU time for 1,048,576 ops with
messages, here 0.9 s. Importing this module needs Numba.

The loops call nothing, and what numpy does as fast is left to it: what Numba's compiler takes goes with the number of
expressions that it sees, and is most of what the first run of a machine waits for. One loop in the place of the three
would be compiled no sooner.
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
    """The group of each op; and whether it is the second of an atomic pair, whose events are those of the first."""

    group: Ints
    tail: Flags


class _Changes(NamedTuple):
    """When something changes, and by how much."""

    time: Longs
    size: Longs


class _Others(NamedTuple):
    """Changes that are at no op of their group, by group: group g's are ``first[g]:first[g + 1]``; the next of each."""

    first: Longs
    following: Longs
    changes: _Changes


class _State(NamedTuple):
    """By group: what it holds at which instant, once that is over; the most so far, and since when."""

    total: Longs
    now: Longs
    most: Longs
    since: Longs


def fill_in(found: Peaks, held: Holdings, groups: Groups, tail: Flags, times: Longs) -> None:
    """Find the peaks; always with the same types, so that the loops are compiled once."""
    group, of_row = np.ascontiguousarray(groups.of_holding, np.int32), np.ascontiguousarray(groups.of_row, np.int32)
    own, owner = np.zeros(2 * len(of_row), np.int64), np.empty(2 * len(group), np.int32)
    room = _Changes(np.empty(len(owner), np.int64), np.empty(len(owner), np.int64))
    given = _Held(group, np.ascontiguousarray(held.bytes), held.since, held.until, times)
    count = _split(_Rows(of_row, tail), given, own, owner, room)
    others = _Changes(np.empty(count, np.int64), np.empty(count, np.int64))
    first = np.zeros(groups.count + 1, np.int64)
    if count:
        owner = owner[:count]
        np.cumsum(np.bincount(owner, minlength=groups.count), out=first[1:])
        free, begins = first[:-1].copy(), np.empty(count + 1, np.int64)
        _sort((owner, free, begins), first, others, room)
    now, total = np.zeros((2, groups.count), np.int64)
    _walk(of_row, times, own, _Others(first, first[:-1].copy(), others), _State(total, now, found.bytes, found.since))


@compiled
def _split(rows: _Rows, held: _Held, own: Longs, owner: Ints, others: _Changes) -> int:
    """The changes at the begin and the end of every op; and all others, with the group of each. How many those are."""
    of_row, tail = rows
    group, size, since, until, times = held
    when, change = others
    n = len(of_row)
    count = 0 * n  # of a plain 0 Numba would work out all types a second time
    for i in range(len(group)):
        if times[until[i]] <= times[since[i]]:
            continue
        for end in range(2):
            event, what = (until[i], -size[i]) if end else (since[i], size[i])
            row = event - n if event >= n else event
            if row < n:
                row -= tail[row]
            if row < n and of_row[row] == group[i]:
                own[2 * row + (event >= n)] += what
            else:
                owner[count], when[count], change[count] = group[i], times[event], what
                count += 1
    return count


@compiled
def _sort(places: tuple[Ints, Longs, Longs], first: Longs, others: _Changes, room: _Changes) -> None:
    """Put the changes in ``room`` into ``others``, by group: those of group g in order, ``first[g]:first[g + 1]``.

    Those of a group are stretches that are in the order of time already, which are merged in pairs. ``places``: the
    group of each change, the next free place of each group, and room for where stretches begin and the last one ends.
    """
    owner, free, begins = places
    when, change = others
    when_before, change_before = room
    zero = 0 * len(owner)  # of a plain 0 Numba would work out all types a second time
    for k in range(len(owner)):
        place = free[owner[k]]
        when[place], change[place] = when_before[k], change_before[k]
        free[owner[k]] += 1
    for group in range(len(first) - 1):
        stretches = zero
        for i in range(first[group], first[group + 1]):
            if i == first[group] or when[i] < when[i - 1]:
                begins[stretches] = i
                stretches += 1
        begins[stretches] = first[group + 1]
        while stretches > 1:
            for pair in range(0, stretches - 1, 2):
                to, middle, high = begins[pair], begins[pair + 1], begins[pair + 2]
                length, i = middle - to, zero
                for k in range(length):  # of the first there is a copy; what is left of the second is in its place
                    when_before[k], change_before[k] = when[to + k], change[to + k]
                while i < length:
                    if middle == high or when_before[i] <= when[middle]:
                        when[to], change[to] = when_before[i], change_before[i]
                        i += 1
                    else:
                        when[to], change[to] = when[middle], change[middle]
                        middle += 1
                    to += 1
            stretches = (stretches + 1) // 2
            for pair in range(stretches):
                begins[pair] = begins[2 * pair]
            begins[stretches] = first[group + 1]


@compiled
def _walk(of_row: Ints, times: Longs, own: Longs, others: _Others, state: _State) -> None:
    """Go through the ops' begins and ends; before each, through what else its group does until then."""
    first, following, (when, change) = others
    total, now, most, since = state
    n = len(of_row)
    for k in range(2 * n + len(total)):
        if k < 2 * n:
            group, until, last = int(np.int64(of_row[k >> 1])), times[(k >> 1) + n * (k & 1)], own[k]
            if not last:
                continue
        else:
            group, until, last = k - 2 * n, NEVER_OVER, 0
        other = True
        while other:
            place = following[group]
            other = place < first[group + 1] and when[place] <= until
            time = when[place] if other else until
            if time > now[group]:  # an instant is over: what was held at its end may be the most
                if total[group] > most[group]:
                    most[group], since[group] = total[group], now[group]
                now[group] = time
            total[group] += change[place] if other else last
            following[group] += other
