"""The most that is held at once, of whatever is held from one event to another.

At one instant what is freed goes before what is allocated, so that the most is held at the end of some instant, after
all that happens in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppsim._jit import jit_instead_of
from ppsim.engine.timeline import NEVER, Timeline
from ppsim.ops import Ints, Longs
from ppsim.plan.table import Holdings

LARGEST_KEY = 2**62


@dataclass(frozen=True, eq=False)
class Peaks:
    """Per group the most held at once, and the ns from which it is held (-1: nothing is ever held)."""

    bytes: Longs
    since: Longs


def peaks(
    held: Holdings, timeline: Timeline, group: NDArray[np.signedinteger], group_of_row: NDArray[np.signedinteger],
    groups: int,
) -> Peaks:  # fmt: skip
    """The most that each group (a rank, say) holds at once, by the group of each holding and of each op."""
    most, since = np.zeros(groups, np.int64), np.full(groups, NEVER, np.int64)
    if len(held):  # always of the same types, so that the loop is compiled once
        of_row, of_holding = np.ascontiguousarray(group_of_row, np.int32), np.ascontiguousarray(group, np.int32)
        size = np.ascontiguousarray(held.bytes)
        _sweep(of_row, of_holding, size, held.since, held.until, timeline.times, most, since)
    return Peaks(most, since)


def _sort(
    group_of_row: Ints,  # noqa: ARG001 - of use to the other way
    group: Ints, size: Longs, since: Ints, until: Ints,
    times: Longs, most: Longs, at: Longs,
) -> None:  # fmt: skip
    """Fill in the most and since when, by one sort of all changes."""
    begin, end = times[since], times[until]
    lasting = np.flatnonzero(end > begin)
    if not len(lasting):
        return
    size = size[lasting]
    time, delta = np.concatenate([begin[lasting], end[lasting]]), np.concatenate([size, -size])
    owner = np.tile(group[lasting].astype(np.int64), 2)
    order = by_group_and_time(owner, time)
    owner, time = owner[order], time[order]
    last = np.flatnonzero(np.append((owner[1:] != owner[:-1]) | (time[1:] != time[:-1]), True))
    total = np.cumsum(delta[order])[last]  # every group ends at 0, so that the next one's sum starts there
    owner, time = owner[last], time[last]
    np.maximum.at(most, owner, total)
    highest = np.flatnonzero((total == most[owner]) & (total > 0))[::-1]
    at[owner[highest]] = time[highest]  # the first such moment, since later ones are overwritten


def by_group_and_time(group: Longs, time: Longs) -> Longs:
    """Places in the order of group, then time."""
    width = int(time.max(initial=0)) + 1
    if (int(group.max(initial=0)) + 1) * width < LARGEST_KEY:
        return np.argsort(group * width + time, kind="stable")
    return np.lexsort((time, group))


@jit_instead_of(_sort)
def _sweep(
    group_of_row: Ints, group: Ints, size: Longs, since: Ints, until: Ints,
    times: Longs, most: Longs, at: Longs,
) -> None:  # fmt: skip
    """The same by going through each group's ops, which are in the order of time, and its other events, once sorted."""
    n, groups = len(group_of_row), len(most)
    first = np.zeros(groups + 1, np.int64)
    in_order = True  # the rows of each group stand together
    for row in range(n):
        first[group_of_row[row] + 1] += 1
        in_order = in_order and (row == 0 or group_of_row[row - 1] <= group_of_row[row])
    for g in range(groups):
        first[g + 1] += first[g]
    moved = 0 if in_order else n
    place, row_at = np.empty(moved, np.int32), np.empty(moved, np.int32)
    free = first[:-1].copy()
    for row in range(moved):
        g = group_of_row[row]
        place[row], row_at[free[g]] = free[g], row
        free[g] += 1
    change = np.zeros(2 * n, np.int64)  # at the begin and the end of the op at each place
    more = np.zeros(groups + 1, np.int64)
    for i in range(len(size)):
        if times[until[i]] > times[since[i]]:
            for end in range(2):
                event = until[i] if end else since[i]
                row = event - n if event >= n else event
                if row < n and group_of_row[row] == group[i]:
                    at_place = row if in_order else place[row]
                    change[2 * at_place + (event >= n)] += -size[i] if end else size[i]
                else:
                    more[group[i] + 1] += 1
    longest = 0
    for g in range(groups):
        longest = max(longest, more[g + 1])
        more[g + 1] += more[g]
    time, other = np.empty(more[groups], np.int64), np.empty(more[groups], np.int64)
    if longest:
        free = more[:-1].copy()
        for i in range(len(size)):
            if times[until[i]] > times[since[i]]:
                for end in range(2):
                    event = until[i] if end else since[i]
                    row = event - n if event >= n else event
                    if row >= n or group_of_row[row] != group[i]:
                        g = group[i]
                        time[free[g]], other[free[g]] = times[event], -size[i] if end else size[i]
                        free[g] += 1
    kept_time, kept = np.empty(longest, np.int64), np.empty(longest, np.int64)
    runs = np.empty(longest + 1, np.int64)
    for g in range(groups):
        low, high = more[g], more[g + 1]
        count = 0  # stretches in the order of time, which are merged two by two; the last entry is where they end
        for i in range(low, high):
            if i == low or time[i] < time[i - 1]:
                runs[count] = i
                count += 1
        runs[count] = high
        while count > 1:
            merged = 0
            for r in range(0, count, 2):
                start, b, stop = runs[r], runs[min(r + 1, count)], runs[min(r + 2, count)]
                runs[merged] = start
                merged += 1
                if b == stop:
                    continue
                length = b - start
                for i in range(length):
                    kept_time[i], kept[i] = time[start + i], other[start + i]
                i, to = 0, start
                while i < length:
                    if b < stop and time[b] < kept_time[i]:
                        time[to], other[to] = time[b], other[b]
                        b += 1
                    else:
                        time[to], other[to] = kept_time[i], kept[i]
                        i += 1
                    to += 1
            runs[merged] = high
            count = merged
        total, own, last = 0, 2 * first[g], 2 * first[g + 1]
        next_own = NEVER
        if own < last:
            next_own = times[own // 2 if in_order else row_at[own // 2]]
        while own < last or low < high:
            now = next_own if low == high or (own < last and next_own < time[low]) else time[low]
            while own < last and next_own == now:
                total += change[own]
                own += 1
                if own < last:
                    next_own = times[(own // 2 if in_order else row_at[own // 2]) + n * (own % 2)]
            while low < high and time[low] == now:
                total += other[low]
                low += 1
            if total > most[g]:
                most[g], at[g] = total, now
