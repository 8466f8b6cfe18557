"""What a schedule is given: sizes, where the stages are, what they cost, and one rank's view of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppsim.costs import StageCosts
from ppsim.errors import ScheduleError, shown
from ppsim.hardware.cluster import Topology
from ppsim.hardware.link import ZERO, Link
from ppsim.ops import Grid, Kind, Ops, Orders, ops
from ppsim.ops.placement import Placement


class Slice(NamedTuple):
    """A part of a microbatch: its share of the length (activations, messages) and of the time."""

    length: Fraction = Fraction(1)
    time: Fraction = Fraction(1)

    def __hash__(self) -> int:
        return hash((self.length.as_integer_ratio(), self.time.as_integer_ratio()))  # a fraction's own takes far longer


@dataclass(frozen=True)
class Problem:
    """All that a schedule may know: sizes, where the stages are, and what they cost."""

    ranks: int
    microbatches: int
    placement: Placement
    costs: StageCosts
    steps: int = 1
    stream: bool = False
    """The orders hold the whole stream of ``steps * microbatches`` minibatches (an asynchronous schedule)."""
    update_every: int = 1
    """Of a stream: the minibatches whose gradients make one update."""
    slices: tuple[Slice, ...] = (Slice(),)
    """Where microbatches are cut, ``microbatches`` counts the slices of all, and ``costs`` are a mean slice's."""
    topology: Topology | None = None
    """The ranks' devices and links (None: all alike, and free)."""
    op_overhead: Fraction = Fraction(0)
    """Seconds that every op takes beside its cost."""
    compiled: bool = False
    """Whether the run has chosen the compiled engine, so that a search's loops are compiled, too."""
    room: Fraction | None = None
    """Bytes of a device's memory, where an order can be made to fit it: it is known, and nothing is recomputed."""

    @property
    def stages(self) -> int:
        """How many stages the model has."""
        return self.placement.stages

    @cached_property
    def hop(self) -> tuple[Fraction, ...]:
        """Seconds that an output takes from each stage to the next, and its gradient back, on idle links.

        Empty: none.
        """
        hop = () if self.topology is None else tuple(_hops(self.placement, self.costs.message, self.topology))
        return hop if any(hop) else ()

    @cached_property
    def speed(self) -> tuple[Fraction, ...]:
        """Speed of each rank (empty: 1)."""
        return () if self.topology is None else tuple(map(self.topology.speed, range(self.ranks)))

    def op_seconds(self, kind: Kind, stage: int) -> Fraction:
        """What an op takes on its rank: its cost by the rank's speed, and the overhead."""
        speed = self.speed[self.placement.ranks_of[stage][0]] if self.speed else 1
        return self.costs.seconds(kind)[stage] / speed + self.op_overhead

    def on(self, topology: Topology) -> Problem:
        """The same on these ranks and links."""
        return replace(self, topology=topology)

    def held_throughout(self, rank: int) -> Fraction:
        """Bytes of weights, gradients and optimizer state that a rank holds all the time."""
        costs = self.costs
        held = self.placement.stages_of[rank]
        return sum((costs.weights[s] + costs.gradients[s] + costs.optimizer_state[s] for s in held), Fraction(0))

    def rank(self, index: int) -> Rank:
        """One rank's view of the problem."""
        return Rank(index, self.ranks, self.microbatches, self.placement.stages_of[index])

    def every(self, kind: Kind, microbatches: NDArray[np.int64] | None = None) -> Grid:
        """Ops of one kind on each rank's first stage, by default of every microbatch, ascending."""
        first = np.array([held[0] for held in self.placement.stages_of], np.int32)
        numbers = np.arange(self.microbatches) if microbatches is None else microbatches
        return Grid(kind, first[:, None], numbers.astype(np.int32))

    def per_rank(self, order: Callable[[Rank], Ops]) -> Orders:
        """Orders from a function that gives one rank's ops."""
        tables = [order(self.rank(r)) for r in range(self.ranks)]
        for rank, table in enumerate(tables):
            if not isinstance(table, Ops):
                raise ScheduleError(
                    f"per_rank: rank {rank}'s order is {shown(table)}, not Ops, as rank.forwards() and concat(…) give"
                )
        return Orders.of(tables)


def _hops(placement: Placement, message: tuple[Fraction, ...], topology: Topology) -> Iterator[Fraction]:
    """Seconds of each stage's message to the next stage, the links being idle; nothing where both are on one rank."""
    made: dict[tuple[int, int], tuple[Link, Fraction]] = {}  # a link is kept, so that its id stays its own
    for size, mine, its in zip(message, placement.ranks_of, placement.ranks_of[1:], strict=False):
        if mine[0] == its[0]:
            yield ZERO
            continue
        link = topology.link(mine[0], its[0])
        key = id(link), id(size)
        if key not in made:
            made[key] = link, link.alone(size) + link.latency
        yield made[key][1]


@dataclass(frozen=True)
class Rank:
    """One rank, as a schedule sees it."""

    index: int
    ranks: int
    microbatches: int
    stages: tuple[int, ...]

    @property
    def distance_to_last(self) -> int:
        """How many ranks come after this one."""
        return self.ranks - 1 - self.index

    def ops(self, kind: Kind, chunk: int = 0, microbatches: NDArray[np.int64] | None = None) -> Ops:
        """Ops of one kind on the rank's chunk-th stage, by default of every microbatch, ascending."""
        return ops(kind, self.stages[chunk], np.arange(self.microbatches) if microbatches is None else microbatches)

    def forwards(self, chunk: int = 0) -> Ops:
        """F of every microbatch, ascending."""
        return self.ops(Kind.F, chunk)

    def backwards(self, chunk: int = 0) -> Ops:
        """B of every microbatch, ascending."""
        return self.ops(Kind.B, chunk)
