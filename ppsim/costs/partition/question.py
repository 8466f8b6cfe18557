"""What is asked of a split: layers by time, on stages that sit on ranks, by those ranks' speed, links and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from math import ceil, lcm
from typing import NamedTuple

FINER = 10**6
"""Parts of the unit of time that sending is counted in."""


class Span(NamedTuple):
    """The consecutive layers ``begin`` to ``end - 1`` on a stage."""

    stage: int
    begin: int
    end: int

    def over(self, bounds: Sequence[int]) -> Span:
        """The same span where each layer is the rows between two bounds."""
        return Span(self.stage, bounds[self.begin], bounds[self.end])


class Hop(NamedTuple):
    """How long it takes from a stage to the next: seconds per message, and per byte of it."""

    fixed: Fraction
    per_byte: Fraction


Excess = Callable[[int, Sequence[Span]], int]
"""Bytes that a rank would need beyond its memory for these of its spans; 0 or less: they fit."""


@dataclass(frozen=True)
class Question:
    """Layers by their time, on stages that sit on ranks."""

    times: Sequence[Fraction]
    stages_of: Sequence[Sequence[int]]
    """The stages of each rank."""
    excess: Excess | None = None
    speeds: Sequence[Fraction] = ()
    """Speed of each rank (empty: all alike)."""
    messages: Sequence[Fraction] = ()
    """Bytes that cross a cut behind each layer (empty: none)."""
    hops: Sequence[Hop] = ()
    """From each stage to the next (empty: free)."""
    hopeless: bool = False
    """It is plain that no split fits the ranks' memory."""

    @cached_property
    def pace(self) -> tuple[int, ...]:
        """How long each rank takes for a unit of time, in a unit in which all are whole numbers."""
        speeds = self.speeds or [Fraction(1)] * len(self.stages_of)
        return tuple(int(self._slowness / speed) for speed in speeds)

    @cached_property
    def _slowness(self) -> int:
        return lcm(*(speed.numerator for speed in self.speeds)) if self.speeds else 1

    @cached_property
    def _unit(self) -> int:
        return lcm(*(time.denominator for time in self.times)) * (FINER if self.hops else 1)

    @cached_property
    def before(self) -> tuple[int, ...]:
        """Time of all layers before each, in a unit in which all times are whole numbers."""
        return (0, *accumulate(int(time * self._unit) for time in self.times))

    @cached_property
    def ranks_of(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each stage."""
        stages = 1 + max(stage for held in self.stages_of for stage in held)
        return tuple(tuple(r for r, held in enumerate(self.stages_of) if s in held) for s in range(stages))

    @cached_property
    def least_from(self) -> tuple[int, ...]:
        """The least time of a layer from each on but for the last, which is a model's head."""
        backwards = accumulate((self.time(i, i + 1) for i in reversed(range(len(self.times) - 1))), min)
        return (*reversed(tuple(backwards)), 0, 0)

    @property
    def stages(self) -> int:
        """How many stages there are."""
        return len(self.ranks_of)

    @property
    def copies(self) -> int:
        """On how many ranks each stage is."""
        return len(self.ranks_of[0])

    def time(self, begin: int, end: int) -> int:
        """Time of consecutive layers."""
        return self.before[end] - self.before[begin]

    @cached_property
    def crossing(self) -> tuple[tuple[int, ...], ...]:
        """How long it takes from each stage to the next, by where the next begins."""
        scale = self._unit * self._slowness
        sizes = (Fraction(0), *self.messages) if self.messages else (Fraction(0),) * (len(self.times) + 1)
        return tuple(tuple(ceil((hop.fixed + size * hop.per_byte) * scale) for size in sizes) for hop in self.hops)

    @property
    def unlimited(self) -> int:
        """Longer than any rank is occupied."""
        computing = self.copies * self.time(0, len(self.times)) * max(self.pace)
        return 1 + computing + 2 * sum(max(times) for times in self.crossing)

    def cost(self, stage: int, begin: int, end: int) -> int:
        """How long a microbatch occupies such a stage: its slowest rank computes, and waits for the slower of its hops.

        Where forwards and backwards take turns, as in 1F1B, a rank's next op needs what its neighbour made of this one.
        """
        computing = (self.before[end] - self.before[begin]) * self.stage_pace[stage]
        if not self.hops:
            return computing
        before = self.crossing[stage - 1][begin] if stage else 0
        after = self.crossing[stage][end] if stage < len(self.hops) else 0
        return max(computing + max(before, after), before + after)

    @cached_property
    def stage_pace(self) -> tuple[int, ...]:
        """The pace of the slowest rank that holds each stage."""
        return tuple(max(self.pace[rank] for rank in ranks) for ranks in self.ranks_of)

    def fits(self, rank: int, spans: Sequence[Span]) -> bool:
        """Whether the rank's memory holds these spans."""
        return self.excess is None or self.excess(rank, spans) <= 0

    def loads(self, split: Sequence[int]) -> list[int]:
        """How long a microbatch occupies every rank, by all of its stages."""
        costs = [self.cost(*span) for span in spans_of(split)]
        return [sum(costs[stage] for stage in held) for held in self.stages_of]

    def slowest(self, split: Sequence[int]) -> int:
        """How long a microbatch occupies the slowest stage."""
        return max(self.cost(*span) for span in spans_of(split))

    def beyond(self, split: Sequence[int]) -> list[int]:
        """Bytes beyond its memory that each rank would need; 0 where it fits."""
        if self.excess is None:
            return [0] * len(self.stages_of)
        spans = spans_of(split)
        return [max(0, self.excess(rank, [spans[s] for s in held])) for rank, held in enumerate(self.stages_of)]


def spans_of(split: Sequence[int]) -> list[Span]:
    """The span of every stage."""
    return [Span(stage, *ends) for stage, ends in enumerate(pairwise((0, *accumulate(split))))]
