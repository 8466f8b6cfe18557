"""Max-min fair: all messages go at once, each with as large a share of its ports, link and switches as is fair.

The shares are those of progressive filling: all grow together, and a line that is full stops those on it. What is left
of a message is a rational number of bytes; it leaves at a rational time, rounded half up to a whole ns, once. Rates
change at the rational time. Until then a message that has left by rounding down still takes its share.
Source: Bertsekas and Gallager 1992, Data Networks, section 6.5.2 (max-min flow control).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil
from typing import NamedTuple

import numpy as np

from ppsim.network.base import Load, Moments, Time
from ppsim.ops import NONE, Constant, Longs
from ppsim.plan import Lines, Plan
from ppsim.units import round_half_up

HALF = Fraction(1, 2)


class _Flow(NamedTuple):
    """A message on its way: bytes ``left`` at the time ``since``, at so many bytes per ns; it ends at ``end``."""

    left: Fraction
    since: Fraction
    rate: Fraction
    end: Fraction


def fair_shares(lines_of: Mapping[int, tuple[int, ...]], capacity: Mapping[int, Fraction]) -> dict[int, Fraction]:
    """The max-min fair rate of every flow over its lines."""
    on: dict[int, set[int]] = {}
    for flow, lines in lines_of.items():
        for line in lines:
            on.setdefault(line, set()).add(flow)
    room = {line: capacity[line] for line in on}
    rates: dict[int, Fraction] = {}
    while on:
        full = min(on, key=lambda line: room[line] / len(on[line]))
        share = room[full] / len(on[full])
        for flow in on[full].copy():
            rates[flow] = share
            for line in lines_of[flow]:
                room[line] -= share
                on[line].discard(flow)
        on = {line: flows for line, flows in on.items() if flows}
    return rates


class _Fluid:
    """Messages that share lines, at exact times; those that share nothing don't touch each other."""

    def __init__(self, capacity: Mapping[int, Fraction]) -> None:
        self.capacity = capacity
        self.flows: dict[int, _Flow] = {}
        self.lines_of: dict[int, tuple[int, ...]] = {}
        self.on: dict[int, dict[int, None]] = {}
        self.ends: list[tuple[Fraction, int]] = []

    def add(self, works: Mapping[int, Fraction], lines: Mapping[int, tuple[int, ...]], now: Fraction) -> None:
        """Let messages join."""
        for flow, work in works.items():
            self.flows[flow] = _Flow(work, now, Fraction(0), now)
            self.lines_of[flow] = lines[flow]
            for line in lines[flow]:
                self.on.setdefault(line, {})[flow] = None
        self._share(works, now)

    def advance(self, until: Fraction) -> list[int]:
        """Go on to a time; the messages that end until then, in their order."""
        found: list[int] = []
        while (end := self.next_end()) is not None and end <= until:
            ended = []
            while self.next_end() == end:
                _, flow = heappop(self.ends)
                ended.append(flow)
                del self.flows[flow]
            freed = [(line, flow) for flow in ended for line in self.lines_of.pop(flow)]
            for line, flow in freed:
                del self.on[line][flow]
            self._share([flow for line, _ in freed for flow in self.on[line]], end)
            found += ended
        return found

    def next_end(self) -> Fraction | None:
        """When the next message ends, if none joins."""
        while self.ends:
            end, flow = self.ends[0]
            if flow in self.flows and self.flows[flow].end == end:
                return end
            heappop(self.ends)
        return None

    def before(self, limit: Fraction) -> list[int]:
        """The messages that end before a time if none joins; nothing changes."""
        soon = [flow for flow, state in self.flows.items() if state.end < limit]
        if not soon:
            return []
        apart = _Fluid(self.capacity)
        for flow in self._together(soon):
            apart.flows[flow], apart.lines_of[flow] = self.flows[flow], self.lines_of[flow]
            for line in self.lines_of[flow]:
                apart.on.setdefault(line, {})[flow] = None
            heappush(apart.ends, (self.flows[flow].end, flow))
        found: list[int] = []
        while (end := apart.next_end()) is not None and end < limit:
            found += apart.advance(end)
        return found

    def _together(self, some: Iterable[int]) -> list[int]:
        """These messages and all that share lines with them, or with those."""
        found = dict.fromkeys(some)
        ahead = list(found)
        while ahead:
            for line in self.lines_of[ahead.pop()]:
                new = [flow for flow in self.on[line] if flow not in found]
                found |= dict.fromkeys(new)
                ahead += new
        return list(found)

    def _share(self, changed: Iterable[int], now: Fraction) -> None:
        """Give new rates to these messages and all that share with them."""
        which = self._together(changed)
        rates = fair_shares({flow: self.lines_of[flow] for flow in which}, self.capacity)
        for flow in which:
            before = self.flows[flow]
            if rates[flow] != before.rate:
                left = before.left - before.rate * (now - before.since)
                end = now + left / rates[flow]
                self.flows[flow] = _Flow(left, now, rates[flow], end)
                heappush(self.ends, (end, flow))


