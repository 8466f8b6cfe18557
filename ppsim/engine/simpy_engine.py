"""The model of record: a SimPy process per rank, and one per transfer that takes time.

Nothing here decides anything: the Plan says what every op and transfer waits for. The one rule of its own is how ports
are granted. At one instant everything that ends, leaves or arrives does so first, then ops start; a *settle* event of
lowest priority closes the instant and lets transfers take their ports in the order (ready time, row of the issuer).
Transfers are numbered by their issuers' rows, so that (ready time, number) is that order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from heapq import heappop, heappush
from typing import Any

import numpy as np
import simpy
from simpy.events import Event, EventPriority

from ppsim.engine.deadlock import explain
from ppsim.engine.timeline import NEVER, Timeline, finished
from ppsim.engine.watch import Watch
from ppsim.ops import NONE
from ppsim.plan.table import Plan, Routes

LAST = EventPriority(2)
"""SimPy's own priorities are 0 and 1: an event of this one is the last of its instant."""

Process = Generator[Event, Any, None]
Times = list[int | float]
"""Moments on SimPy's clock; ours are whole nanoseconds."""


def run(plan: Plan, watch: Watch | None = None) -> Timeline:
    """Simulate the plan. Raises DeadlockError where ranks wait for ever."""
    simulation = _Run(plan)
    if watch is not None:
        watch.at("simulation", lambda: 1 - simulation.end.count(NEVER) / max(len(plan.ops), 1))
    return simulation.timeline()


class _Run:
    """The state of one simulation. Things that wait are numbered: op i to start i, to end n + i, transfer j 2n + j."""

    def __init__(self, plan: Plan) -> None:
        n, t = len(plan.ops), len(plan.transfers)
        self.plan, self.n, self.t, self.events = plan, n, t, plan.events.count
        self.env = simpy.Environment()
        self.duration: list[int] = plan.duration.tolist()
        needs = (plan.start_needs, plan.end_needs, plan.transfers.needs)
        self.pending: list[int] = np.concatenate([table.counts for table in needs]).tolist()
        event = np.concatenate([table.event for table in needs])
        thing = np.concatenate([table.owner + base for table, base in zip(needs, (0, n, 2 * n), strict=True)])
        self.waiting: list[int] = thing[np.argsort(event, kind="stable")].tolist()
        """What waits for event 0, then what waits for event 1, …; event e's part begins at ``first[e]``."""
        self.first: list[int] = np.cumsum(np.bincount(event + 1, minlength=self.events + 1)).tolist()
        self.gates: dict[int, Event] = {}
        self.start: Times = [NEVER] * n
        self.end: Times = [NEVER] * n
        self.ready: Times = [NEVER] * t
        self.transfer_start: Times = [NEVER] * t
        self.route: list[int] = plan.transfers.route.tolist()
        self.occupancy: list[int] = plan.routes.occupancy.tolist()
        self.latency: list[int] = plan.routes.latency.tolist()
        self.ports = _Ports(self, plan.routes, len(plan.ports))

    def timeline(self) -> Timeline:
        """Run to the end."""
        for rank in range(self.plan.ops.ranks):
            self.env.process(self.rank(self.plan.ops.rows(rank)))
        for transfer in range(self.t):
            if not self.pending[2 * self.n + transfer]:
                for event in self.send(transfer):
                    self.fire(event)
        self.env.run()
        columns = [np.array(c, np.int64) for c in (self.start, self.end, self.ready, self.transfer_start)]
        if NEVER in self.end or NEVER in self.transfer_start:
            raise explain(self.plan, *columns)
        return finished(self.plan, *columns)

    def rank(self, rows: Iterable[int]) -> Process:
        """One op after the other, each as soon as its needs are met."""
        env, n, pending, fire = self.env, self.n, self.pending, self.fire
        start, end, duration, timeout = self.start, self.end, self.duration, self.env.timeout
        for op in rows:
            if pending[op]:
                yield self.gate(op)
            start[op] = env.now
            fire(op)
            if duration[op]:
                yield timeout(duration[op])
            if pending[n + op]:
                yield self.gate(n + op)
            end[op] = env.now
            fire(n + op)

    def gate(self, thing: int) -> Event:
        """The event that a rank waits for until the thing's needs are met."""
        event = self.gates[thing] = self.env.event()
        return event

    def fire(self, event: int) -> None:
        """An event of the plan happens: whoever waits for it has one need less."""
        pending, waiting, first, last = self.pending, self.waiting, self.first, 2 * self.n
        happening = [event]
        for event in happening:  # it grows while it is walked: no recursion, however long a chain of transfers is
            for thing in waiting[first[event] : first[event + 1]]:
                pending[thing] -= 1
                if pending[thing]:
                    continue
                if thing >= last:
                    happening += self.send(thing - last)
                elif thing in self.gates:
                    self.gates.pop(thing).succeed()

    def send(self, transfer: int) -> Iterable[int]:
        """A transfer is ready: it queues for its ports, or starts; returns the events that happen at once."""
        route = self.route[transfer]
        self.ready[transfer] = self.env.now
        if lane := self.ports.lanes[route]:
            self.ports.queue(lane, transfer)
        elif self.occupancy[route] or self.latency[route]:
            self.env.process(self.carry(transfer))
        else:
            self.transfer_start[transfer] = self.env.now
            return range(2 * self.n + transfer, self.events, self.t)
        return ()

    def carry(self, transfer: int) -> Process:
        """A transfer on its way: it holds its ports for its occupancy, and arrives its latency later."""
        route, event = self.route[transfer], 2 * self.n + transfer
        self.transfer_start[transfer] = self.env.now
        self.fire(event)
        if self.occupancy[route]:
            yield self.env.timeout(self.occupancy[route])
        if lane := self.ports.lanes[route]:
            self.ports.free(lane)
        self.fire(event + self.t)
        if self.latency[route]:
            yield self.env.timeout(self.latency[route])
        self.fire(event + 2 * self.t)


