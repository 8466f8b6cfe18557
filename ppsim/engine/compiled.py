"""The semantics of the model of record over the Plan's arrays, compiled by Numba (extra ``fast``).

What waits is a *thing* with a number, as in the SimPy engine: op i to start i, op i to end n + i, transfer j to be
ready 2n + j. Where no transfer has ports, nothing depends on what else happens at the time: a moment is the latest of
those that it needs, and each rank runs as far as its inputs are known (``_without_ports``). Otherwise events come off
a heap in the order of time, and the settle pass closes each instant (``_with_ports``).

The two loops are long on purpose: a call that hands over a dozen arrays costs more than an op. Importing this module
needs Numba.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppsim._jit import compiled
from ppsim.engine.deadlock import explain
from ppsim.engine.pairs import pop, push, sort
from ppsim.engine.timeline import NEVER, Timeline, finished
from ppsim.engine.watch import Watch
from ppsim.errors import ConfigError
from ppsim.ops import NONE, Ints, Longs
from ppsim.plan.table import Plan

Numbers = NDArray[np.uint32]
"""Unsigned, so that no code is made for indices below zero: a tenth of the time."""


class _Work(NamedTuple):
    """The Plan as the loops read it: ranks and ops, what each thing waits for, and the routes of the transfers."""

    offsets: Longs
    rank: Numbers
    duration: Longs
    ptr: Numbers
    event: Numbers
    route: Numbers
    occupancy: Longs
    latency: Longs


class _Lanes(NamedTuple):
    """Pairs of ports: the lane of each route (-1: no ports), the ports of each lane, and the lanes at each port."""

    of_route: Ints
    ports: Numbers
    at_ptr: Numbers
    at: Numbers


def run(plan: Plan, watch: Watch | None = None) -> Timeline:
    """Simulate the plan. Raises DeadlockError where ranks wait for ever."""
    n, t = len(plan.ops), len(plan.transfers)
    moment = np.full(2 * n + t, NEVER, np.int64)
    start, end, ready = moment[:n], moment[n : 2 * n], moment[2 * n :]
    if watch is not None:
        watch.at("simulation", lambda: np.count_nonzero(end >= 0) / max(n, 1))
    if np.all(plan.routes.egress == NONE):
        _without_ports(_work(plan), moment)
        transfer_start = ready  # nothing to wait for
    else:
        transfer_start = np.full(t, NEVER, np.int64)
        _with_ports(_work(plan), _lanes(plan), moment, transfer_start)
    if np.any(moment < 0) or np.any(transfer_start < 0):
        np.maximum(moment, NEVER, out=moment)
        raise explain(plan, start, end, ready, transfer_start)
    return replace(finished(plan, start, end, ready, transfer_start), compiled=True)


def _work(plan: Plan) -> _Work:
    tables = (plan.start_needs, plan.end_needs, plan.transfers.needs)
    if plan.events.count > np.iinfo(np.uint32).max:
        raise ConfigError(f"engine: 'compiled' can number 4 billion events, here are {plan.events.count}; use 'simpy'")
    ptr = np.zeros(2 * len(plan.ops) + len(plan.transfers) + 1, np.uint32)
    things = needs = 0
    for table in tables:
        np.add(table.ptr, needs, out=ptr[things : things + len(table.ptr)], casting="unsafe")
        things, needs = things + len(table.ptr) - 1, needs + len(table.event)
    return _Work(
        offsets=plan.ops.offsets,
        rank=plan.ops.rank.view(np.uint32),
        duration=plan.duration,
        ptr=ptr,
        event=np.concatenate([table.event for table in tables], dtype=np.uint32, casting="unsafe"),
        route=plan.transfers.route.view(np.uint32),
        occupancy=plan.routes.occupancy,
        latency=plan.routes.latency,
    )


def _lanes(plan: Plan) -> _Lanes:
    ports = np.stack([plan.routes.egress, plan.routes.ingress], axis=1)
    used = ports[:, 0] != NONE
    pairs, lane = np.unique(ports[used], axis=0, return_inverse=True)
    of_route = np.full(len(ports), NONE, np.int32)
    of_route[used] = lane.ravel()
    by_port = np.argsort(pairs.ravel(), kind="stable")
    at_ptr = np.searchsorted(pairs.ravel()[by_port], np.arange(len(plan.ports) + 1))
    return _Lanes(of_route, pairs.astype(np.uint32), at_ptr.astype(np.uint32), (by_port // 2).astype(np.uint32))


@compiled
def _without_ports(work: _Work, moment: Longs) -> None:
    """Fill in ``moment`` of every thing: run each rank as far as it gets, then those that waited for it.

    A transfer is looked at when an op asks for it, or at last. It may wait for transfers, which are looked at first:
    they are on a stack, the rank's own op below them. A rank that can't go on is kept with the rank that it waits for.
    """
    offsets, rank_of, duration, ptr, event, route, occupancy, latency = work
    n, t, ranks = len(duration), len(route), len(offsets) - 1
    at = offsets.copy()  # the last place in this and the next two columns is for transfers that no op asks for
    seen = np.zeros(ranks + 1, np.int64)  # the next need of each rank's op to look at, and the latest one before it
    latest = np.zeros(ranks + 1, np.int64)
    for rank in range(ranks):
        seen[rank] = ptr[at[rank]]
    awaited = np.empty(ranks, np.int64)
    waiter = np.full(ranks + 1, NONE, np.int64)
    next_waiter = np.full(ranks, NONE, np.int64)
    stack = np.empty(t + 1, np.int64)
    runnable = np.arange(ranks)[::-1].copy()
    tasks, asked = ranks, 0
    while tasks or asked < t:
        depth, missing = 0, NEVER
        if tasks:
            tasks -= 1
            rank = runnable[tasks]
            row, stop = at[rank], offsets[rank + 1]
            thing, need, when = row if moment[row] < 0 else n + row, seen[rank], latest[rank]
        else:
            rank, row, stop, thing = ranks, n, n, 2 * n + asked
            asked += 1
            if moment[thing] < 0:
                depth, stack[1], need, when = 1, thing, int(ptr[thing]), 0
        while depth or row < stop:
            missing = NEVER
            while need < ptr[thing + 1]:
                cause, delay = int(event[need]), 0
                if cause >= 2 * n + t:
                    arrives = cause >= 2 * n + 2 * t
                    cause -= 2 * t if arrives else t
                    used = route[cause - 2 * n]
                    delay = int(occupancy[used] + (latency[used] if arrives else 0))
                if moment[cause] < 0:
                    missing = cause
                    break
                when = max(when, moment[cause] + delay)
                need += 1
            if depth == 0 and missing != NEVER:
                seen[rank], latest[rank] = need, when
            if missing == NEVER:
                moment[thing] = when
                if thing < n:
                    when += duration[row]
                    thing += n
                    need = int(ptr[thing])
                elif thing < 2 * n:
                    row += 1
                    thing = row
                    need = int(ptr[thing])
                else:
                    depth -= 1
                    if depth:
                        thing = stack[depth]
                        need, when = int(ptr[thing]), 0
                    else:
                        thing, need, when = row if moment[row] < 0 else n + row, seen[rank], latest[rank]
            elif missing < 2 * n or depth == t:  # an op; or transfers that wait for each other
                break
            else:
                depth += 1
                stack[depth] = thing = missing
                need, when = int(ptr[thing]), 0
        if rank == ranks:
            continue
        at[rank] = row
        if NEVER < missing < 2 * n:
            other = rank_of[missing - n if missing >= n else missing]
            awaited[rank], next_waiter[rank], waiter[other] = missing, waiter[other], rank
        following, waiter[rank] = waiter[rank], NONE
        while following != NONE:
            other, following = following, next_waiter[following]
            if moment[awaited[other]] >= 0:
                runnable[tasks] = other
                tasks += 1
            else:
                next_waiter[other], waiter[rank] = waiter[rank], other


@compiled
def _with_ports(work: _Work, lanes: _Lanes, moment: Longs, transfer_start: Longs) -> None:
    """Fill in ``moment`` of every thing and ``transfer_start``: one instant after the other, each until it has settled.

    The transfers that wait on a lane are a list, in their order. Only the first can be next: once it has started, the
    ports of all the others are taken.
    """
    offsets, rank_of, duration, ptr, event, route, occupancy, latency = work
    lane_of, ports, lanes_ptr, lanes_at = lanes
    n, t, ranks = len(duration), len(route), len(offsets) - 1
    first, waiting = _waiting(2 * n + 3 * t, ptr, event)
    begins = first[0] < first[n]  # whether anything waits for events of a kind at all
    starts = first[2 * n] < first[2 * n + t]
    leaves = first[2 * n + t] < first[2 * n + 2 * t]
    held = ptr[n] < ptr[2 * n]
    for thing in range(2 * n + t):
        moment[thing] = NEVER - (ptr[thing + 1] - ptr[thing])
    at = offsets[:-1].copy()
    busy = np.zeros(ranks, np.bool_)
    taken = np.zeros(len(lanes_ptr) - 1, np.bool_)
    head = np.full(len(ports), NONE, np.int32)
    tail = np.full(len(ports), NONE, np.int32)
    before = np.empty(t, np.int32)
    after = np.empty(t, np.int32)
    is_touched = np.zeros(len(ports), np.bool_)
    touched = np.empty(len(ports), np.uint32)  # lanes that may have one to start
    turns = np.empty((len(ports), 2), np.int64)  # the first of each of those: (ready time, transfer)
    heap = np.empty((ranks + t, 2), np.int64)  # what will end, leave or arrive: (time, event)
    met = np.empty(2 * n + t + ranks, np.uint32)  # things whose needs are all met, to be looked at in this instant
    touches = coming = things = 0
    for rank in range(ranks):
        if offsets[rank] < offsets[rank + 1]:
            met[things] = offsets[rank]
            things += 1
    for thing in range(2 * n, 2 * n + t):
        if moment[thing] == NEVER:
            met[things] = thing
            things += 1
    now = 0
    while True:
        while things or (coming and heap[0, 0] == now):
            if not things:  # something ends, leaves or arrives
                happened = heap[0, 1]
                coming = pop(heap, coming)
                if happened < 2 * n:
                    busy[rank_of[happened - n]] = False
                    met[things] = happened
                    things += 1
                    continue
                if leaves or happened >= 2 * n + 2 * t:
                    things = _tell(happened, first, waiting, moment, met, things)
                if happened >= 2 * n + 2 * t:
                    continue
                used = route[happened - 2 * n - t]
                if latency[used]:
                    coming = push(heap, coming, now + latency[used], happened + t)
                else:
                    things = _tell(happened + t, first, waiting, moment, met, things)
                if lane_of[used] == NONE:
                    continue
                for side in range(2):
                    port = ports[lane_of[used], side]
                    taken[port] = False
                    for k in range(lanes_ptr[port], lanes_ptr[port + 1]):
                        lane = lanes_at[k]
                        if head[lane] != NONE and not is_touched[lane]:
                            is_touched[lane] = True
                            touched[touches] = lane
                            touches += 1
                continue
            things -= 1
            thing = int(met[things])
            if thing < 2 * n:  # a rank may go on
                rank = rank_of[thing - n if thing >= n else thing]
                while at[rank] < offsets[rank + 1] and not busy[rank]:
                    row = at[rank]
                    if moment[row] < 0:
                        if moment[row] < NEVER:
                            break
                        moment[row] = now
                        if begins:
                            things = _tell(row, first, waiting, moment, met, things)
                        if duration[row]:
                            busy[rank] = True
                            coming = push(heap, coming, now + duration[row], n + row)
                            break
                    if held and moment[n + row] < NEVER:
                        break
                    moment[n + row] = now
                    at[rank] += 1
                    things = _tell(n + row, first, waiting, moment, met, things)
                continue
            moment[thing] = now  # a transfer is ready
            transfer = thing - 2 * n
            lane = lane_of[route[transfer]]
            if lane == NONE:
                transfer_start[transfer] = now
                if starts:
                    things = _tell(thing, first, waiting, moment, met, things)
                coming = push(heap, coming, now + occupancy[route[transfer]], thing + t)
                continue
            place = tail[lane]
            while place != NONE and place > transfer and moment[2 * n + place] == now:
                place = before[place]
            following = head[lane] if place == NONE else after[place]
            before[transfer], after[transfer] = place, following
            if place == NONE:
                head[lane] = transfer
            else:
                after[place] = transfer
            if following == NONE:
                tail[lane] = transfer
            else:
                before[following] = transfer
            if not is_touched[lane]:
                is_touched[lane] = True
                touched[touches] = lane
                touches += 1
        for k in range(touches):  # the settle pass
            lane = touched[k]
            is_touched[lane] = False
            turns[k, 0], turns[k, 1] = moment[2 * n + head[lane]], head[lane]
        sort(turns, touches)
        for k in range(touches):
            transfer = turns[k, 1]
            used = route[transfer]
            lane = lane_of[used]
            if taken[ports[lane, 0]] or taken[ports[lane, 1]]:
                continue
            taken[ports[lane, 0]] = taken[ports[lane, 1]] = True
            head[lane] = after[transfer]
            if head[lane] == NONE:
                tail[lane] = NONE
            else:
                before[head[lane]] = NONE
            transfer_start[transfer] = now
            if starts:
                things = _tell(2 * n + transfer, first, waiting, moment, met, things)
            coming = push(heap, coming, now + occupancy[used], 2 * n + t + transfer)
        touches = 0
        if not things:
            if not coming:
                break
            now = int(heap[0, 0])


@compiled
def _waiting(events: int, ptr: Numbers, event: Numbers) -> tuple[Numbers, Numbers]:
    """What waits for each event e: ``waiting[first[e]:first[e + 1]]``."""
    first = np.zeros(events + 1, np.uint32)
    waiting = np.empty(len(event), np.uint32)
    for awaited in event:
        first[awaited] += 1
    for e in range(events):
        first[e + 1] += first[e]
    for thing in range(len(ptr) - 1):
        for k in range(ptr[thing], ptr[thing + 1]):
            first[event[k]] -= 1
            waiting[first[event[k]]] = thing
    return first, waiting


@compiled
def _tell(happened: int, first: Numbers, waiting: Numbers, moment: Longs, met: Numbers, things: int) -> int:
    """An event has happened: those that wait for it have one need less; returns the number of things in ``met``."""
    for k in range(first[happened], first[happened + 1]):
        thing = waiting[k]
        moment[thing] += 1
        if moment[thing] == NEVER:
            met[things] = thing
            things += 1
    return things
