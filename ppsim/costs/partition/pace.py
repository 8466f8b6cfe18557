"""How long a step takes by its order alone: ops one after the other on each rank, each when its inputs are there.

Good enough to choose between two splits: links are idle, every message takes its hop.
"""

from __future__ import annotations

from collections.abc import Sequence

from ppsim.costs.base import StageCosts
from ppsim.ops import Kind, Orders
from ppsim.units import to_ns

BACKWARD = (Kind.B, Kind.I)
COMPUTES = (Kind.F, Kind.B, Kind.I, Kind.W, Kind.R)
Done = dict[tuple[str, int, int], int]


def step_ns(orders: Orders, costs: StageCosts, hops: Sequence[int] = ()) -> int:
    """Nanoseconds from the first op to the end of the last; ``hops``: from each stage to the next (empty: none)."""
    taken = {kind: [to_ns(value) for value in costs.seconds(kind)] for kind in COMPUTES}
    waiting = [[op for op in table if op.kind in COMPUTES][::-1] for table in orders]
    clock, done, last = [0] * len(waiting), Done(), costs.stages - 1

    def inputs(kind: Kind, stage: int, microbatch: int) -> list[tuple[tuple[str, int, int], int]]:
        if kind == Kind.F:
            hop = hops[stage - 1] if hops and stage else 0
            return [(("F", stage - 1, microbatch), hop)] if stage else []
        if kind == Kind.W:
            return [(("B", stage, microbatch), 0)]
        own = [(("F", stage, microbatch), 0)]
        if kind == Kind.R or stage == last:
            return own
        return [*own, (("B", stage + 1, microbatch), hops[stage] if hops else 0)]

    moved = True
    while moved:
        moved = False
        for rank, queue in enumerate(waiting):
            while queue:
                kind, stage, microbatch = queue[-1].kind, queue[-1].stage, queue[-1].microbatch
                needed = inputs(kind, stage, microbatch)
                if any(name not in done for name, _ in needed):
                    break
                queue.pop()
                begin = max([clock[rank], *(done[name] + hop for name, hop in needed)])
                clock[rank] = begin + taken[kind][stage]
                if kind == Kind.F or kind in BACKWARD:
                    done["F" if kind == Kind.F else "B", stage, microbatch] = clock[rank]
                moved = True
    return max(clock)
