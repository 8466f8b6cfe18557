"""The semantics of the model of record over the Plan's arrays, compiled by Numba (extra ``fast``).

What waits is a *thing* with a number, as in the SimPy engine: op i to start i, op i to end n + i, transfer j to be
ready 2n + j. Where no transfer has ports, nothing depends on what else happens at the time: a moment is the latest of
those that it needs, and each rank runs as far as its inputs are known (``free_links``). Otherwise events happen
in the order of time, and the settle pass closes each instant (``ports``).

Importing this module needs Numba.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate, chain

import numpy as np

from ppsim.engine.columns import Lanes, Order, Work
from ppsim.engine.deadlock import explain
from ppsim.engine.free_links import without_ports
from ppsim.engine.ports import with_ports
from ppsim.engine.room import Agenda, Places, Ranks, Things, prepare
from ppsim.engine.timeline import NEVER, Recorded, Timeline, finished
from ppsim.engine.watch import Watch
from ppsim.errors import ConfigError
from ppsim.ops import NONE, Longs
from ppsim.plan.table import Plan

MOST_EVENTS = 2**31 - 1
"""As many as the loops can number."""


def run(plan: Plan, watch: Watch | None = None) -> Timeline:
    """Simulate the plan. Raises DeadlockError where ranks wait for ever."""
    _keep_freed_memory()
    n, t, work = len(plan.ops), len(plan.transfers), _work(plan)
    room = np.empty(2 * n + 3 * t, np.int64)
    start, end, transfer_start = room[:n], room[n : 2 * n], room[2 * n : 2 * n + t]
    if not plan.ports and plan.turns is None:
        room[: 2 * n + t] = NEVER
        _report(end, watch)
        without_ports(work, Ranks.of(work), room[: 2 * n + t])
        ready = transfer_start  # nothing to wait for
    else:
        lanes = _lanes(plan)
        things, places, agenda = Things.of(work), Places.of(work, lanes), Agenda.of(work, lanes)
        acts = prepare(work, things, agenda.met)
        _report(things.ops["end"], watch)
        with_ports(work, lanes, (things, places, agenda), acts, _order(plan))
        start[:], end[:], transfer_start[:] = things.ops["start"], things.ops["end"], things.transfers["start"]
        ready = things.transfers["ready"].copy()
    times = Recorded(start, end, ready, transfer_start)
    if room[: 2 * n + t].min(initial=0) < 0:
        np.maximum(room[: 2 * n + t], NEVER, out=room[: 2 * n + t])
        raise explain(plan, times)
    return finished(plan, times, compiled=True, room=room)


def _report(end: Longs, watch: Watch | None) -> None:
    """Have the watch look at how many ops have ended."""
    if watch is not None:
        watch.at("simulation", lambda: np.count_nonzero(end >= 0) / max(len(end), 1))


@cache
def _keep_freed_memory() -> None:
    """Have glibc keep up to 64 MiB that are freed, for the arrays to come, where it would ask the system for each.

    That is what it does once a block of that size has been given back (mallopt(3), M_MMAP_THRESHOLD); the block isn't
    touched. Without it the plans and metrics of further runs take up to a quarter longer (131,072 ops, with ports).
    """
    np.empty(31 * 2**20, np.int8)


def _work(plan: Plan) -> Work:
    tables = (plan.start_needs, plan.end_needs, plan.transfers.needs)
    if plan.events.count > MOST_EVENTS:
        raise ConfigError(f"engine: 'compiled' can number 2 billion events, here are {plan.events.count}; use 'simpy'")
    ptr = np.zeros(2 * len(plan.ops) + len(plan.transfers) + 1, np.uint32)
    things = needs = 0
    for table in tables:
        np.add(table.ptr, needs, out=ptr[things : things + len(table.ptr)], casting="unsafe")
        things, needs = things + len(table.ptr) - 1, needs + len(table.event)
    return Work(
        offsets=plan.ops.offsets,
        rank=plan.ops.rank.view(np.uint32),
        duration=plan.duration,
        ptr=ptr,
        event=np.concatenate([table.event for table in tables], dtype=np.uint32, casting="unsafe"),
        route=plan.transfers.route.view(np.uint32),
        occupancy=plan.routes.occupancy,
        latency=plan.routes.latency,
    )


def _lanes(plan: Plan) -> Lanes:
    """Lanes in the order in which routes come to them. Lists: most runs have a few dozen routes."""
    lane = {(NONE, NONE): NONE}
    at: list[list[int]] = [[] for _ in plan.ports]
    pairs = list(zip(plan.routes.egress.tolist(), plan.routes.ingress.tolist(), strict=True))
    of_route = [lane.setdefault(pair, len(lane) - 1) for pair in pairs]
    ports = list(lane)[1:]
    for number, (egress, ingress) in enumerate(ports):
        at[egress].append(number)
        at[ingress].append(number)
    return Lanes(
        np.array(of_route, np.int32),
        np.array(ports, np.uint32).reshape(-1, 2),
        np.array([0, *accumulate(map(len, at))], np.uint32),
        np.array(list(chain.from_iterable(at)), np.uint32),
    )


def _order(plan: Plan) -> Order | None:
    turns = plan.turns
    if turns is None:
        return None
    ptr, rivals = turns.rivals.ptr.astype(np.uint32), turns.rivals.event.astype(np.uint32)
    waits, left = np.zeros((2, len(turns.mine)), np.bool_)
    return Order(turns.mine, turns.theirs, ptr, rivals, turns.ties, waits, left)
