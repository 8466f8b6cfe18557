"""The model of record: a SimPy process per rank, and events for the transfers between them.

Nothing here decides anything: the Plan says what every op and transfer waits for, and a rule of ``network`` how
transfers share ports. At one instant everything that ends, leaves or arrives does so first, then ops start; a *settle*
event of lowest priority closes the instant and lets transfers take their ports.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

import numpy as np
import simpy
from simpy.events import Event, EventPriority

from ppsim.engine.deadlock import explain
from ppsim.engine.timeline import NEVER, Recorded, Timeline, finished
from ppsim.engine.watch import Watch
from ppsim.network import rule_of
from ppsim.network.turns import Taking
from ppsim.ops import NONE
from ppsim.plan.table import Plan

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
        self.left: Times = [NEVER] * t
        self.route: list[int] = plan.transfers.route.tolist()
        self.occupancy: list[int] = plan.routes.occupancy.tolist()
        self.latency: list[int] = plan.routes.latency.tolist()
        self.has_ports: list[bool] = (plan.routes.egress != NONE).tolist()
        self.traffic = rule_of(plan).traffic(plan)
        self.turns = None if plan.turns is None else Taking(plan.turns, self.end)
        self.settling = False
        self.waking: int | float = NEVER

    def timeline(self) -> Timeline:
        """Run to the end."""
        for rank in range(self.plan.ops.ranks):
            self.env.process(self.rank(self.plan.ops.rows(rank)))
        for transfer in range(self.t):
            if not self.pending[2 * self.n + transfer]:
                for event in self.send(transfer):
                    self.fire(event)
        self.env.run()
        columns = (self.start, self.end, self.ready, self.transfer_start, self.left)
        times = Recorded(*(np.array(column, np.int64) for column in columns))
        if NEVER in self.end or NEVER in self.transfer_start:
            raise explain(self.plan, times)
        return finished(self.plan, times)

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
            if self.turns is not None and last <= event - self.t < last + self.t:
                for transfer in self.turns.left(event - self.t - last):
                    happening += self.go(transfer)
            for thing in waiting[first[event] : first[event + 1]]:
                pending[thing] -= 1
                if pending[thing]:
                    continue
                if thing >= last:
                    happening += self.send(thing - last)
                elif thing in self.gates:
                    self.gates.pop(thing).succeed()

    def send(self, transfer: int) -> Iterable[int]:
        """A transfer has all that it waits for: it goes, unless others go first; returns what happens at once."""
        if self.turns is not None and self.turns.holds(transfer):
            return ()
        return self.go(transfer)

    def go(self, transfer: int) -> Iterable[int]:
        """A transfer is ready: it asks for its ports, or starts; returns the events that happen at once."""
        route, now = self.route[transfer], self.env.now
        self.ready[transfer] = now
        if self.has_ports[route]:
            self.traffic.ready(transfer, now)
            if not self.settling:
                self.settle_later()
        elif self.occupancy[route] or self.latency[route]:
            self.env.process(self.carry(transfer))
        else:
            self.transfer_start[transfer] = self.left[transfer] = now
            return range(2 * self.n + transfer, self.events, self.t)
        return ()

    def carry(self, transfer: int) -> Process:
        """A transfer on a way without ports."""
        route, event = self.route[transfer], 2 * self.n + transfer
        self.transfer_start[transfer] = self.env.now
        self.fire(event)
        if self.occupancy[route]:
            yield self.env.timeout(self.occupancy[route])
        self.leave(transfer)

    def leave(self, transfer: int) -> None:
        """A transfer has left, and arrives its latency later."""
        event, latency = 2 * self.n + self.t + transfer, self.latency[self.route[transfer]]
        self.left[transfer] = self.env.now
        self.fire(event)
        if latency:
            self.env.timeout(latency, event + self.t).callbacks.append(self.arrive)
        else:
            self.fire(event + self.t)

    def arrive(self, flight: Event) -> None:
        """A transfer is there; its flight's value is the event of the plan."""
        self.fire(flight._value)

    def settle_later(self) -> None:
        """Let transfers take their ports when nothing else happens at this instant."""
        self.settling = True
        settle = Event(self.env)
        settle.callbacks = [self.settle]
        settle._ok, settle._value = True, None
        self.env.schedule(settle, priority=LAST)

    def settle(self, _settle: Event) -> None:
        """The instant is over: transfers start as the rule lets them."""
        self.settling, now = False, self.env.now
        for transfer in self.traffic.settle(now):
            self.transfer_start[transfer] = now
            self.fire(2 * self.n + transfer)
        self.wake_up(now)

    def wake_up(self, now: int | float) -> None:
        """Look again when the next transfer leaves, as things stand."""
        when = self.traffic.next_leaves()
        if when is not None and not now <= self.waking <= when:
            self.waking = when
            self.env.timeout(when - now).callbacks.append(self.awake)

    def awake(self, _timeout: Event) -> None:
        """Transfers leave their ports."""
        self.waking, now = NEVER, self.env.now
        for transfer in self.traffic.leave(now):
            self.leave(transfer)
        if self.traffic.unsettled and not self.settling:
            self.settle_later()
        self.wake_up(now)
