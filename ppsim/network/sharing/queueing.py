"""First come, first served: a port carries one message at a time, the others wait for it.

When an instant settles, one pass over the waiting transfers in the order (ready time, row of the issuer) starts each
whose two ports are free. Transfers are numbered by their issuers' rows, so that (ready time, number) is that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from heapq import heappop, heappush

import numpy as np

from ppsim.network.base import Load, Moments, Time
from ppsim.ops import NONE, Constant, Longs
from ppsim.plan import Plan


class _Lane:
    """A pair of ports, and the transfers that wait for both: a heap of (ready time, transfer)."""

    def __init__(self, egress: int, ingress: int) -> None:
        self.ports = (egress, ingress)
        self.waiting: list[tuple[Time, int]] = []

    def first(self) -> tuple[Time, int]:
        """Whose turn it is on this lane."""
        return self.waiting[0]


class Queues:
    """Ports and the lanes between them; granted in sets when the instant settles."""

    def __init__(self, plan: Plan) -> None:
        routes, ports = plan.routes, len(plan.ports)
        pairs = list(zip(routes.egress.tolist(), routes.ingress.tolist(), strict=True))
        lanes = {pair: _Lane(*pair) for pair in pairs if pair[0] != NONE}
        by_route = [lanes.get(pair) for pair in pairs]
        self.lane = [by_route[route] for route in plan.transfers.route.tolist()]
        """The lane of each transfer; None where it has no ports."""
        self.occupancy: list[int] = plan.routes.occupancy[plan.transfers.route].tolist()
        self.lanes_at: list[list[_Lane]] = [[] for _ in range(ports)]
        for lane in lanes.values():
            for port in lane.ports:
                self.lanes_at[port].append(lane)
        self.taken = [False] * ports
        self.touched: set[_Lane] = set()
        self.under_way: list[tuple[Time, int]] = []

    @property
    def unsettled(self) -> bool:
        """Whether there are lanes to look at."""
        return bool(self.touched)

    def ready(self, transfer: int, now: Time) -> None:
        """Let a transfer wait for its two ports."""
        lane = self.lane[transfer]
        if lane is not None:
            heappush(lane.waiting, self.turn(transfer, now))
            self.touched.add(lane)

    def turn(self, transfer: int, now: Time) -> tuple[Time, int]:
        """What orders a transfer that is ready now among others; ends with its number."""
        return now, transfer

    def settle(self, now: Time) -> Iterable[int]:
        """One pass over the waiting transfers in their order; each starts if both its ports are free.

        Ports are only taken during a pass, so that at most the first of a lane can start.
        """
        started, taken = [], self.taken
        for lane in sorted(self.touched, key=_Lane.first) if len(self.touched) > 1 else self.touched:
            egress, ingress = lane.ports
            if not taken[egress] and not taken[ingress]:
                taken[egress] = taken[ingress] = True
                _, transfer = heappop(lane.waiting)
                heappush(self.under_way, (now + self.occupancy[transfer], transfer))
                started.append(transfer)
        self.touched.clear()
        return started

    def next_leaves(self) -> Time | None:
        """The end of the shortest occupancy."""
        return self.under_way[0][0] if self.under_way else None

    def leave(self, now: Time) -> Iterable[int]:
        """Free the ports of those whose occupancy is over."""
        left, taken, touched = [], self.taken, self.touched
        while self.under_way and self.under_way[0][0] <= now:
            _, transfer = heappop(self.under_way)
            left.append(transfer)
            lane = self.lane[transfer]
            for port in lane.ports if lane is not None else ():
                taken[port] = False
                for other in self.lanes_at[port]:
                    if other.waiting:
                        touched.add(other)
        return left


class Queueing:
    """The rule; both engines play it."""

    not_compiled: str | None = None

    def traffic(self, plan: Plan) -> Queues:
        """All ports are free."""
        return Queues(plan)

    def freed_by(self, plan: Plan, moments: Moments) -> tuple[Longs | Constant, Longs | Constant]:
        """For each transfer that queued the one whose leaving let it start, and their port; (-1, -1) for the others.

        A transfer that didn't start when it was ready starts at the very instant at which another one leaves its egress
        or its ingress; where two do, the egress counts.
        """
        route, (ready, started, left) = plan.transfers.route, moments
        queued = started > ready
        if not np.any(queued):
            nobody = Constant(np.int64(NONE), len(route))
            return nobody, nobody
        holder, via = np.full((2, len(route)), NONE, np.int64)
        for ports in (plan.routes.ingress, plan.routes.egress):
            port = ports[route].astype(np.int64)
            turn = np.lexsort((started, port))
            before, after = turn[:-1], turn[1:]
            if np.any((port[before] == port[after]) & (started[before] == started[after])):
                turn = np.lexsort((np.arange(len(route)), ready, left, started, port))
                before, after = turn[:-1], turn[1:]
            freed = (port[before] == port[after]) & queued[after] & (left[before] == started[after])
            holder[after[freed]], via[after[freed]] = before[freed], port[after[freed]]
        return holder, via

    def delayed(self, plan: Plan, moments: Moments) -> Longs:
        """The time in the queue."""
        return moments.start - moments.ready

    def busy(self, plan: Plan, moments: Moments) -> Longs:
        """The sum of what its messages take."""
        total = np.zeros(len(plan.ports), np.int64)
        for port in (plan.routes.egress, plan.routes.ingress):
            used = port >= 0
            np.add.at(total, port[used], (plan.passes * plan.routes.occupancy)[used])
        return total

    def least(self, loads: Iterable[Load]) -> Fraction:
        """One after the other."""
        return sum((load.seconds for load in loads), Fraction(0))

    def violations(self, plan: Plan, moments: Moments) -> Iterator[str]:
        """Ports that carry two messages at once."""
        for column in (plan.routes.egress, plan.routes.ingress):
            port = column[plan.transfers.route]
            order = np.lexsort((moments.left, moments.start, port))
            order = order[port[order] >= 0]
            a, b = order[:-1], order[1:]
            clash = (port[a] == port[b]) & (moments.start[b] < moments.left[a])
            if np.any(clash):
                yield f"port {plan.ports[int(port[a[clash][0]])]} carried two messages at once"


RULE = Queueing()
