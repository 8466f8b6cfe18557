"""Of all that an op or a transfer waited for, what came last; and whose leaving freed a transfer's ports."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ppsim.metrics.base import Run
from ppsim.ops import NONE, Kind
from ppsim.plan.table import Longs

Index = NDArray[np.signedinteger]
Flags = NDArray[np.bool_]
Sorts = NDArray[np.int8]


class Sort(IntEnum):
    """What kind of event a need is; of needs that are met at the same instant the higher one explains the wait."""

    OTHER = 0
    LEFT = 1
    SYNC = 2
    MOVE = 3
    OP = 4
    BACKWARD = 5
    FORWARD = 6


_ARRIVAL = np.zeros(len(Kind), np.int8)
_ARRIVAL[Kind.F] = Sort.FORWARD
_ARRIVAL[[Kind.B, Kind.I]] = Sort.BACKWARD
_ARRIVAL[[Kind.EVICT, Kind.LOAD]] = Sort.MOVE
_ARRIVAL[Kind.REDUCE_GRAD] = Sort.SYNC


def sorts(run: Run) -> Sorts:
    """The Sort of every event of the plan, by its number."""
    plan = run.plan
    n, t = len(plan), len(plan.transfers)
    out = np.empty(plan.events.count, np.int8)
    out[:n], out[n : 2 * n] = Sort.OTHER, Sort.OP
    out[2 * n : 2 * n + t], out[2 * n + t : 2 * n + 2 * t] = Sort.OTHER, Sort.LEFT
    out[2 * n + 2 * t :] = _ARRIVAL[plan.kind[plan.transfers.producer]]
    return out


def latest(run: Run, owner: Index, event: Index, things: int) -> Longs:
    """The event that came last of those that each of so many things waited for, -1 where it waited for none.

    ``event[i]`` is one of the needs of thing ``owner[i]``. Ties go by ``Sort``, then to the one that is listed first.
    """
    key = run.timeline.times[event] * len(Sort) + run.once(sorts)[event]
    last = np.full(things, -1, np.int64)
    np.maximum.at(last, owner, key)
    chosen = np.flatnonzero(key == last[owner])[::-1]
    out = np.full(things, NONE, np.int64)
    out[owner[chosen]] = event[chosen]  # of equal ones the first is written last
    return out


def freed_by(run: Run) -> tuple[Longs, Longs]:
    """For each transfer that queued the one whose leaving let it start, and their port; (-1, -1) for the others.

    A transfer that didn't start when it was ready starts at the very instant at which another one leaves its egress or
    its ingress; where two do, the egress counts.
    """
    plan, timeline = run.plan, run.timeline
    route, started, left = plan.transfers.route, timeline.transfer_start, timeline.left
    holder, via = np.full((2, len(route)), NONE, np.int64)
    queued = started > timeline.ready
    if not np.any(queued):
        return holder, via
    for ports in (plan.routes.ingress, plan.routes.egress):
        port = ports[route].astype(np.int64)
        turn = np.lexsort((np.arange(len(route)), timeline.ready, left, started, port))
        before, after = turn[:-1], turn[1:]
        freed = (port[before] == port[after]) & queued[after] & (left[before] == started[after])
        holder[after[freed]], via[after[freed]] = before[freed], port[after[freed]]
    return holder, via
