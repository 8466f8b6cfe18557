"""What the compiled loops are made of: a heap and a sort of pairs of numbers, and who waits for which event."""

from __future__ import annotations

import numpy as np

from ppsim._jit import compiled
from ppsim.engine.columns import Unsigned
from ppsim.engine.timeline import NEVER
from ppsim.ops import Longs


@compiled
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


@compiled
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


@compiled
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


@compiled
def waiting_for(events: int, ptr: Unsigned, event: Unsigned) -> tuple[Unsigned, Unsigned]:
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
def tell(happened: int, first: Unsigned, waiting: Unsigned, moment: Longs, met: Unsigned, things: int) -> int:
    """An event has happened: those that wait for it have one need less; returns the number of things in ``met``."""
    for k in range(first[happened], first[happened + 1]):
        thing = waiting[k]
        moment[thing] += 1
        if moment[thing] == NEVER:
            met[things] = thing
            things += 1
    return things
