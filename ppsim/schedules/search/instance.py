"""What a search works on: a Problem in whole nanoseconds and whole units of memory, as flat lists."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from importlib.util import find_spec
from itertools import accumulate
from typing import cast

import numpy as np

from ppsim.errors import ScheduleError
from ppsim.ops import Kind
from ppsim.schedules.base import Problem
from ppsim.units import round_half_up, show, to_ns

SPLIT = (Kind.F, Kind.I, Kind.W)
"""The kinds of a split schedule; a search calls them 0, 1 and 2."""
WHOLE = (Kind.F, Kind.B)
Ints = list[int]
Sequence = list[int]
"""Op numbers in the order in which they start; a rank's order is what it has of them."""
LARGE = 2_500
"""Ops from which a search, which plays them a hundred times, is done sooner for loading Numba first."""
PARTS = 1_000_000
"""Parts of an activation, where memory is counted in activations."""


@dataclass(frozen=True, eq=False)
class Memory:
    """What F(s) takes and, of that, what I(s) leaves to W(s), per stage; and what each rank may hold; in one unit."""

    take: Ints
    keep: Ints
    limit: Ints

    @classmethod
    def in_activations(cls, problem: Problem, most: int) -> Memory:
        """At most so many activations of one stage and microbatch per rank; W's part counts as its share of one."""
        shares = [
            min(kept / whole, Fraction(1)) if whole else Fraction(1)
            for kept, whole in zip(problem.costs.held_for_weight_grad, problem.costs.activation, strict=True)
        ]
        keep = [-(-PARTS * share // 1) for share in shares]
        return cls._within(problem, [PARTS] * problem.stages, keep, [most * PARTS] * problem.ranks)

    @classmethod
    def in_bytes(cls, problem: Problem, most: list[Fraction]) -> Memory:
        """At most so many bytes of activations on each rank. Raises ScheduleError where one can't run at all."""
        take, keep = cls._sizes(problem)
        for rank, held in enumerate(problem.placement.stages_of):
            least = sum(take[stage] for stage in held)
            if least > most[rank]:
                raise ScheduleError(
                    f"schedule.memory_limit: {show(max(most[rank], Fraction(0)), 'size')} is less than one activation "
                    f"of each stage on rank {rank}, {show(Fraction(least), 'size')}; no order can run in less"
                )
        return cls._within(problem, take, keep, [int(limit) for limit in most])

    @classmethod
    def of_devices(cls, problem: Problem, memory: Fraction, most: int | None = None) -> Memory:
        """What each device has left beside what it holds throughout and messages; never less than any order needs.

        ``most``: nor more than so many activations. Messages: at each end of a stage one that is computed on and one
        that waits.
        """
        take, keep = cls._sizes(problem)
        message = (Fraction(0), *problem.costs.message[:-1], Fraction(0))
        limit = []
        for rank, held in enumerate(problem.placement.stages_of):
            passing = 2 * sum((message[stage] + message[stage + 1] for stage in held), Fraction(0))
            left = memory - problem.held_throughout(rank) - passing
            if most is not None:
                left = min(left, Fraction(most * max(take[stage] for stage in held)))
            limit.append(max(int(left), sum(take[stage] for stage in held)))
        return cls._within(problem, take, keep, limit)

    @staticmethod
    def _sizes(problem: Problem) -> tuple[Ints, Ints]:
        """Bytes of F and, of those, W's, rounded up; where an input half leaves more than F took, F counts as that."""
        keep = [-(-size // 1) for size in problem.costs.held_for_weight_grad]
        take = [max(1, -(-size // 1), kept) for size, kept in zip(problem.costs.activation, keep, strict=True)]
        return take, keep

    @classmethod
    def _within(cls, problem: Problem, take: Ints, keep: Ints, limit: Ints) -> Memory:
        """No limit is more than all microbatches take: what Numba counts with is finite."""
        most = [problem.microbatches * sum(take[s] for s in held) for held in problem.placement.stages_of]
        return cls(take, keep, [min(own, all_of_it) for own, all_of_it in zip(limit, most, strict=True)])


@dataclass(frozen=True, eq=False)
class Instance:
    """The problem as a search sees it. Op (kind, stage, microbatch) is number (kind · stages + stage) · m + microbatch.

    ``duration[kind · stages + stage]`` and ``hop[stage]`` (from a stage to the next one and back) are in ns;
    ``held[held_at[r]:held_at[r + 1]]`` are the stages of rank r in the order of its chunks.
    """

    ranks: int
    stages: int
    microbatches: int
    rank_of: Ints
    held_at: Ints
    held: Ints
    duration: Ints
    hop: Ints
    memory: Memory
    compiled: bool = False
    """Whether Numba compiles the loops over it."""
    split: bool = True
    """Whether the backward is I and W."""

    @classmethod
    def of(cls, problem: Problem, memory: Memory, large: int = LARGE) -> Instance:
        """The instance of a problem whose stages are on one rank each; from so many ops on its loops are compiled."""
        placement = problem.placement
        return cls(
            ranks=problem.ranks,
            stages=problem.stages,
            microbatches=problem.microbatches,
            rank_of=[ranks[0] for ranks in placement.ranks_of],
            held_at=[0, *accumulate(len(held) for held in placement.stages_of)],
            held=[stage for held in placement.stages_of for stage in held],
            duration=_durations(problem, SPLIT),
            hop=[*(to_ns(seconds) for seconds in problem.hop or [Fraction(0)] * (problem.stages - 1)), 0],
            memory=memory,
            compiled=(problem.compiled or 3 * problem.stages * problem.microbatches >= large) and has_numba(),
        )

    def whole(self, problem: Problem) -> Instance:
        """The same with whole backwards in I's place, so that W is left with nothing, neither time nor memory."""
        nothing = [0] * self.stages
        duration, memory = [*_durations(problem, WHOLE), *nothing], replace(self.memory, keep=nothing)
        return replace(self, duration=duration, memory=memory, split=False)

    @cached_property
    def stages_of(self) -> list[Ints]:
        """The stages of each rank, in the order of its chunks."""
        return [self.held[a:b] for a, b in zip(self.held_at, self.held_at[1:], strict=False)]

    @property
    def ops(self) -> int:
        """How many ops there are."""
        return 3 * self.stages * self.microbatches

    def time(self, kind: int, stage: int) -> int:
        """Duration of one op, in ns."""
        return self.duration[kind * self.stages + stage]

    @cached_property
    def lead(self) -> Ints:
        """When each rank can start its first op: the way of the first forward to the first of its stages, in ns."""
        arrival = [0]
        for stage in range(self.stages - 1):
            arrival.append(arrival[-1] + self.time(0, stage) + self.hop[stage])
        return [min(arrival[stage] for stage in held) for held in self.stages_of]

    @cached_property
    def work(self) -> Ints:
        """What each rank has to compute, in ns."""
        return [self._per_rank(r, (0, 1, 2)) for r in range(self.ranks)]

    def _per_rank(self, rank: int, kinds: tuple[int, ...]) -> int:
        return self.microbatches * sum(self.time(kind, stage) for kind in kinds for stage in self.stages_of[rank])

    @cached_property
    def chain_bound(self) -> int:
        """What no order can beat, in ns, from rank 0's start to its end: a rank's forwards and gradients one by one.

        The first of them waits for the way down to the rank; the last one's gradient has the way back up before it.
        """
        back = [self.time(2, 0)]
        for stage in range(1, self.stages):
            back.append(back[-1] + self.time(1, stage - 1) + self.hop[stage - 1])
        return max(
            self.lead[r] + self._per_rank(r, (0, 1)) + min(back[s] for s in self.stages_of[r])
            for r in range(self.ranks)
        )

    @cached_property
    def memory_bound(self) -> int:
        """What no order can beat, in ns, where rank 0 holds stage 0 alone: it waits at both ends for want of memory.

        It can't do more forwards than fit before its first gradient is there. While its last forward goes down and its
        gradient comes back it can only work off what it holds then.
        """
        if self.stages_of[0] != [0]:
            return 0
        forward, gradient, weight = (self.time(kind, 0) for kind in (0, 1, 2))
        take, keep, limit = self.memory.take[0], self.memory.keep[0], self.memory.limit[0]
        way = sum(self.time(0, s) + self.time(1, s) + 2 * self.hop[s - 1] for s in range(1, self.stages))
        fit = limit // take
        before = max(0, way - (min(fit, self.microbatches) - 1) * forward)
        per_memory = [Fraction(gradient + weight, take), *([Fraction(weight, keep)] if keep else [])]
        left = limit * max(per_memory) if keep or not weight else Fraction(self.work[0])
        after = max(0, int(way + gradient + weight - left))
        # Where all forwards fit, both may be one and the same wait.
        return self.work[0] + (max(before, after) if self.microbatches <= fit else before + after)


def _durations(problem: Problem, kinds: tuple[Kind, ...]) -> Ints:
    return [to_ns(problem.op_seconds(kind, stage)) for kind in kinds for stage in range(problem.stages)]


def rounded(value: Fraction) -> int:
    """The nearest whole number, halves up."""
    return round_half_up(value)


def column(values: Ints, compiled: bool) -> Ints:
    """Values for a loop: an array where it is compiled."""
    return cast(Ints, np.array(values, np.int64)) if compiled else values


def has_numba() -> bool:
    """Whether Numba is installed."""
    return find_spec("numba") is not None
