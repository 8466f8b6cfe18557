"""What ``plan.build`` is told beside the orders: sizes, costs, hardware, and the rules of the framework."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from ppsim.costs.setting import Recompute as Recomputed
from ppsim.hardware.cluster import Topology
from ppsim.plan.table import Plan
from ppsim.plan.weights import Weights
from ppsim.schedules.base import Problem


@dataclass(frozen=True)
class Sending:
    """What messages between stages wait for, and whom they hold."""

    mode: Literal["overlapped", "blocking", "rendezvous"] = "overlapped"
    eager_bytes: int | None = None
    """Under rendezvous, messages of at most so many bytes are buffered; None: none is."""
    batch_warmup: tuple[int, ...] | None = None
    """Of batched sends and receives, each rank's forwards before its pairs of a forward and a backward; None: no
    batches."""
    receives: Literal["late", "early"] = "late"
    """Where a transport asks when a receive is posted: when it is needed, or as soon as its sender's order allows."""
    transport: Callable[[Plan, Sending], Plan] | None = None
    """What a framework's sends and receives wait for beyond that, added to the finished plan: one of ``network``'s."""


@dataclass(frozen=True)
class Sync:
    """How gradients are summed, and which stages wait for a whole batch."""

    pipelines: int = 1
    """Copies of the whole pipeline."""
    bucket_bytes: int = 0
    """Gradients are sent in messages of so many bytes; 0: in one."""
    overlapped: bool = False
    """A stage's gradients are summed beside what still runs; else when its rank has run the step's last op. In a stream
    of rounds: beside the next round, which waits for it before its own sync; else before anything else runs."""
    batch_normalised: tuple[int, ...] = ()
    """Stages whose neighbours wait for all of the step's microbatches."""


@dataclass(frozen=True)
class Recompute:
    """What is recomputed before its backward."""

    of_stage: tuple[Recomputed, ...] = ()
    """Per stage; empty: none."""
    late: bool = False
    """A recomputation needs the gradient, too; else its own forward only."""


@dataclass(frozen=True, eq=False)
class PlanSpec:
    """All that turns orders into a plan."""

    problem: Problem
    topology: Topology
    sending: Sending = Sending()
    sync: Sync = Sync()
    recompute: Recompute = Recompute()
    microbatch_weights: tuple[Fraction, ...] = (Fraction(1),)
    """Length of each microbatch of a step, or one for all; 1 is what the costs are for."""
    barrier: bool = True
    """A step starts when the one before has ended on every rank."""
    version: Literal["newest", "first_stage", "double_buffered"] = "newest"
    """Of a stream: which weights a microbatch uses on each stage."""

    @property
    def steps(self) -> int:
        """How often the orders are run; a stream holds all of its steps."""
        return 1 if self.problem.stream else self.problem.steps

    @property
    def rounds_overlap(self) -> bool:
        """Whether a stream's copies sum a round's gradients beside the next round."""
        return self.problem.stream and self.problem.update_every == 1 and self.sync.overlapped

    @cached_property
    def weights(self) -> Weights:
        """The weight of each microbatch, or of each slice of it."""
        return Weights(self.microbatch_weights, self.problem.slices)
