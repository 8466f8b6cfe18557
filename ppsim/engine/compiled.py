"""The semantics of the model of record over the Plan's arrays, compiled by Numba (extra ``fast``).

Where no transfer has ports, nothing depends on what else happens at a time: a moment is the latest of those that it
needs, and each rank runs as far as its inputs are known (``_without_ports``). Otherwise events come off a heap in the
order of time, and each instant is closed by the settle pass (``_with_ports``). Importing this needs Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ppsim.engine.deadlock import explain
from ppsim.ops import NONE
from ppsim.plan.table import Ints, Longs, Plan
from ppsim.timeline import NEVER, Timeline, finished

Function = TypeVar("Function", bound=Callable[..., object])


def _compiled(function: Function) -> Function:
    """Compile at the first call; the machine code is kept on disk where there is a place for it."""
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return njit(nogil=True)(function)


class _Arrays(NamedTuple):
    """What the compiled code reads of a Plan, and the four columns that it fills in."""

    offsets: Longs
    rank: Ints
    duration: Longs
    start_ptr: Longs
    start_event: Longs
    end_ptr: Longs
    end_event: Longs
    send_ptr: Longs
    send_event: Longs
    route: Ints
    occupancy: Longs
    latency: Longs
    start: Longs
    end: Longs
    ready: Longs
    transfer_start: Longs


class _Lanes(NamedTuple):
    """The pairs of ports that transfers use: each route's lane (-1: none), each lane's ports, each port's lanes."""

    of_route: Ints
    ports: Ints
    at_ptr: Ints
    at: Ints


def run(plan: Plan) -> Timeline:
    """Simulate the plan. Raises DeadlockError where ranks wait for ever."""
    n, t, transfers, routes = len(plan), len(plan.transfers), plan.transfers, plan.routes
    columns = tuple(np.full(size, NEVER, np.int64) for size in (n, n, t, t))
    inputs = (
        plan.offsets, plan.rank, plan.duration, plan.start_needs.ptr, plan.start_needs.event, plan.end_needs.ptr,
        plan.end_needs.event, transfers.needs.ptr, transfers.needs.event, transfers.route, routes.occupancy,
        routes.latency,
    )  # fmt: skip
    arrays = _Arrays(*(np.ascontiguousarray(column) for column in inputs), *columns)
    if np.all(routes.egress == NONE):
        _without_ports(arrays)
    else:
        _with_ports(arrays, plan)
    if any(np.any(column == NEVER) for column in columns):
        raise explain(plan, *columns)
    return finished(plan, *columns)


@_compiled
def _without_ports(a: _Arrays) -> None:
    """Run each rank as far as its inputs are known, then those that waited for it."""
    offsets, duration, start, end = a.offsets, a.duration, a.start, a.end
    n, t, ranks = len(start), len(a.ready), len(offsets) - 1
    at = offsets[:-1].copy()
    known = np.zeros(ranks, np.int64)  # how many needs of its next moment each rank has seen, and the latest of them
    latest = np.zeros(ranks, np.int64)
    awaited = np.full(ranks, NEVER, np.int64)  # the op's event that each rank waits for, in a list per rank it is of
    waiter = np.full(ranks, NONE, np.int64)
    next_waiter = np.full(ranks, NONE, np.int64)
    stack = np.empty(t + 1, np.int64)
    todo = np.arange(ranks)[::-1].copy()
    tasks = ranks
    while tasks:
        tasks -= 1
        rank = todo[tasks]
        while at[rank] < offsets[rank + 1]:
            row = at[rank]
            started = start[row] >= 0
            ptr, event = (a.end_ptr, a.end_event) if started else (a.start_ptr, a.start_event)
            missing = NEVER
            while ptr[row] + known[rank] < ptr[row + 1]:
                moment = _moment(a, event[ptr[row] + known[rank]], stack)
                if moment < 0:
                    missing = ~moment
                    break
                latest[rank] = max(latest[rank], moment)
                known[rank] += 1
            if missing >= 0:
                if missing < 2 * n:
                    other = a.rank[missing % n]
                    awaited[rank], next_waiter[rank], waiter[other] = missing, waiter[other], rank
                break
            known[rank] = 0
            if started:
                end[row] = latest[rank]
                at[rank] += 1
            else:
                start[row] = latest[rank]
                latest[rank] += duration[row]
        # Wake those whose event has happened; the others go on waiting.
        following, waiter[rank] = waiter[rank], NONE
        while following != NONE:
            other, following = following, next_waiter[following]
            event_of = awaited[other]
            if (start[event_of] if event_of < n else end[event_of - n]) >= 0:
                todo[tasks] = other
                tasks += 1
            else:
                next_waiter[other], waiter[rank] = waiter[rank], other
    for transfer in range(t):
        if a.ready[transfer] < 0:
            _make_ready(a, transfer, stack)
    a.transfer_start[:] = a.ready


@njit(inline='always')
def _moment(a: _Arrays, event: int, stack: Longs) -> int:
    """When an event happens; where that isn't known yet, ~(the op's event that it waits for)."""
    moment = _known(a, event)
    if moment >= 0:
        return moment
    if event < 2 * len(a.start):
        return ~event
    missing = _make_ready(a, (event - 2 * len(a.start)) % len(a.ready), stack)
    return ~missing if missing >= 0 else _known(a, event)


@njit(inline='always')
def _known(a: _Arrays, event: int) -> int:
    """When an event happens, as far as that has been found out (NEVER: not yet)."""
    n, t = len(a.start), len(a.ready)
    if event < n:
        return a.start[event]
    if event < 2 * n:
        return a.end[event - n]
    left, arrived = event >= 2 * n + t, event >= 2 * n + 2 * t
    transfer = event - 2 * n - t * (int(left) + int(arrived))
    ready, route = a.ready[transfer], a.route[transfer]
    return ready if ready < 0 else ready + left * a.occupancy[route] + arrived * a.latency[route]


@_compiled
def _make_ready(a: _Arrays, transfer: int, stack: Longs) -> int:
    """Find out when a transfer is ready; returns NEVER, or the op's event that it waits for (2n: for ever).

    Transfers can wait for transfers, in long chains: they are on a stack of our own.
    """
    n, t = len(a.start), len(a.ready)
    depth, stack[0] = 0, transfer
    while depth >= 0:
        waiting = stack[depth]
        latest, missing = 0, NEVER
        for k in range(a.send_ptr[waiting], a.send_ptr[waiting + 1]):
            moment = _known(a, a.send_event[k])
            if moment < 0:
                missing = a.send_event[k]
                break
            latest = max(latest, moment)
        if missing < 0:
            a.ready[waiting] = latest
            depth -= 1
        elif missing < 2 * n:
            return missing
        elif depth == t:  # deeper than there are transfers: they wait for each other
            return 2 * n
        else:
            depth += 1
            stack[depth] = (missing - 2 * n) % t
    return NEVER


@_compiled
def _with_ports(a: _Arrays, lanes: _Lanes) -> None:
    pass
