"""The compiled engine's loop where transfers have ports, and what it calls: a heap and a sort of pairs of numbers.

It is long on purpose: a call that hands over a dozen arrays costs more than an op. Importing this module needs Numba.
"""

from __future__ import annotations

import numpy as np

from ppsim._jit import compiled, part
from ppsim.engine.columns import Lanes, Order, Unsigned, Work
from ppsim.engine.room import Instant, Queues, Times
from ppsim.engine.timeline import NEVER
from ppsim.ops import NONE, Longs


@part
def push(heap: Longs, size: int, when: int, what: int) -> int:
    """Put a pair into a heap of pairs, by their first numbers; returns its new size."""
    place = size
    while place > 0:
        parent = (place - 1) // 2
        if heap[parent, 0] <= when:
            break
        heap[place, 0], heap[place, 1] = heap[parent, 0], heap[parent, 1]
        place = parent
    heap[place, 0], heap[place, 1] = when, what
    return size + 1


@part
def pop(heap: Longs, size: int) -> int:
    """Take the first pair, which has the least first number, out of a heap; returns its new size."""
    size -= 1
    when, what = heap[size, 0], heap[size, 1]
    place, child = 0, 1
    while child < size:
        if child + 1 < size and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if when <= heap[child, 0]:
            break
        heap[place, 0], heap[place, 1] = heap[child, 0], heap[child, 1]
        place, child = child, 2 * child + 1
    heap[place, 0], heap[place, 1] = when, what
    return size


@part
def sort(pairs: Longs, size: int) -> None:
    """Sort so many pairs by both numbers, in place, by Shell's method."""
    gap = size // 2
    while gap:
        for start in range(gap, size):
            when, what = pairs[start, 0], pairs[start, 1]
            place = start
            while place >= gap and (
                pairs[place - gap, 0] > when or (pairs[place - gap, 0] == when and pairs[place - gap, 1] > what)
            ):
                pairs[place, 0], pairs[place, 1] = pairs[place - gap, 0], pairs[place - gap, 1]
                place -= gap
            pairs[place, 0], pairs[place, 1] = when, what
        gap //= 2


@part
def tell(happened: int, first: Unsigned, waiting: Unsigned, moment: Longs, met: Unsigned, things: int) -> int:
    """An event has happened: those that wait for it have one need less; returns the number of things in ``met``."""
    for k in range(first[happened], first[happened + 1]):
        thing = waiting[k]
        moment[thing] += 1
        if moment[thing] == NEVER:
            met[things] = thing
            things += 1
    return things


@compiled
def with_ports(work: Work, lanes: Lanes, order: Order | None, room: tuple[Instant, Queues], times: Times) -> None:
    """Fill in the times: one instant after the other, each until it has settled.

    The transfers that wait on a lane are a list, in their order. Only the first can be next: once it has started, the
    ports of all the others are taken. Where there is no ``order``, what is about it isn't compiled.
    """
    offsets, rank_of, duration, ptr, _, route, occupancy, latency = work
    lane_of, ports, lanes_ptr, lanes_at = lanes
    instant, queues = room
    first, waiting, at, busy, heap, met = instant
    taken, head, tail, before, after, is_touched, touched, turns = queues
    moment, transfer_start = times
    if order is not None:
        mine, theirs, rivals_ptr, rivals, ties, waits_turn, has_left = order
    n, t, ranks = len(duration), len(route), len(offsets) - 1
    begins = first[0] < first[n]  # whether anything waits for events of a kind at all
    starts = first[2 * n] < first[2 * n + t]
    leaves = first[2 * n + t] < first[2 * n + 2 * t]
    held = ptr[n] < ptr[2 * n]
    for thing in range(2 * n + t):
        moment[thing] = NEVER - (ptr[thing + 1] - ptr[thing])
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
                if order is not None:
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
            if order is not None and mine[transfer] != NONE and not waits_turn[transfer]:
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
