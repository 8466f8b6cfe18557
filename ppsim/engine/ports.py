"""The compiled engine's loop where transfers have ports, and what it calls.

It is long on purpose: a call that hands over a dozen arrays costs more than an op. Importing this module needs Numba.
"""

from __future__ import annotations

from ppsim._jit import compiled, part
from ppsim.engine.columns import Lanes, Order, Records, Work
from ppsim.engine.prefetch import prefetch
from ppsim.engine.room import Agenda, Places, Things
from ppsim.engine.timeline import NEVER
from ppsim.ops import NONE

AHEAD = 3
"""How many ops before it is needed one is fetched: two lie in a line, and the first of them is the next one's."""


@part
def push(heap: Records, size: int, when: int, what: int) -> int:
    """Put a pair into a heap of pairs, by their first numbers; returns its new size."""
    place = size
    while place > 0:
        parent = (place - 1) // 2
        if heap[parent].when <= when:
            break
        heap[place].when, heap[place].what = heap[parent].when, heap[parent].what
        place = parent
    heap[place].when, heap[place].what = when, what
    return size + 1


@part
def replace(heap: Records, size: int, when: int, what: int) -> None:
    """Put a pair into a heap of that size in the place of its first, which has the least first number."""
    heap[size].when = when  # so that there is a second child always
    place, child = 0 * size, 1 + 0 * size  # of plain 0 and 1 Numba would work out all types a second time
    while child < size:
        child += heap[child + 1].when < heap[child].when  # a branch would be guessed wrong half of the time
        if when <= heap[child].when:
            break
        heap[place].when, heap[place].what = heap[child].when, heap[child].what
        place, child = child, 2 * child + 1
    heap[place].when, heap[place].what = when, what


@part
def sort(pairs: Records, size: int) -> None:
    """Sort so many pairs by both numbers, in place, by Shell's method."""
    gap = size // 2
    while gap:
        for start in range(gap, size):
            when, what = pairs[start].when, pairs[start].what
            place = start
            while place >= gap and (
                pairs[place - gap].when > when or (pairs[place - gap].when == when and pairs[place - gap].what > what)
            ):
                pairs[place].when, pairs[place].what = pairs[place - gap].when, pairs[place - gap].what
                place -= gap
            pairs[place].when, pairs[place].what = when, what
        gap //= 2


