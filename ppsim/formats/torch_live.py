"""A live torch.distributed.pipelining schedule, in: its order as a Schedule of ours.

Only the object's own tables are read (``pipeline_order``, ``pipeline_order_with_comms``), so that nothing here imports
torch and any version's schedules will do whose actions print as ``2F0``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ppsim.errors import FormatError, shown
from ppsim.ops import COMPUTE, Kind, Op, Ops, Orders, from_ops
from ppsim.ops import orderfile as dialects
from ppsim.ops.placement import Placement, inferred
from ppsim.schedules import Problem, Schedule

FORWARD_ONLY = "_ScheduleForwardOnly"
"""PyTorch's inference schedule, the one class of its own that keeps no table."""


class ExplicitOrders(Schedule):
    """A schedule that is its order: for the sizes that it was made for and no others."""

    name: str = "explicit"
    """Where the order comes from."""
    order: str
    """A row per rank, a cell per op, as in an order file."""

    @cached_property
    def listed(self) -> Orders:
        """The order as a table. Raises FormatError where the text is none."""
        return Orders.of(dialects.read(self.order, "torch", self.name))

    def placement(self, ranks: int) -> Placement:
        """What each rank runs is what it holds."""
        return inferred({op.stage for op in table if op.kind in COMPUTE} for table in self.listed)

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """The order is for so many ranks and microbatches."""
        made_for = 1 + int(self.listed.table.microbatch.max())
        if ranks != self.listed.ranks:
            yield "pipeline.ranks", f"{ranks} ranks, the order of {self.name} is for {self.listed.ranks}"
        if microbatches != made_for:
            yield "pipeline.microbatches", f"{microbatches} microbatches, the order of {self.name} is for {made_for}"

    def orders(self, problem: Problem) -> Orders:
        """The order as it stands."""
        return self.listed


def from_torch(schedule: Any, comms: bool = False) -> ExplicitOrders:
    """The order of a schedule object of torch.distributed.pipelining, of all ranks, whichever rank it was made on.

    Compute ops alone by default, so that ``runtime`` decides how messages are sent and gradients are synced; with
    ``comms`` also the SENDs, RECVs and all else that the object's runtime has put in. Single-stage classes have no such
    table. Schedule1F1B's own table numbers the last rank's forwards from 1; what it runs, and what is returned, begins
    at 0.
    Raises FormatError where the object holds no order.
    """
    name = type(schedule).__name__
    with_comms = getattr(schedule, "pipeline_order_with_comms", None)
    if comms and not with_comms:
        raise FormatError(
            f"{shown(name)} holds no order with communication; leave comms=True out and let ppsim send what is needed"
        )
    order = with_comms or getattr(schedule, "pipeline_order", None)
    if not order and name == FORWARD_ONLY:
        order = {r: [f"{r}F{k}" for k in range(schedule._n_microbatches)] for r in range(schedule._num_stages)}
    if not isinstance(order, Mapping) or not order:
        raise FormatError(
            f"{shown(name)} holds no order of its ranks; a schedule of torch.distributed.pipelining has one in "
            "pipeline_order (a class of your own returns it from _get_pipeline_order)"
        )
    if sorted(order) != list(range(len(order))):
        ranks = ", ".join(map(str, sorted(order)))
        raise FormatError(f"{shown(name)}: pipeline_order is of the ranks {ranks}; they go from 0 on without a gap")
    rows = (",".join(str(action) for action in order[rank] if action is not None) for rank in range(len(order)))
    tables = dialects.read("\n".join(rows), label=name)
    if not comms:
        tables = [table[np.isin(table.kind, COMPUTE)] for table in tables]
    return ExplicitOrders(name=name, order=dialects.write(Orders.of([_counted_from_0(table) for table in tables])))


def _counted_from_0(table: Ops) -> Ops:
    """The ops of one rank; forwards that are numbered one higher than the backwards are numbered as those."""
    forward = {op.microbatch for op in table if op.kind == Kind.F}
    backward = {op.microbatch for op in table if op.kind == Kind.B}
    if not backward or forward != {k + 1 for k in backward}:
        return table
    return from_ops(_one_less(op) for op in table)


def _one_less(op: Op) -> Op:
    return op._replace(microbatch=op.microbatch - 1) if op.kind == Kind.F else op
