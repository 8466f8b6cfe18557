"""The portfolio: several list schedules and building blocks, each justified a few times; the best order is taken."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ppsim.errors import ScheduleError
from ppsim.ops import Orders, ops
from ppsim.schedules.base import Problem
from ppsim.schedules.search import building_block
from ppsim.schedules.search.instance import SPLIT, Instance, Memory, Sequence
from ppsim.schedules.search.justify import graphs, play
from ppsim.schedules.search.listing import Policy, list_schedule

Objective = Literal["makespan", "span"]
"""What is to be short: the step from its start, or the longest of the ranks' own spans (several steps, no barrier)."""

POLICIES = (
    Policy(),
    Policy(hold=True),
    Policy(patient=False),
    Policy(patient=False, hold=True),
    Policy(room=True),
    Policy("forward", shares=True),
    Policy("forward", shares=True, hold=True),
    Policy("forward", shares=True, room=True),
    Policy("forward", shares=True, eager=True),
)
TOLERANCES = (0, 8, 4, 2)
"""An op may be longer than the gap that it fills by this part of the longest forward; 0: not at all."""
ROUNDS = 4


def search(problem: Problem, memory: Memory, objective: Objective = "makespan") -> Orders:
    """The best order found; of equal ones the first. Raises ScheduleError where none runs in the memory."""
    instance = Instance.of(problem, memory)
    starts = [start for policy in POLICIES if (start := list_schedule(instance, policy)) is not None]
    if building_block.is_v(instance):
        starts += [
            building_block.repeated(instance, block(instance.ranks))
            for block in (building_block.v_min, building_block.v_half)
        ]
    best: tuple[int, int, Sequence] | None = None
    for played, makespan, span in _justified(instance, starts, objective):
        value = (makespan, span) if objective == "makespan" else (span, makespan)
        if best is None or value < best[:2]:
            best = (*value, played)
    if best is None:
        raise ScheduleError("schedule: no order was found that runs in this memory; allow more")
    return as_orders(instance, best[2])


def _justified(instance: Instance, starts: list[Sequence], objective: Objective) -> list[tuple[Sequence, int, int]]:
    """Every order that the starts lead to, as played forwards."""
    there, back = graphs(instance)
    zero = [0] * instance.ranks
    latest = max(instance.lead, default=0)
    release = [latest - lead for lead in instance.lead] if objective == "span" else zero
    longest = max(instance.duration[: instance.stages], default=0)
    found: list[tuple[Sequence, int, int]] = []
    for start in starts:
        for part in TOLERANCES:
            order = start
            for turn in range(ROUNDS):
                tolerance = longest // part if part and turn % 2 == 0 else 0
                played = play(there, order, instance.memory.limit, zero, tolerance)
                if len(played[0]) < instance.ops:
                    break
                found.append(played)
                reverse, _, _ = play(back, played[0][::-1], instance.memory.limit, release, tolerance)
                if len(reverse) < instance.ops:
                    break
                order = reverse[::-1]
    return found


def as_orders(instance: Instance, sequence: Sequence) -> Orders:
    """A search's order as tables of ops, a rank after the other."""
    number = np.array(sequence, np.int64)
    stage = number // instance.microbatches % instance.stages
    kind = np.array(SPLIT, np.int8)[number // (instance.microbatches * instance.stages)]
    rank = np.array(instance.rank_of)[stage]
    table = ops(kind, stage, number % instance.microbatches)
    return Orders.of([table[np.flatnonzero(rank == r)] for r in range(instance.ranks)])
