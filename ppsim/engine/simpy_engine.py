"""The model of record: a SimPy process per rank, and one per transfer that takes time.

Nothing here decides anything: the Plan says what every op and transfer waits for. The one rule of its own is how ports
are granted. At one instant everything that ends, leaves or arrives does so first, then ops start; a *settle* event of
lowest priority closes the instant and lets transfers take their ports in the order (ready time, row of the issuer).
Transfers are numbered by their issuers' rows, so that (ready time, number) is that order.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Generator, Iterable
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import simpy
from simpy.events import Event

from ppsim.engine.deadlock import explain
from ppsim.plan.table import Plan
from ppsim.timeline import NEVER, Timeline, finished

LAST = 2
"""SimPy's own priorities are 0 and 1: an event of this one is the last of its instant."""

Process = Generator[Event, Any, None]


def run(plan: Plan) -> Timeline:
    """Simulate the plan. Raises DeadlockError where ranks wait for ever."""
    return _Run(plan).timeline()


class _Run:
    """The state of one simulation. Things that wait are numbered: op i to start i, to end n + i, transfer j 2n + j."""

    def __init__(self, plan: Plan) -> None:
        n, t = len(plan), len(plan.transfers)
        self.plan, self.n, self.t = plan, n, t
        self.env = simpy.Environment()
        self.duration: list[int] = plan.duration.tolist()
        needs = (plan.start_needs, plan.end_needs, plan.transfers.needs)
        self.pending: list[int] = np.concatenate([table.counts for table in needs]).tolist()
        self.waiting = _waiting(
            np.concatenate([table.event for table in needs]),
            np.concatenate([table.owner + base for table, base in zip(needs, (0, n, 2 * n), strict=True)]),
        )
        self.gates: dict[int, Event] = {}
        self.start = [NEVER] * n
        self.end = [NEVER] * n
        self.ready = [NEVER] * t
        self.transfer_start = [NEVER] * t
        route = plan.transfers.route
        self.occupancy: list[int] = plan.routes.occupancy[route].tolist()
        self.latency: list[int] = plan.routes.latency[route].tolist()
        self.egress: list[int] = plan.routes.egress[route].tolist()
        self.ingress: list[int] = plan.routes.ingress[route].tolist()
        self.ports = _Ports(self, len(plan.ports))

    def timeline(self) -> Timeline:
        """Run to the end."""
        for rank in range(self.plan.ranks):
            self.env.process(self.rank(self.plan.rows(rank)))
        for transfer in range(self.t):
            if not self.pending[2 * self.n + transfer]:
                self.send(transfer)
        self.env.run()
        columns = [np.array(c, np.int64) for c in (self.start, self.end, self.ready, self.transfer_start)]
        if NEVER in self.end or NEVER in self.transfer_start:
            raise explain(self.plan, *columns)
        return finished(self.plan, *columns)

    def rank(self, rows: Iterable[int]) -> Process:
        """One op after the other, each as soon as its needs are met."""
        env, n, pending, waiting, fire = self.env, self.n, self.pending, self.waiting, self.fire
        start, end, duration, timeout = self.start, self.end, self.duration, self.env.timeout
        for op in rows:
            if pending[op]:
                yield self.gate(op)
            start[op] = env.now
            if op in waiting:
                fire(op)
            if duration[op]:
                yield timeout(duration[op])
            if pending[n + op]:
                yield self.gate(n + op)
            end[op] = env.now
            if n + op in waiting:
                fire(n + op)

    def gate(self, thing: int) -> Event:
        """The event that a rank waits for until the thing's needs are met."""
        event = self.gates[thing] = self.env.event()
        return event

    def fire(self, event: int) -> None:
        """An event of the plan happens: whoever waits for it has one need less."""
        pending, last = self.pending, 2 * self.n
        for thing in self.waiting[event]:
            pending[thing] -= 1
            if pending[thing]:
                continue
            if thing >= last:
                self.send(thing - last)
            elif thing in self.gates:
                self.gates.pop(thing).succeed()

    def send(self, transfer: int) -> None:
        """A transfer is ready: it queues for its ports, or starts where it has none."""
        self.ready[transfer] = self.env.now
        if self.egress[transfer] >= 0:
            self.ports.queue(transfer)
        elif self.occupancy[transfer] or self.latency[transfer]:
            self.env.process(self.carry(transfer))
        else:
            self.transfer_start[transfer] = self.env.now
            self.reach(2 * self.n + transfer)
            self.reach(2 * self.n + self.t + transfer)
            self.reach(2 * self.n + 2 * self.t + transfer)

    def carry(self, transfer: int) -> Process:
        """A transfer on its way: it holds its ports for its occupancy, and arrives its latency later."""
        self.transfer_start[transfer] = self.env.now
        self.reach(2 * self.n + transfer)
        if self.occupancy[transfer]:
            yield self.env.timeout(self.occupancy[transfer])
        if self.egress[transfer] >= 0:
            self.ports.free(transfer)
        self.reach(2 * self.n + self.t + transfer)
        if self.latency[transfer]:
            yield self.env.timeout(self.latency[transfer])
        self.reach(2 * self.n + 2 * self.t + transfer)

    def reach(self, event: int) -> None:
        """Fire an event if anything waits for it."""
        if event in self.waiting:
            self.fire(event)


