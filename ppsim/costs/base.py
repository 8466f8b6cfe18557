"""StageCosts: the costs of every stage, exact, before microbatch weights and rank speeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

from ppsim.ops import Kind

T = TypeVar("T")
Values = tuple[Fraction, ...]
PER_MICROBATCH = (
    "forward", "backward", "input_grad", "weight_grad", "recompute", "activation", "held_for_weight_grad",
    "stage_input", "message", "rebuilt", "flops", "transient_forward", "transient_backward",
)  # fmt: skip
"""What grows with a microbatch's tokens."""


def uniform(values: Sequence[Fraction]) -> bool:
    """Whether all stages have one and the same value; equal ones that were made apart may go unnoticed."""
    return len(set(map(id, values))) == 1


def times(value: Fraction, factor: Fraction) -> Fraction:
    """Their product; most factors are 1, which takes no new fraction."""
    return value if factor == 1 else value * factor


def each(work: Callable[..., Fraction], *columns: Values) -> Values:
    """``work`` of each stage's values, done once where they are the same: fractions are slow, stages often equal."""
    if all(map(uniform, columns)):
        return (work(*(column[0] for column in columns)),) * len(columns[0])
    made: dict[tuple[int, ...], Fraction] = {}
    out = []
    for values in zip(*columns, strict=True):
        key = tuple(map(id, values))  # the columns hold them, so that their ids stay theirs
        if key not in made:
            made[key] = work(*values)
        out.append(made[key])
    return tuple(out)


def per_value(values: Sequence[Fraction], make: Callable[[Fraction], T]) -> list[T]:
    """``make`` of each value, called once for equal ones; a fraction's own hash takes longer than its two numbers'."""
    if uniform(values):
        return [make(values[0])] * len(values)
    made: dict[tuple[int, int], T] = {}
    out = []
    for value in values:
        key = value.as_integer_ratio()
        if key not in made:
            made[key] = make(value)
        out.append(made[key])
    return out


def total(values: Values) -> Fraction:
    """The sum of all stages' values; the same ones are counted, not added up."""
    if uniform(values):
        return values[0] * len(values)
    counted = Counter(map(id, values))
    distinct = {id(value): value for value in values}
    return sum((value * counted[key] for key, value in distinct.items()), Fraction(0))


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
    rebuilt: Values = ()
    """What is held of the activation while a stage is recomputed layer by layer (empty: all of it)."""
    synced: Values = ()
    """Bytes that gradient sync sums (empty: the gradients)."""
    flops: Values = ()
    """Floating-point operations of a forward that the model needs, on one device (empty: not known)."""
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

    @property
    def summed(self) -> Values:
        """Bytes that gradient sync sums per stage."""
        return self.synced or self.gradients

    def without_training(self) -> StageCosts:
        """The costs where nothing is learnt: no backward, no gradients, no optimizer."""
        none = (Fraction(0),) * self.stages
        return replace(
            self, backward=none, input_grad=none, weight_grad=none, synced=none, gradients=none, optimizer_state=none,
            optimizer=none,
        )  # fmt: skip

    def scaled(self, factor: Fraction) -> StageCosts:
        """The costs of a part of a microbatch; what is held of the model stays, what bursts in an op shrinks."""
        changed: dict[str, Any] = {key: tuple(v * factor for v in getattr(self, key)) for key in PER_MICROBATCH}
        if self.overlapped is not None:
            changed["overlapped"] = tuple(value * factor for value in self.overlapped)
        return replace(self, **changed)

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