@compiled
def with_ports(work: Work, lanes: Lanes, room: tuple[Things, Places, Agenda], acts: int, order: Order | None) -> None:
    """Fill in the times: one instant after the other, each until it has settled.

    Who acts has a number: with p ranks, rank r is r, transfer j is p + j, and put off p + 2j to leave, p + 2j + 1 to
    arrive. The transfers that wait on a lane are a list, in their order. Only the first can be next: once it has
    started, the ports of all the others are taken. Where there is no ``order``, what is about it isn't compiled.
    """
    offsets, _, _, _, _, _, occupancy, latency = work
    lane_of, ports, lanes_ptr, lanes_at = lanes
    things, places, agenda = room
    ops, transfers, waiter, lists, awaited = things
    at, busy, due, behind, taken, head, tail, is_touched = places
    told, new, met, queues, heap, turns = agenda
    begins, starts, leaves = awaited[0], awaited[1], awaited[2]
    if order is not None:
        mine, theirs, rivals_ptr, rivals, ties, waits_turn, has_left = order
    n, t, p, q = len(ops), len(transfers), len(at), len(queues)
    tells = news = touches = coming = now = 0 * acts  # of a plain 0 all types would be worked out a second time
    while True:
        while tells:  # what waits for what has happened has one need less
            tells -= 1
            waits = told[tells]
            for k in range(1 if waits >= 0 else lists[~waits]):
                thing = waits if waits >= 0 else lists[~waits + 1 + k]
                if thing >= 2 * n:
                    transfer = transfers[thing - 2 * n]
                    transfer.ready += 1
                    if transfer.ready == NEVER:
                        met[acts] = p + thing - 2 * n
                        acts += 1
                    continue
                op = ops[thing - n if thing >= n else thing]
                if thing < n:
                    op.start += 1
                else:
                    op.end += 1
                if (op.start if thing < n else op.end) == NEVER:
                    met[acts] = op.rank
                    acts += 1
        for k in range(news):  # what takes some time goes to a queue, or into the heap
            delay, who = new[k].when, new[k].what
            number, when = (delay * 0x9E3779B1 >> 16) & (q - 1), now + delay
            queue = queues[number]
            if queue.first == NONE:
                queue.first = who
                coming = push(heap, coming, when, number)
            elif queue.due > when:
                coming = push(heap, coming, when, q + who)
                continue
            elif queue.last < p:
                behind[queue.last] = who
            else:
                transfers[(queue.last - p) >> 1].after = who
            queue.last = who
            queue.due = when
        news = 0 * acts
        if acts:
            acts -= 1
            who = met[acts]
            if who < p:  # a rank may go on
                while at[who] < offsets[who + 1] and not busy[who]:
                    row = at[who]
                    op = ops[row]
                    if op.start < 0:
                        if op.start < NEVER:
                            break
                        op.start = now
                        if begins:
                            told[tells] = waiter[row]
                            tells += 1
                        if op.duration:
                            prefetch(ops, row + AHEAD)
                            prefetch(transfers, op.waiter - 2 * n)
                            busy[who] = True
                            due[who] = now + op.duration
                            new[news].when, new[news].what = op.duration, who
                            news += 1
                            break
                    if op.end < NEVER:
                        break
                    op.end = now
                    at[who] += 1
                    told[tells] = op.waiter
                    tells += 1
                continue
            j = who - p
            transfer = transfers[j]
            if order is not None and mine[j] != NONE and not waits_turn[j]:
                since, other = ops[mine[j]].end, ops[theirs[j]].end
                if 0 <= since < other or (ties and since == other and mine[j] > theirs[j]):
                    for k in range(rivals_ptr[j], rivals_ptr[j + 1]):
                        if not has_left[rivals[k]]:
                            transfer.ready -= 1
                    waits_turn[j] = True
                    if transfer.ready < NEVER:
                        continue
            transfer.ready = now
            lane = lane_of[transfer.route]
            if lane == NONE:
                transfer.start = now
                if starts:
                    told[tells] = waiter[2 * n + j]
                    tells += 1
                new[news].when, new[news].what = occupancy[transfer.route], p + 2 * j
                news += 1
                continue
            place = tail[lane]
            while place != NONE and place > j and transfers[place].ready == now:
                place = transfers[place].before
            after = head[lane] if place == NONE else transfers[place].after
            transfer.before, transfer.after = place, after
            if place == NONE:
                head[lane] = j
            else:
                transfers[place].after = j
            if after == NONE:
                tail[lane] = j
            else:
                transfers[after].before = j
            if not is_touched[lane]:
                is_touched[lane] = True
                turns[touches].what = lane
                touches += 1
        elif coming and heap[0].when == now:  # something ends, leaves or arrives
            number = heap[0].what
            who, following, when = number - q, NONE, now
            if number < q:
                queue = queues[number]
                who = queue.first
                if who != queue.last:
                    following = behind[who] if who < p else transfers[(who - p) >> 1].after
                    if following < p:
                        when = due[following]
                    else:
                        transfer = transfers[(following - p) >> 1]
                        when = transfer.start + occupancy[transfer.route]
                        when += latency[transfer.route] if (following - p) & 1 else 0
                queue.first = following
            if following == NONE:
                coming -= 1
                replace(heap, coming, heap[coming].when, heap[coming].what)
            elif when > now:
                replace(heap, coming, when, number)
            if who < p:
                busy[who] = False
                met[acts] = who
                acts += 1
                continue
            j = (who - p) >> 1
            transfer = transfers[j]
            flight, lane = latency[transfer.route], lane_of[transfer.route]
            if (who - p) & 1 or not flight:
                told[tells] = transfer.waiter
                tells += 1
            if (who - p) & 1:
                continue
            if leaves:
                told[tells] = waiter[2 * n + t + j]
                tells += 1
            if order is not None:
                has_left[j] = True
                for k in range(rivals_ptr[j], rivals_ptr[j + 1]):
                    rival = rivals[k]
                    if waits_turn[rival]:
                        transfers[rival].ready += 1
                        if transfers[rival].ready == NEVER:
                            met[acts] = p + rival
                            acts += 1
            if flight:
                new[news].when, new[news].what = flight, who + 1
                news += 1
            if lane == NONE:
                continue
            for side in range(2):
                port = ports[lane, side]
                taken[port] = False
                for k in range(lanes_ptr[port], lanes_ptr[port + 1]):
                    other = lanes_at[k]
                    if head[other] != NONE and not is_touched[other]:
                        is_touched[other] = True
                        turns[touches].what = other
                        touches += 1
        elif touches:  # the settle pass
            able = 0 * touches
            for k in range(touches):
                lane = turns[k].what
                is_touched[lane] = False
                if not (taken[ports[lane, 0]] or taken[ports[lane, 1]]):
                    turns[able].when, turns[able].what = transfers[head[lane]].ready, head[lane]
                    able += 1
            touches = 0
            sort(turns, able)
            for k in range(able):
                j = turns[k].what
                transfer = transfers[j]
                lane = lane_of[transfer.route]
                if taken[ports[lane, 0]] or taken[ports[lane, 1]]:
                    continue
                taken[ports[lane, 0]] = taken[ports[lane, 1]] = True
                head[lane] = transfer.after
                if head[lane] == NONE:
                    tail[lane] = NONE
                else:
                    transfers[head[lane]].before = NONE
                transfer.start = now
                if starts:
                    told[tells] = waiter[2 * n + j]
                    tells += 1
                new[news].when, new[news].what = occupancy[transfer.route], p + 2 * j
                news += 1
        elif coming:
            now = heap[0].when
        else:
            break