class _Ports:
    """Ports, each with its queue of (ready time, transfer); granted in sets when the instant settles."""

    def __init__(self, run: _Run, count: int) -> None:
        self.run = run
        self.taken = [False] * count
        self.queues: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self.touched: set[int] = set()
        self.settling = False

    def queue(self, transfer: int) -> None:
        """Let a transfer wait for its two ports."""
        key = (self.run.ready[transfer], transfer)
        for port in (self.run.egress[transfer], self.run.ingress[transfer]):
            insort(self.queues[port], key)
        self.touch(self.run.egress[transfer])

    def free(self, transfer: int) -> None:
        """A transfer has left its ports."""
        for port in (self.run.egress[transfer], self.run.ingress[transfer]):
            self.taken[port] = False
            self.touch(port)

    def touch(self, port: int) -> None:
        """Look at a port again when the instant settles."""
        if not self.queues[port]:
            return
        self.touched.add(port)
        if not self.settling:
            self.settling = True
            settle = Event(self.run.env)
            settle.callbacks = [self.settle]
            settle._ok, settle._value = True, None
            self.run.env.schedule(settle, priority=LAST)

    def settle(self, _: Event) -> None:
        """One pass over the waiting transfers in their order; each starts if both its ports are free.

        Ports are only taken during a pass, so that the next to start is the least of the touched ports' first choices.
        """
        self.settling = False
        choices = [choice for port in self.touched if (choice := self.choice(port))]
        self.touched.clear()
        heapify(choices)
        while choices:
            key, port = heappop(choices)
            transfer = key[1]
            egress, ingress = self.run.egress[transfer], self.run.ingress[transfer]
            if self.taken[egress] or self.taken[ingress]:
                if following := self.choice(port):
                    heappush(choices, following)
                continue
            for used in (egress, ingress):
                self.taken[used] = True
                queue = self.queues[used]
                del queue[bisect_left(queue, key)]
            self.run.env.process(self.run.carry(transfer))

    def choice(self, port: int) -> tuple[tuple[int, int], int] | None:
        """The first transfer in a free port's queue whose other port is free, too."""
        if self.taken[port]:
            return None
        egress, ingress, taken = self.run.egress, self.run.ingress, self.taken
        for key in self.queues[port]:
            if not taken[egress[key[1]]] and not taken[ingress[key[1]]]:
                return key, port
        return None


def _waiting(events: np.ndarray, things: np.ndarray) -> dict[int, list[int]]:
    """For each event the things that wait for it."""
    waiting: dict[int, list[int]] = {}
    for event, thing in zip(events.tolist(), things.tolist(), strict=True):
        if event in waiting:
            waiting[event].append(thing)
        else:
            waiting[event] = [thing]
    return waiting
