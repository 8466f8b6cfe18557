"""The compiled engine's two loops: without ports, and with them.

They are long on purpose: a call that hands over a dozen arrays costs more than an op. Importing this module needs
Numba.
"""

from __future__ import annotations

import numpy as np

from ppsim._jit import compiled
from ppsim.engine.columns import Lanes, Order, Work
from ppsim.engine.pairs import pop, push, sort, tell, waiting_for
from ppsim.engine.timeline import NEVER
from ppsim.ops import NONE, Longs


@compiled
def without_ports(work: Work, moment: Longs) -> None:
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
def with_ports(work: Work, lanes: Lanes, order: Order, moment: Longs, transfer_start: Longs) -> None:
    """Fill in ``moment`` of every thing and ``transfer_start``: one instant after the other, each until it has settled.

    The transfers that wait on a lane are a list, in their order. Only the first can be next: once it has started, the
    ports of all the others are taken.
    """
    offsets, rank_of, duration, ptr, event, route, occupancy, latency = work
    lane_of, ports, lanes_ptr, lanes_at = lanes
    mine, theirs, rivals_ptr, rivals, ties = order
    waits_turn = np.zeros(len(mine), np.bool_)  # by transfer; of no length where none takes turns
    has_left = np.zeros(len(mine), np.bool_)
    n, t, ranks = len(duration), len(route), len(offsets) - 1
    first, waiting = waiting_for(2 * n + 3 * t, ptr, event)
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
    touches = coming = things = int(np.int64(0))  # of a plain 0 all that is called would be compiled a second time
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
                    things = tell(happened, first, waiting, moment, met, things)
                if happened >= 2 * n + 2 * t:
                    continue
                used = route[happened - 2 * n - t]
                if len(mine):
                    has_left[happened - 2 * n - t] = True
                    for k in range(rivals_ptr[happened - 2 * n - t], rivals_ptr[happened - 2 * n - t + 1]):
                        if waits_turn[rivals[k]]:
                            moment[2 * n + rivals[k]] += 1
                            if moment[2 * n + rivals[k]] == NEVER:
                                met[things] = 2 * n + rivals[k]
                                things += 1
                if latency[used]:
                    coming = push(heap, coming, now + latency[used], happened + t)
                else:
                    things = tell(happened + t, first, waiting, moment, met, things)
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
            thing = int(np.int64(met[things]))
            if thing < 2 * n:  # a rank may go on
                rank = rank_of[thing - n if thing >= n else thing]
                while at[rank] < offsets[rank + 1] and not busy[rank]:
                    row = at[rank]
                    if moment[row] < 0:
                        if moment[row] < NEVER:
                            break
                        moment[row] = now
                        if begins:
                            things = tell(row, first, waiting, moment, met, things)
                        if duration[row]:
                            busy[rank] = True
                            coming = push(heap, coming, now + duration[row], n + row)
                            break
                    if held and moment[n + row] < NEVER:
                        break
                    moment[n + row] = now
                    at[rank] += 1
                    things = tell(n + row, first, waiting, moment, met, things)
                continue
            transfer = thing - 2 * n
            if len(mine) and mine[transfer] != NONE and not waits_turn[transfer]:
                since, other = moment[n + mine[transfer]], moment[n + theirs[transfer]]
                if 0 <= since < other or (ties and since == other and mine[transfer] > theirs[transfer]):
                    for k in range(rivals_ptr[transfer], rivals_ptr[transfer + 1]):
                        if not has_left[rivals[k]]:
                            moment[thing] -= 1
                    waits_turn[transfer] = True
                    if moment[thing] < NEVER:
                        continue
            moment[thing] = now  # a transfer is ready
            lane = lane_of[route[transfer]]
            if lane == NONE:
                transfer_start[transfer] = now
                if starts:
                    things = tell(thing, first, waiting, moment, met, things)
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
                things = tell(2 * n + transfer, first, waiting, moment, met, things)
            coming = push(heap, coming, now + occupancy[used], 2 * n + t + transfer)
        touches = 0
        if not things:
            if not coming:
                break
            now = int(heap[0, 0])
