"""A second opinion on an order: start and end of every op, and the activations alive, by a plain recurrence.

An oracle to set beside the simulator, so it shares nothing with it but the op tables (``ppsim.ops``): no plan, no
events, no ports. It knows links that only have a latency, recomputation that doesn't wait for the gradient, fused
pairs, and explicit SEND and RECV with buffered sends. EVICT and LOAD are ignored; kinds without a duration take none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from ppsim.ops import MOVES, Kind, Op, Ops

Durations = Callable[[Kind, int], int] | Mapping[str, int]
"""What an op of a kind on a stage takes; or by the kind's name, the same on all stages."""
Times = dict[Op, tuple[int, int]]

UNIT = {"F": 1, "B": 2, "I": 1, "W": 1, "R": 1}


def makespan(rows: Sequence[Ops], durations: Durations, latency: int = 0, atomic: bool = True) -> int | None:
    """When the last op ends; None where the order deadlocks (or an input is nowhere in it)."""
    found = times(rows, durations, latency, atomic)
    return None if found is None else max((end for _, end in found.values()), default=0)


def times(rows: Sequence[Ops], durations: Durations, latency: int = 0, atomic: bool = True) -> Times | None:
    """(start, end) of every op; None where the order deadlocks.

    ``atomic``: a fused pair waits for the inputs of both, takes the sum, and hands on both outputs at its end;
    otherwise it is its forward, then its backward.
    """
    duration_of = durations if callable(durations) else lambda kind, _: durations.get(kind.name, 0)
    todo = [list(_units(row, atomic)) for row in rows]
    home = {op: rank for rank, units in enumerate(todo) for unit in units for op in unit}
    last_stage = max((op.stage for op in home), default=0)
    done: Times = {}
    free = [0] * len(rows)
    position = [0] * len(rows)
    progress = True
    while progress:
        progress = False
        for rank, units in enumerate(todo):
            while position[rank] < len(units):
                unit = units[position[rank]]
                needs = [need for op in unit for need in _inputs(op, home, last_stage)]
                if not all(need in done for need in needs):
                    break
                arrivals = (done[need][1] + latency * (home[need] != rank) for need in needs)
                start = max(free[rank], *arrivals) if needs else free[rank]
                free[rank] = start + sum(duration_of(op.kind, op.stage) for op in unit)
                done.update((op, (start, free[rank])) for op in unit)
                position[rank] += 1
                progress = True
    return done if len(done) == len(home) else None


def peaks(rows: Sequence[Ops], until: Collection[str] = ("B", "I")) -> list[int]:
    """The most activations alive on each rank by list order: one more at each F, one less at each kind in ``until``."""
    most = []
    for row in rows:
        alive = highest = 0
        for op in row:
            alive += (op.kind == Kind.F) - (op.kind.name in until)
            highest = max(highest, alive)
        most.append(highest)
    return most


def _units(row: Ops, atomic: bool) -> Iterator[list[Op]]:
    """What runs as one: an op, or a fused pair."""
    pair: list[Op] = []
    for op, group in zip(row, row.group.tolist(), strict=True):
        if op.kind in MOVES:
            continue
        pair.append(op)
        if group < 0 or not atomic or len(pair) == 2:
            yield pair
            pair = []


def _inputs(op: Op, home: Collection[Op], last_stage: int) -> Iterator[Op]:
    """The ops whose end ``op`` waits for; a message's RECV, where the order spells it out, stands for its producer."""

    def at(kind: Kind, stage: int = op.stage) -> Op:
        return Op(kind, stage, op.microbatch)

    def either(first: Kind, second: Kind, stage: int = op.stage) -> Op:
        return at(first, stage) if at(first, stage) in home else at(second, stage)

    if op.kind == Kind.F and op.stage > 0:
        yield at(Kind.RECV_F) if at(Kind.RECV_F) in home else at(Kind.F, op.stage - 1)
    elif op.kind in (Kind.B, Kind.I):
        yield either(Kind.R, Kind.F)
        if op.stage < last_stage:
            yield at(Kind.RECV_B) if at(Kind.RECV_B) in home else either(Kind.B, Kind.I, op.stage + 1)
    elif op.kind == Kind.W:
        yield at(Kind.I)
    elif op.kind in (Kind.R, Kind.SEND_F):
        yield at(Kind.F)
    elif op.kind == Kind.SEND_B:
        yield either(Kind.B, Kind.I)
    elif op.kind == Kind.RECV_F:
        yield at(Kind.SEND_F, op.stage - 1)
    elif op.kind == Kind.RECV_B:
        yield at(Kind.SEND_B, op.stage + 1)
