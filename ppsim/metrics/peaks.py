"""The most that is held at once, of whatever is held from one event to another.

At one instant what is freed goes before what is allocated, so that the most is held at the end of some instant, after
all that happens in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppsim.jit import jit_instead_of
from ppsim.plan.table import Holdings, Ints, Longs
from ppsim.timeline import NEVER, Timeline

LARGEST_KEY = 2**62


@dataclass(frozen=True, eq=False)
class Peaks:
    """Per group the most held at once, and the ns from which it is held (-1: nothing is ever held)."""

    bytes: Longs
    since: Longs


def peaks(held: Holdings, timeline: Timeline, group: NDArray[np.signedinteger], groups: int) -> Peaks:
    """The most that each group (a rank, say) holds at once, by the group of each holding."""
    most, since = np.zeros(groups, np.int64), np.full(groups, NEVER, np.int64)
    if len(held):
        _merge(group, held.bytes, held.since, held.until, timeline.times, most, since)
    return Peaks(most, since)


def _sort(
    group: NDArray[np.signedinteger], size: Longs, since: Ints, until: Ints, times: Longs, most: Longs, at: Longs
) -> None:
    """Fill in the most and since when, by one sort of all changes."""
    begin, end = times[since], times[until]
    lasting = np.flatnonzero(end > begin)
    if not len(lasting):
        return
    size = size[lasting]
    time, delta = np.concatenate([begin[lasting], end[lasting]]), np.concatenate([size, -size])
    group = np.tile(group[lasting].astype(np.int64), 2)
    order = by_group_and_time(group, time)
    group, time = group[order], time[order]
    last = np.flatnonzero(np.append((group[1:] != group[:-1]) | (time[1:] != time[:-1]), True))
    total = np.cumsum(delta[order])[last]  # every group ends at 0, so that the next one's sum starts there
    group, time = group[last], time[last]
    np.maximum.at(most, group, total)
    highest = np.flatnonzero((total == most[group]) & (total > 0))[::-1]
    at[group[highest]] = time[highest]  # the first such moment, since later ones are overwritten


def by_group_and_time(group: Longs, time: Longs) -> Longs:
    """Places in the order of group, then time."""
    width = int(time.max(initial=0)) + 1
    if (int(group.max(initial=0)) + 1) * width < LARGEST_KEY:
        return np.argsort(group * width + time, kind="stable")
    return np.lexsort((time, group))


@jit_instead_of(_sort)
def _merge(
    group: NDArray[np.signedinteger], size: Longs, since: Ints, until: Ints, times: Longs, most: Longs, at: Longs
) -> None:
    """The same by merging: what is held begins, and ends, in the order of time but for a few places."""
    groups = len(most)
    first = np.zeros(groups + 1, np.int64)
    for i in range(len(size)):
        if times[until[i]] > times[since[i]]:
            first[group[i] + 1] += 2
    for g in range(groups):
        first[g + 1] += first[g]
    # Of each group all begins, then all ends.
    begins, ends = first[:-1].copy(), (first[:-1] + first[1:]) // 2
    time, delta = np.empty(first[groups], np.int64), np.empty(first[groups], np.int64)
    for i in range(len(size)):
        begin, end = times[since[i]], times[until[i]]
        if end > begin:
            g = group[i]
            time[begins[g]], delta[begins[g]] = begin, size[i]
            time[ends[g]], delta[ends[g]] = end, -size[i]
            begins[g] += 1
            ends[g] += 1
    longest = 0
    for g in range(groups):
        longest = max(longest, first[g + 1] - first[g])
    other_time, other_delta = np.empty(longest, np.int64), np.empty(longest, np.int64)
    runs = np.empty(longest + 1, np.int64)
    for g in range(groups):
        low, high = first[g], first[g + 1]
        if low == high:
            continue
        count = 0  # stretches in the order of time; the last entry is where they end
        for i in range(low, high):
            if i == low or time[i] < time[i - 1]:
                runs[count] = i
                count += 1
        runs[count] = high
        while count > 1:
            merged = 0
            for r in range(0, count, 2):
                a, middle = runs[r], runs[min(r + 1, count)]
                b, stop = middle, runs[min(r + 2, count)]
                runs[merged] = a
                merged += 1
                if middle == stop:
                    continue
                length = middle - a
                for i in range(length):
                    other_time[i], other_delta[i] = time[a + i], delta[a + i]
                i, place = 0, a
                while i < length:
                    if b < stop and time[b] < other_time[i]:
                        time[place], delta[place] = time[b], delta[b]
                        b += 1
                    else:
                        time[place], delta[place] = other_time[i], other_delta[i]
                        i += 1
                    place += 1
            runs[merged] = high
            count = merged
        total = 0
        for i in range(low, high):
            total += delta[i]
            if total > most[g] and (i + 1 == high or time[i + 1] > time[i]):
                most[g], at[g] = total, time[i]
