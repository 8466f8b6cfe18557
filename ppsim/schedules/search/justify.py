"""Justification: an order is played backwards in time, then forwards again, and gaps are filled each time.

Played backwards, every op runs as late as it may, which is right for the end of a step as the forward way is for its
start. In either direction a rank follows its order; while the next op isn't ready, a later one that is ready, fits the
gap and leaves room for those it overtakes goes first.
Source: Valls, Ballestín and Quintanilla 2005, Justification and RCPSP: a technique that pays, EJOR 165.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush

import numpy as np

from ppsim._jit import Loop
from ppsim.schedules.search.instance import Instance, Ints, Sequence, column

NEVER = 1 << 62
NONE = -1
WINDOW = 32
"""How far ahead in its order a rank looks for an op that fills a gap."""


@dataclass(frozen=True, eq=False)
class Graph:
    """What each op waits for and takes, in one direction of time, by op number.

    ``inputs`` are how many ops it waits for, ``own`` the op of its rank that waits for it, ``other`` the op of the
    neighbouring stage that does so, ``lag`` the way there in ns, ``take`` and ``give`` memory at its start and end;
    ``limit`` is what each rank has of it.
    """

    compiled: bool
    """Whether they are arrays, for a loop that Numba compiles."""
    rank: Ints
    duration: Ints
    inputs: Ints
    own: Ints
    other: Ints
    lag: Ints
    take: Ints
    give: Ints
    limit: Ints


def graphs(instance: Instance) -> tuple[Graph, Graph]:
    """The ops as they are, and in reversed time."""
    S, m = instance.stages, instance.microbatches
    kind, stage, microbatch = (axis.ravel() for axis in np.indices((3, S, m)))
    hop = np.array(instance.hop)
    take, keep = np.array(instance.memory.take)[stage], np.array(instance.memory.keep)[stage]

    def op(k: np.ndarray, s: np.ndarray, where: np.ndarray) -> np.ndarray:
        return np.where(where, (k * S + s) * m + microbatch, NONE)

    forward, backward = kind == 0, kind == 1
    after_own, before_own = op(kind + 1, stage, kind < 2), op(kind - 1, stage, kind > 0)
    up, down = stage + 1, stage - 1
    after_other = np.where(forward, op(kind, up, up < S), op(kind, down, backward & (down >= 0)))
    before_other = np.where(forward, op(kind, down, down >= 0), op(kind, up, backward & (up < S)))
    above, below = hop[np.minimum(stage, S - 1)], hop[np.maximum(down, 0)]
    starts, ends = np.where(forward, take, 0), np.select([backward, kind == 2], [take - keep, keep], 0)
    rank = np.array(instance.rank_of)[stage]
    duration = np.array(instance.duration, np.int64)[kind * S + stage]

    there = (after_own, after_other, np.where(forward, above, below), starts)
    back = (before_own, before_other, np.where(forward, below, above), ends)

    def graph(way: tuple[np.ndarray, ...], other_way: tuple[np.ndarray, ...]) -> Graph:
        own, other, lag, taken = way
        inputs = (other_way[0] >= 0).astype(int) + (other_way[1] >= 0)
        columns = (rank, duration, inputs, own, other, lag, taken, other_way[3], np.array(instance.memory.limit))
        return Graph(instance.compiled, *(column(c.tolist(), instance.compiled) for c in columns))

    return graph(there, back), graph(back, there)


def play(
    graph: Graph, order: Sequence, release: Ints, tolerance: int, window: int = WINDOW
) -> tuple[Sequence, int, int]:
    """Play an order, from when each rank is released: (the order as played, its makespan, the longest span).

    ``tolerance`` in ns is how much longer than its gap an op may be; with a ``window`` of 0 gaps stay. What was played
    is shorter than ``order`` where that gets stuck, which is so only where it needs more memory than there is.
    """
    flat = partial(column, compiled=graph.compiled)
    return _play.run(graph.compiled)(
        graph.rank, graph.duration, graph.inputs, graph.own, graph.other, graph.lag, graph.take, graph.give,
        flat(order), graph.limit, flat(release), tolerance, window,
    )  # fmt: skip


@partial(Loop, makes=True)
def _play(
    rank: Ints, duration: Ints, inputs: Ints, own: Ints, other: Ints, lag: Ints, take: Ints, give: Ints,
    order: Ints, limit: Ints, release: Ints, tolerance: int, window: int,
) -> tuple[Sequence, int, int]:  # fmt: skip
    """``play`` on flat columns: this is the loop that takes the time."""
    n, ranks = len(rank), len(limit)
    following = [NONE] * (n + ranks)  # each rank's list of ops still to come; its head stands at n + rank
    tail = list(range(n, n + ranks))
    for op in order:
        following[tail[rank[op]]] = op
        tail[rank[op]] = op
    missing = inputs.copy()
    ready = [0] * n  # when the inputs that are there came
    free, used = release.copy(), [0] * ranks
    begun = [NONE] * ranks
    events = [release[r] * ranks + r for r in range(ranks)]  # when to look at which rank
    heapify(events)
    played: Sequence = []
    while events:
        now, r = divmod(heappop(events), ranks)
        if free[r] > now:
            continue
        before = n + r
        head = following[before]
        if head == NONE:
            continue
        room = limit[r] - used[r]
        chosen = NONE
        if not missing[head] and ready[head] <= now and take[head] <= room:
            chosen = head
        else:
            waits_for_time = not missing[head] and ready[head] > now
            gap = ready[head] - now + tolerance if waits_for_time else NEVER
            # Memory in use before each op that is overtaken, and the most of it at once, both above what is used now.
            above, most = 0, 0
            op, previous = head, before
            for _ in range(window):
                if take[op] + above > most:
                    most = take[op] + above
                above += take[op] - give[op]
                previous, op = op, following[op]
                if op == NONE:
                    break
                if missing[op] or ready[op] > now or duration[op] > gap:
                    continue
                if not take[op] or (take[op] <= room and most + take[op] - give[op] <= room):
                    chosen, before = op, previous
                    break
            if chosen == NONE:
                continue
        following[before] = following[chosen]
        used[r] += take[chosen] - give[chosen]
        if begun[r] == NONE:
            begun[r] = now
        end = now + duration[chosen]
        free[r] = end
        played.append(chosen)
        heappush(events, end * ranks + r)
        op = own[chosen]
        if op >= 0:
            missing[op] -= 1
            if end > ready[op]:
                ready[op] = end
            elif not missing[op]:
                heappush(events, ready[op] * ranks + r)
        op = other[chosen]
        if op >= 0:
            missing[op] -= 1
            there = end + lag[chosen]
            if there > ready[op]:
                ready[op] = there
            target = rank[op]
            if not missing[op] and ready[op] >= free[target]:
                heappush(events, ready[op] * ranks + target)
    makespan = span = 0
    for r in range(ranks):
        makespan = max(makespan, free[r])
        if begun[r] != NONE:
            span = max(span, free[r] - begun[r])
    return played, makespan, span
