"""What a schedule is: a frozen config that turns a Problem into Orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppsim._model import Model
from ppsim.costs import StageCosts
from ppsim.errors import Notice
from ppsim.ops import Grid, Kind, Ops, Orders, ops
from ppsim.ops.placement import Placement, loop
from ppsim.schedules import theory


class Slice(NamedTuple):
    """A part of a microbatch: its share of the length (activations, messages) and of the time."""

    length: Fraction = Fraction(1)
    time: Fraction = Fraction(1)


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
    hop: tuple[Fraction, ...] = ()
    """Seconds that an output takes from each stage to the next, and its gradient back, on idle links (empty: none)."""
    speed: tuple[Fraction, ...] = ()
    """Speed of each rank (empty: 1)."""
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

    def op_seconds(self, kind: Kind, stage: int) -> Fraction:
        """What an op takes on its rank: its cost by the rank's speed, and the overhead."""
        speed = self.speed[self.placement.ranks_of[stage][0]] if self.speed else 1
        return self.costs.seconds(kind)[stage] / speed + self.op_overhead

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
        return Orders.of([order(self.rank(r)) for r in range(self.ranks)])


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


class Schedule(Model):
    """A pipeline schedule: its settings are its fields, ``orders`` is its rule.

    A subclass declares ``name`` (a Literal), its settings, and ``orders``; where ranks hold more than one stage, also
    ``placement``. One file in this folder, or an entry point in the group ``ppsim.schedules``, is all it takes.
    """

    name: str

    asynchronous: ClassVar[bool] = False
    """No flush: the orders hold the whole stream of ``steps * microbatches`` minibatches, each with its own update."""
    double_buffered: ClassVar[bool] = False
    """Asynchronous, but one update per step: its minibatches use the version before the newest there could be."""

    @property
    def uses_first_stage_version(self) -> bool:
        """A minibatch uses on every stage the weights that were the first stage's when it entered (vertical sync)."""
        return False

    def placement(self, ranks: int) -> Placement:
        """Which stages each rank holds."""
        return loop(ranks)

    @property
    def trains(self) -> bool:
        """Whether there are backwards; where there are none, nothing is held for gradients and optimizer."""
        return True

    def cut(self) -> tuple[Slice, ...]:
        """What each microbatch is cut into; an op's number is then microbatch * slices + slice."""
        return (Slice(),)

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """What makes these sizes illegal: (key, message with the rule, the value and the nearest legal one)."""
        return iter(())

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """What is legal but costs something."""
        return iter(())

    @property
    def label(self) -> str:
        """What messages call the order."""
        return self.name

    def place(self, rank: int, cell: int) -> str:
        """Where the order lists a rank's op (a fused pair is one); both count from 0."""
        return f"row {rank + 1}, column {cell + 1}"

    def fused_warmup(self, ranks: int, microbatches: int, rank: int) -> int | None:
        """Forwards of a rank before its pairs of one forward and one backward, for the batches of ``p2p: fused``.

        None where no framework batches this schedule's sends and receives.
        """
        return None

    def files(self) -> dict[str, Path]:
        """The files that the schedule is read from, by the name under which a run keeps a copy."""
        return {}

    def alternative(self, ranks: int, microbatches: int) -> tuple[str, Schedule] | None:
        """The nearest settings that avoid what a notice warns of, and what to call them; None where there are none."""
        return None

    def deadlock_hint(self, problem: Problem) -> str | None:
        """What, among the schedule's settings, is known to make its order deadlock for these sizes."""
        return None

    def theory(self) -> theory.Form | None:
        """The closed form that holds for this schedule with equal stages, or None."""
        return None

    def orders(self, problem: Problem) -> Orders:
        """The order of ops of every rank, for one step (for all of them where asynchronous)."""
        raise NotImplementedError(f"{type(self).__name__} defines no orders")
