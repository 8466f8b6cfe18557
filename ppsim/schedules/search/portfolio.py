"""The portfolio: fixed orders, list schedules and building blocks to start from, each justified; the best is taken."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import cycle
from typing import Literal

import numpy as np

from ppsim.ops import Kind, Orders, ops
from ppsim.ops.placement import loop, v_shape
from ppsim.schedules.base import Problem
from ppsim.schedules.interleaved_1f1b import Interleaved1F1B
from ppsim.schedules.search.building_block import repeated, v_half, v_min
from ppsim.schedules.search.instance import SPLIT, WHOLE, Instance, Memory, Sequence
from ppsim.schedules.search.justify import WINDOW, Graph, graphs, play
from ppsim.schedules.search.listing import First, Policy, list_schedule
from ppsim.schedules.zb_h1 import in_turns
from ppsim.schedules.zbv import ZBV

Objective = Literal["makespan", "span"]
"""What is to be short: the step from its start, or the longest of the ranks' own spans (several steps, no barrier)."""

POLICIES = (
    Policy("backward", shares=True, patient=False),
    Policy("forward", shares=True),
    Policy("backward", shares=True, hold=True),
    Policy("forward", shares=True, patient=False),
    Policy("forward", hold=True, patient=False),
    Policy("backward"),
    Policy("backward", shares=True, hold=True, patient=False),
    Policy("backward", hold=True),
    Policy("backward", hold=True, patient=False),
)
"""Those whose orders lead farthest once they are justified, in the order of merit: each finds what none before does."""
FIRST: tuple[First, ...] = ("backward", "forward")
GREEDY = tuple(Policy(first, shares, hold) for first in FIRST for shares in (False, True) for hold in (False, True))
"""All that ``greedy`` can be told: played as they are in the end, so that no search is worse."""
PACES = tuple(Fraction(quarters, 4) for quarters in (4, 8, 6, 10, 12, 5, 7, 9, 11))
"""By how many forwards a rank of a loop starts ahead of the next one: ZB-H1 is 1, ZB-H2 2."""
Value = tuple[int, int]
NOTHING = (1 << 62, 0)
"""Worse than any order."""
TOLERANCES = (0, 4, 2, 1)
"""An op may be longer than the gap that it fills by this part of the longest forward; 0: not at all."""
BUDGET = 8_000_000
"""Ops that a search plays before it starts from no further order, so that the largest take seconds."""


def search(problem: Problem, memory: Memory, objective: Objective = "makespan") -> Orders:
    """The best order found; of equally good ones that with the smaller span (makespan), then the first."""
    instance = Instance.of(problem, memory)
    found = _Search(instance, objective)
    for start in _starts(problem, instance):
        found.consider(start)
        if found.at_bound or found.played > BUDGET:
            break
    if not found.at_bound:
        for policy in GREEDY:
            found.play(list_schedule(instance, policy))
    return best_of([(instance, found.best), *plain(problem, instance)], objective)


def plain(problem: Problem, instance: Instance) -> Iterator[tuple[Instance, Sequence]]:
    """1F1B for the stages of a loop: what no order that is chosen by the costs should lose to.

    Its backwards are whole, which spares an op's overhead; and, where the instance splits them, each W follows its I.
    """
    v = problem.stages // problem.ranks
    if problem.placement != loop(problem.ranks, v):
        return
    of_a_kind = problem.stages * problem.microbatches
    number = np.array(as_sequence(instance, Interleaved1F1B(virtual_stages=v).orders(problem)))
    backward = np.flatnonzero(number >= of_a_kind)
    sequence: Sequence = np.insert(number, backward + 1, number[backward] + of_a_kind).tolist()
    if instance.split:
        yield instance, sequence
    yield instance.whole(problem), sequence


def best_of(orders: list[tuple[Instance, Sequence]], objective: Objective = "makespan") -> Orders:
    """The best of some orders as they are; of equally good ones the first. The first one has to fit its memory."""
    values = []
    for instance, order in orders:
        found = _Search(instance, objective)
        found.play(order)
        values.append(found.value)
    return as_orders(*orders[values.index(min(values))])


def _starts(problem: Problem, instance: Instance) -> Iterator[Sequence]:
    """The fixed orders for the placement, so that no search is worse than they are where they fit; then the others."""
    shape = problem.placement
    if shape == v_shape(problem.ranks):
        yield as_sequence(instance, ZBV().orders(problem))
        for block in v_half, v_min:
            yield repeated(instance, block(instance.ranks))
    elif shape.stages == shape.ranks:
        for pace in PACES:
            yield as_sequence(instance, problem.per_rank(partial(in_turns, pace=pace)))
    for policy in POLICIES:
        yield list_schedule(instance, policy)


class _Search:
    """The best order so far, and what it takes to find a better one."""

    def __init__(self, instance: Instance, objective: Objective) -> None:
        self.instance, self.objective = instance, objective
        self.forward, self.backward = graphs(instance)
        self.best: Sequence = []
        self.played = 0
        self.value = NOTHING
        self.seen: set[int] = set()
        """Orders that were justified with a tolerance already, by their hash."""
        lead, span = instance.lead, objective == "span"
        # Where the span counts, a rank may end as much later than another as it starts later.
        self.released = [max(lead) - mine if span else 0 for mine in lead]
        longest = max(work + (0 if span else start) for work, start in zip(instance.work, lead, strict=True))
        self.bound = max(longest, instance.chain_bound, instance.memory_bound)

    @property
    def at_bound(self) -> bool:
        """Whether no order can be better."""
        return self.value[0] <= self.bound

    def play(self, start: Sequence) -> None:
        """Take an order as it is."""
        self._play(self.forward, start, 0, window=0)

    def consider(self, start: Sequence) -> None:
        """Justify an order, for each tolerance as often as that makes it better."""
        self.play(start)
        longest = max(self.instance.duration[: self.instance.stages])
        for part in TOLERANCES:
            if self.at_bound:
                return
            order, before = start, NOTHING
            for tolerance in cycle((longest // part if part else 0, 0)):
                order, value = self._play(self.forward, order, tolerance)
                state = hash((tolerance, *order))
                if value >= before or self.at_bound or state in self.seen:
                    break
                self.seen.add(state)
                before = value
                late, _ = self._play(self.backward, order[::-1], tolerance)
                order = late[::-1]

    def _play(self, graph: Graph, order: Sequence, tolerance: int, window: int = WINDOW) -> tuple[Sequence, Value]:
        """The order as played and its value; no value where it got stuck, for want of memory. The best one is kept."""
        forwards = graph is self.forward
        released = [0] * self.instance.ranks if forwards else self.released
        self.played += self.instance.ops
        played, makespan, span = play(graph, order, released, tolerance, window)
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


def as_orders(instance: Instance, sequence: Sequence) -> Orders:
    """A sequence as tables of ops, a rank after the other; of whole backwards the W are left out."""
    kinds: tuple[Kind, ...] = SPLIT if instance.split else WHOLE
    number = np.array(sequence, np.int64)
    number = number[number < len(kinds) * instance.stages * instance.microbatches]
    stage = number // instance.microbatches
    kind, stage = np.array(kinds)[stage // instance.stages], stage % instance.stages
    table = ops(kind, stage, number % instance.microbatches)
    rank = np.array(instance.rank_of)[stage]
    return Orders.of([table[np.flatnonzero(rank == r)] for r in range(instance.ranks)])
