"""The most that is held at once, of whatever is held from one event to another.

At one instant what is freed goes before what is allocated, so that the most is held at the end of some instant, after
all that happens in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ppsim.engine.timeline import NEVER
from ppsim.metrics.base import Run
from ppsim.ops import Longs, Numbers
from ppsim.plan.table import Holdings

LARGEST_KEY = 2**62


@dataclass(frozen=True, eq=False)
class Groups:
    """What is added up together: how many groups there are, the group of each holding, and that of each row."""

    count: int
    of_holding: Numbers
    of_row: Numbers


@dataclass(frozen=True, eq=False)
class Peaks:
    """Per group the most held at once, and the ns from which it is held (-1: nothing is ever held)."""

    bytes: Longs
    since: Longs


def peaks(run: Run, held: Holdings, groups: Groups | None = None) -> Peaks:
    """The most that each group holds at once, by default each rank.

    Two ways to the same figures: sorting all changes, and going through the ops, which are in the order of time.
    """
    groups = groups or Groups(run.plan.ops.ranks, held.rank, run.plan.ops.rank)
    found = Peaks(np.zeros(groups.count, np.int64), np.full(groups.count, NEVER, np.int64))
    if run.compiled:
        from ppsim.metrics import _walk

        _walk.fill_in(found, held, groups, run.plan.tail, run.timeline.times)
    else:
        fill_in(found, held, groups, run.timeline.times)
    return found


def fill_in(found: Peaks, held: Holdings, groups: Groups, times: Longs) -> None:
    """Find the peaks by sorting all changes."""
    begin, end = times[held.since], times[held.until]
    lasting = np.flatnonzero(end > begin)
    if not len(lasting):
        return
    size = held.bytes[lasting]
    time, delta = np.concatenate([begin[lasting], end[lasting]]), np.concatenate([size, -size])
    owner = np.tile(groups.of_holding[lasting].astype(np.int64), 2)
    order = by_group_and_time(owner, time)
    owner, time = owner[order], time[order]
    last = np.flatnonzero(np.append((owner[1:] != owner[:-1]) | (time[1:] != time[:-1]), True))
    total = np.cumsum(delta[order])[last]  # every group ends at 0, so that the next one's sum starts there
    owner, time = owner[last], time[last]
    np.maximum.at(found.bytes, owner, total)
    highest = np.flatnonzero((total == found.bytes[owner]) & (total > 0))[::-1]
    found.since[owner[highest]] = time[highest]  # the first such moment, since later ones are overwritten


def by_group_and_time(group: Longs, time: Longs) -> Longs:
    """Places in the order of group, then time."""
    width = int(time.max(initial=0)) + 1
    if (int(group.max(initial=0)) + 1) * width < LARGEST_KEY:
        return np.argsort(group * width + time, kind="stable")
    return np.lexsort((time, group))
