"""The portfolio: fixed orders, list schedules and building blocks to start from, each justified; the best is taken."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Literal

import numpy as np

from ppsim.ops import Kind, Orders, ops
from ppsim.placement import v_shape
from ppsim.schedules.base import Problem, Schedule
from ppsim.schedules.search.building_block import repeated, v_half, v_min
from ppsim.schedules.search.instance import SPLIT, Instance, Memory, Sequence
from ppsim.schedules.search.justify import WINDOW, Graph, graphs, play
from ppsim.schedules.search.listing import Policy, list_schedule
from ppsim.schedules.zb_h1 import ZBH1
from ppsim.schedules.zb_h2 import ZBH2
from ppsim.schedules.zbv import ZBV

Objective = Literal["makespan", "span"]
"""What is to be short: the step from its start, or the longest of the ranks' own spans (several steps, no barrier)."""

POLICIES = (
    Policy("forward", shares=True),
    Policy("backward", hold=True),
    Policy("backward", hold=True, patient=False),
    Policy("backward"),
)
Value = tuple[int, int]
NOTHING = (1 << 62, 0)
"""Worse than any order."""
TOLERANCES = (0, 4, 2)
"""An op may be longer than the gap that it fills by this part of the longest forward; 0: not at all."""


def search(problem: Problem, memory: Memory, objective: Objective = "makespan") -> Orders:
    """The best order found; of equally good ones that with the smaller span (makespan), then the first."""
    instance = Instance.of(problem, memory)
    found = _Search(instance, objective)
    for start in _starts(problem, instance):
        found.consider(start)
        if found.at_bound:
            break
    return as_orders(instance, found.best)


def _starts(problem: Problem, instance: Instance) -> Iterator[Sequence]:
    """The fixed orders for the placement, so that no search is worse than they are where they fit; then the others."""
    shape = problem.placement
    fixed: tuple[Schedule, ...] = (ZBH1(), ZBH2()) if shape.stages == shape.ranks else ()
    on_v = shape == v_shape(problem.ranks)
    for schedule in (ZBV(),) if on_v else fixed:
        yield as_sequence(instance, schedule.orders(problem))
    for policy in POLICIES:
        yield list_schedule(instance, policy)
    for block in (v_half, v_min) if on_v else ():
        yield repeated(instance, block(instance.ranks))


class _Search:
    """The best order so far, and what it takes to find a better one."""

    def __init__(self, instance: Instance, objective: Objective) -> None:
        self.instance, self.objective = instance, objective
        self.forward, self.backward = graphs(instance)
        self.best: Sequence = []
        self.value = NOTHING
        # What has this value is nearly always an order that was justified already.
        self.seen: set[tuple[Value, int]] = set()
        lead, span = instance.lead, objective == "span"
        # Where the span counts, a rank may end as much later than another as it starts later.
        self.released = [max(lead) - mine if span else 0 for mine in lead]
        longest = max(work + (0 if span else start) for work, start in zip(instance.work, lead, strict=True))
        self.bound = max(longest, instance.chain_bound, instance.memory_bound)

    @property
    def at_bound(self) -> bool:
        """Whether no order can be better."""
        return self.value[0] <= self.bound

    def consider(self, start: Sequence) -> None:
        """Justify an order, for each tolerance as often as that makes it better."""
        self._play(self.forward, start, 0, window=0)
        longest = max(self.instance.duration[: self.instance.stages])
        for part in TOLERANCES:
            if self.at_bound:
                return
            order, before = start, NOTHING
            for tolerance in cycle((longest // part if part else 0, 0)):
                order, value = self._play(self.forward, order, tolerance)
                if value >= before or self.at_bound or (value, tolerance) in self.seen:
                    break
                self.seen.add((value, tolerance))
                before = value
                late, _ = self._play(self.backward, order[::-1], tolerance)
                order = late[::-1]

    def _play(self, graph: Graph, order: Sequence, tolerance: int, window: int = WINDOW) -> tuple[Sequence, Value]:
        """The order as played and its value; no value where it got stuck, for want of memory. The best one is kept."""
        forwards = graph is self.forward
        released = [0] * self.instance.ranks if forwards else self.released
        played, makespan, span = play(graph, order, self.instance.memory.limit, released, tolerance, window)
        if len(played) < self.instance.ops:
            return played, NOTHING
        value = (makespan, span) if self.objective == "makespan" else (span, makespan)
        if forwards and value < self.value:
            self.best, self.value = played, value
        return played, value


def as_sequence(instance: Instance, orders: Orders) -> Sequence:
    """Op numbers, a rank's after the other's: a start need not be in the order of time."""
    table = orders.table
    kind = np.searchsorted(SPLIT, table.kind)
    number = (kind * instance.stages + table.stage) * instance.microbatches + table.microbatch
    sequence: Sequence = number.tolist()
    return sequence


def as_orders(instance: Instance, sequence: Sequence, kinds: tuple[Kind, ...] = SPLIT) -> Orders:
    """A sequence as tables of ops, a rank after the other; op numbers beyond those of ``kinds`` are left out."""
    number = np.array(sequence, np.int64)
    number = number[number < len(kinds) * instance.stages * instance.microbatches]
    stage = number // instance.microbatches
    kind, stage = np.array(kinds)[stage // instance.stages], stage % instance.stages
    table = ops(kind, stage, number % instance.microbatches)
    rank = np.array(instance.rank_of)[stage]
    return Orders.of([table[np.flatnonzero(rank == r)] for r in range(instance.ranks)])
