"""Sizes: the bytes of what is sent and of what is held, under one spec."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

import numpy as np

from ppsim.costs.base import per_value
from ppsim.ops import MOVES, NONE, Column, Constant, Kind, Numbers, OpTable
from ppsim.plan.messages import Messages
from ppsim.plan.spec import PlanSpec
from ppsim.plan.table import Versions
from ppsim.units import to_bytes


def message_sizes(messages: Messages, ops: OpTable, spec: PlanSpec) -> Column:
    """Bytes of each message: a stage's output, what an evicted forward holds, or the bucket that was cut."""
    producer, sent = messages.producer, spec.problem.costs.message
    if not ops.index.has(*MOVES, Kind.REDUCE_GRAD):  # nothing else is ever sent
        return spec.weights.sizes(sent, ops, producer, messages.stage)
    size = np.array(messages.bucket)
    data = messages.data(ops)
    size[data] = spec.weights.sizes(sent, ops, producer[data], messages.stage[data])
    moved = np.flatnonzero(size == NONE)
    if len(moved):
        forward = ops.index.lookup(Kind.F)[ops.index.key[producer[moved]]]
        size[moved] = kept_by_forward(ops, forward, spec)
    return size


def kept_by_forward(ops: OpTable, forward: Numbers, spec: PlanSpec) -> Column:
    """Bytes that each forward keeps: the stage's activation, or its input alone where that is recomputed."""
    costs = spec.problem.costs
    whole = spec.weights.sizes(costs.activation, ops, forward)
    if not ops.index.has(Kind.R):
        return whole
    again = ops.index.lookup(Kind.R)[ops.index.key[forward]]
    return np.where(again >= 0, spec.weights.sizes(costs.stage_input, ops, forward), whole)


class Sizes:
    """What is held, in bytes; by (stage, microbatch), as there is a forward of each, unless it says otherwise.

    ``message`` is each message's; ``at_once``: it has left when its producer ends, so that its sender never holds it.
    """

    def __init__(self, ops: OpTable, spec: PlanSpec, message: Column, at_once: bool) -> None:
        self._ops, self._spec = ops, spec
        self.message, self.at_once = message, at_once

    def _of_forward(self, values: tuple[Fraction, ...]) -> Column:
        return self._spec.weights.sizes(values, self._ops, self._ops.index.lookup(Kind.F))

    @cached_property
    def kept(self) -> Column:
        """What a forward keeps."""
        return kept_by_forward(self._ops, self._ops.index.lookup(Kind.F), self._spec)

    @cached_property
    def for_weight(self) -> Column:
        """What the input half leaves to the weight half."""
        return self._of_forward(self._spec.problem.costs.held_for_weight_grad)

    @cached_property
    def until_weight(self) -> Column:
        """The part of what the forward kept that stays until the end of its weight half; what isn't split has none.

        A recomputed stage has it only from its R on.
        """
        index = self._ops.index
        split = (index.lookup(Kind.W) >= 0) & (index.lookup(Kind.R) < 0)
        return np.where(split, np.minimum(self.for_weight, self.kept), 0)

    @cached_property
    def grown(self) -> Column:
        """What the input half leaves beyond what its forward kept: with its incoming gradient that may be more."""
        return np.maximum(self.for_weight, self.kept) - self.kept

    @cached_property
    def rebuilt(self) -> Column:
        """What a recomputation allocates: all but what its forward kept."""
        costs = self._spec.problem.costs
        return self._of_forward(costs.rebuilt or costs.activation) - self.kept

    @cached_property
    def left(self) -> Column:
        """Of what was recomputed, all that the weight half needs; 0 where the backward isn't split."""
        return np.where(self._ops.index.lookup(Kind.W) >= 0, self.for_weight, 0)

    @cached_property
    def left_of_rebuilt(self) -> Column:
        """The part of that which the recomputation allocated."""
        return np.minimum(self.left, self.rebuilt)

    def transient(self, rows: Numbers, backward: bool) -> Column:
        """What these ops need beside that, while they run."""
        costs = self._spec.problem.costs
        values = costs.transient_backward if backward else costs.transient_forward
        if not any(values):
            return Constant(np.int64(0), len(rows))
        return self._spec.weights.sizes(values, self._ops, rows)

    def stash(self, versions: Versions) -> Column:
        """What stashed versions of weights hold, a row each."""
        ended = versions.stashed.since - len(self._ops)
        size = np.array(per_value(self._spec.problem.costs.weights, to_bytes), np.int64)
        return size[self._ops.stage[ended]]
