"""StageCosts: the costs of every stage, exact, before microbatch weights and rank speeds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from ppsim.ops import Kind

Values = tuple[Fraction, ...]


@dataclass(frozen=True)
class StageCosts:
    """Costs per stage (tuples of length ``stages``), times in seconds and sizes in bytes, all exact fractions.

    ``message[s]`` is what stage s sends to s+1 in the forward pass, and what s+1 sends back as its gradient.
    ``overlapped[s]`` is a fused pair's time where the forward is of stage s, or None: the sum of its two ops.
    """

    forward: Values
    backward: Values
    input_grad: Values
    weight_grad: Values
    recompute: Values
    activation: Values
    held_for_weight_grad: Values
    stage_input: Values
    message: Values
    weights: Values
    gradients: Values
    optimizer_state: Values
    optimizer: Values
    transient_forward: Values = ()
    """What a forward (or its recomputation) needs beside what it keeps, while it runs (empty: nothing)."""
    transient_backward: Values = ()
    """What a backward, or a half of it, needs beside the activation, while it runs (empty: nothing)."""
    overlapped: Values | None = None
    atomic_pairs: bool = True
    """A fused pair hands on both outputs at its end; else it runs as the forward, then the backward."""
    halves_assumed: bool = False
    """The halves of the backward were not given: each was taken as half of it."""

    @property
    def stages(self) -> int:
        """How many stages there are."""
        return len(self.forward)

    def without_training(self) -> StageCosts:
        """The costs where nothing is learnt: no backward, no gradients, no optimizer."""
        none = (Fraction(0),) * self.stages
        return replace(
            self, backward=none, input_grad=none, weight_grad=none, gradients=none, optimizer_state=none, optimizer=none
        )

    def seconds(self, kind: Kind) -> Values:
        """The time of one kind of compute op, per stage."""
        return {
            Kind.F: self.forward,
            Kind.B: self.backward,
            Kind.I: self.input_grad,
            Kind.W: self.weight_grad,
            Kind.R: self.recompute,
            Kind.OPTIM: self.optimizer,
        }[kind]
