"""Of all that an op or a transfer waited for, what came last; and whose leaving freed a transfer's ports."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ppsim.metrics.base import Run
from ppsim.network import rule_of
from ppsim.ops import NONE, Constant, Kind, Longs, Numbers

Flags = NDArray[np.bool_]
Sorts = NDArray[np.int8]


class Sort(IntEnum):
    """What kind of event a need is; of needs that are met at the same instant the higher one explains the wait.

    LEFT is also a transfer's start, where its sender needs no more than that.
    """

    OTHER = 0
    LEFT = 1
    SYNC = 2
    MOVE = 3
    OP = 4
    BACKWARD = 5
    FORWARD = 6


ARRIVAL = np.zeros(len(Kind), np.int8)
"""By the kind of what a message comes from: the Sort of its arrival."""
ARRIVAL[Kind.F] = Sort.FORWARD
ARRIVAL[[Kind.B, Kind.I]] = Sort.BACKWARD
ARRIVAL[[Kind.EVICT, Kind.LOAD]] = Sort.MOVE
ARRIVAL[Kind.REDUCE_GRAD] = Sort.SYNC


def sorts(run: Run, event: Numbers) -> Sorts:
    """The Sort of each of these events of the plan, OTHER for none (-1)."""
    plan = run.plan
    n, t = len(plan.ops), len(plan.transfers)
    out = np.zeros(len(event), np.int8)
    out[(event >= n) & (event < 2 * n)] = Sort.OP
    out[(event >= 2 * n) & (event < 2 * n + 2 * t)] = Sort.LEFT
    arrival = np.flatnonzero(event >= 2 * n + 2 * t)
    out[arrival] = ARRIVAL[plan.ops.kind[plan.transfers.producer[event[arrival] - (2 * n + 2 * t)]]]
    return out


def latest(run: Run, owner: Numbers, event: Numbers, things: int) -> Longs:
    """The event that came last of those that each of so many things waited for, -1 where it waited for none.

    ``event[i]`` is one of the needs of thing ``owner[i]``. Ties go by ``Sort``, then to the one that is listed first.
    """
    if not len(event):
        return np.full(things, NONE, np.int64)
    key = run.timeline.times[event] * len(Sort) + sorts(run, event)
    last = np.full(things, -1, np.int64)
    np.maximum.at(last, owner, key)
    chosen = np.flatnonzero(key == last[owner])[::-1]
    out = np.full(things, NONE, np.int64)
    out[owner[chosen]] = event[chosen]  # of equal ones the first is written last
    return out


def freed_by(run: Run) -> tuple[Longs | Constant, Longs | Constant]:
    """For each transfer that queued the one whose leaving let it start, and their port; (-1, -1) for the others."""
    return rule_of(run.plan).freed_by(run.plan, run.timeline.carried)