class _Lane:
    """A pair of ports, and the transfers that wait for both: a heap of (ready time, transfer)."""

    def __init__(self, egress: int, ingress: int) -> None:
        self.ports = (egress, ingress)
        self.waiting: list[tuple[int | float, int]] = []

    def first(self) -> tuple[int | float, int]:
        """Whose turn it is on this lane."""
        return self.waiting[0]


class _Ports:
    """Ports and the lanes between them; granted in sets when the instant settles."""

    def __init__(self, run: _Run, routes: Routes, ports: int) -> None:
        self.run = run
        pairs = list(zip(routes.egress.tolist(), routes.ingress.tolist(), strict=True))
        lanes = {pair: _Lane(*pair) for pair in pairs if pair[0] != NONE}
        self.lanes = [lanes.get(pair) for pair in pairs]
        """The lane of each route; None where it has no ports."""
        self.lanes_at: list[list[_Lane]] = [[] for _ in range(ports)]
        for lane in lanes.values():
            for port in lane.ports:
                self.lanes_at[port].append(lane)
        self.taken = [False] * ports
        self.touched: set[_Lane] = set()

    def queue(self, lane: _Lane, transfer: int) -> None:
        """Let a transfer wait for its two ports."""
        heappush(lane.waiting, (self.run.ready[transfer], transfer))
        self.touch(lane)

    def free(self, lane: _Lane) -> None:
        """A transfer has left its ports."""
        for port in lane.ports:
            self.taken[port] = False
            for other in self.lanes_at[port]:
                if other.waiting:
                    self.touch(other)

    def touch(self, lane: _Lane) -> None:
        """Look at a lane again when the instant settles."""
        if not self.touched:
            settle = Event(self.run.env)
            settle.callbacks = [self.settle]
            settle._ok, settle._value = True, None
            self.run.env.schedule(settle, priority=LAST)
        self.touched.add(lane)

    def settle(self, _event: Event) -> None:
        """One pass over the waiting transfers in their order; each starts if both its ports are free.

        Ports are only taken during a pass, so that at most the first of a lane can start.
        """
        lanes = sorted(self.touched, key=_Lane.first)
        self.touched.clear()
        for lane in lanes:
            egress, ingress = lane.ports
            if not self.taken[egress] and not self.taken[ingress]:
                self.taken[egress] = self.taken[ingress] = True
                _, transfer = heappop(lane.waiting)
                self.run.env.process(self.run.carry(transfer))