class _Shares:
    """The messages of a run: the fluid, those that are about to join, and those that have left by rounding."""

    def __init__(self, plan: Plan) -> None:
        lines: Lines = plan.lines if plan.lines is not None else Lines((), (), ())
        self.route: list[int] = plan.transfers.route.tolist()
        self.work, self.lines = lines.work, lines.lines
        self.fluid = _Fluid({line: rate / 10**9 for line, rate in enumerate(lines.capacity)})
        self.joining: list[int] = []
        self.gone: set[int] = set()

    @property
    def unsettled(self) -> bool:
        """Whether messages are about to join."""
        return bool(self.joining)

    def ready(self, transfer: int, now: Time) -> None:
        """It joins when the instant settles."""
        self.joining.append(transfer)

    def settle(self, now: Time) -> Iterable[int]:
        """All that are ready start."""
        started, self.joining = sorted(self.joining), []
        self._go_on(now)
        works = {transfer: self.work[self.route[transfer]] for transfer in started}
        self.fluid.add(works, {transfer: self.lines[self.route[transfer]] for transfer in started}, Fraction(now))
        return started

    def next_leaves(self) -> int | None:
        """The next end, rounded; of one that has left already the ns behind it, since others' ends change with it."""
        end = self.fluid.next_end()
        if end is None or not self.gone:
            return None if end is None else round_half_up(end)
        flows = self.fluid.flows.items()
        return min(ceil(state.end) if flow in self.gone else round_half_up(state.end) for flow, state in flows)

    def leave(self, now: Time) -> Iterable[int]:
        """Those whose end, if none joined from now on, rounds to this ns."""
        left = [*self._go_on(now), *(flow for flow in self.fluid.before(Fraction(now) + HALF) if flow not in self.gone)]
        self.gone.update(flow for flow in left if flow in self.fluid.flows)
        return sorted(left)

    def _go_on(self, now: Time) -> list[int]:
        """Go on to an instant; those that end on the way and haven't left."""
        ended = self.fluid.advance(Fraction(now))
        left = [flow for flow in ended if flow not in self.gone]
        self.gone.difference_update(ended)
        return left


class _Fair:
    """The rule; SimPy's engine plays it."""

    not_compiled = "what is left of a message is an exact fraction of any length, and compiled code counts in 64 bits"

    def traffic(self, plan: Plan) -> _Shares:
        """Nothing is on its way."""
        return _Shares(plan)

    def freed_by(self, plan: Plan, moments: Moments) -> tuple[Longs | Constant, Longs | Constant]:
        """Nobody waits for a port."""
        nobody = Constant(np.int64(NONE), len(plan.transfers))
        return nobody, nobody

    def delayed(self, plan: Plan, moments: Moments) -> Longs:
        """What it took longer than it would have alone."""
        return moments.left - moments.start - plan.routes.occupancy[plan.transfers.route]

    def busy(self, plan: Plan, moments: Moments) -> Longs:
        """The time when at least one message is on the port."""
        total = np.zeros(len(plan.ports), np.int64)
        route = plan.transfers.route
        on = [plan.routes.egress[route], plan.routes.ingress[route]]
        for port in range(len(plan.ports)):
            here = np.flatnonzero((on[0] == port) | (on[1] == port))
            here = here[np.argsort(moments.start[here], kind="stable")]
            until = np.maximum.accumulate(np.append(0, moments.left[here]))
            total[port] = np.maximum(moments.left[here] - np.maximum(moments.start[here], until[:-1]), 0).sum()
        return total

    def least(self, loads: Iterable[Load]) -> Fraction:
        """All bytes at the rate of the fastest link: several may be on their way at once."""
        known = [load for load in loads if load.bandwidth is not None]
        fastest = max((load.bandwidth for load in known if load.bandwidth is not None), default=Fraction(1))
        return sum((load.seconds * (load.bandwidth or 0) for load in known), Fraction(0)) / fastest

    def violations(self, plan: Plan, moments: Moments) -> Iterator[str]:
        """Messages that are quicker than alone, or wait."""
        if np.any(self.delayed(plan, moments) < 0):
            yield "a transfer took less time than it takes alone"
        if np.any(moments.start != moments.ready):
            yield "a transfer waited for a port that is shared"


RULE = _Fair()
