"""The compiled engine's loop where no transfer has ports: each rank runs as far as its inputs are known.

It is long on purpose, as ``ports`` is. Importing this module needs Numba.
"""

from __future__ import annotations

from ppsim._jit import compiled
from ppsim.engine.columns import Work
from ppsim.engine.room import Ranks
from ppsim.engine.timeline import NEVER
from ppsim.ops import NONE, Longs


@compiled
def without_ports(work: Work, room: Ranks, moment: Longs) -> None:
    """Fill in ``moment`` of every thing: run each rank as far as it gets, then those that waited for it.

    A transfer is looked at when an op asks for it, or at last. It may wait for transfers, which are looked at first:
    they are on a stack, the rank's own op below them. A rank that can't go on is kept with the rank that it waits for.
    """
    offsets, rank_of, duration, ptr, event, route, occupancy, latency = work
    at, seen, latest, awaited, waiter, next_waiter, runnable, stack = room
    n, t, ranks = len(duration), len(route), len(offsets) - 1
    tasks, asked = ranks, 0 * ranks  # of a plain 0 Numba would work out all types a second time
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
