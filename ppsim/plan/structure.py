"""Structure: what a plan has before anything takes time or room, and what neighbouring cases therefore share."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ppsim._latest import Latest
from ppsim.ops import NONE, Constant, Ints, Numbers, OpTable
from ppsim.plan.check import CheckedOrders
from ppsim.plan.connect import connect
from ppsim.plan.dependencies import Dependencies
from ppsim.plan.holdings import Lifetimes
from ppsim.plan.loads import Loads
from ppsim.plan.messages import Messages
from ppsim.plan.routes import Ways
from ppsim.plan.spec import PlanSpec
from ppsim.plan.table import Transfers, Versions
from ppsim.plan.unroll import unrolled, with_recompute
from ppsim.plan.versions import versions

KEPT = 16
"""Structures that are kept: a sweep comes back to a few, one after the other."""
KEPT_ROWS = 64_000
"""Ops of each structure whose times and sizes are kept, over all costs: a sweep varies links under the same ones."""


@dataclass(frozen=True, eq=False)
class Structure:
    """The ops of all steps, who waits for whom, which way messages go, and what is held from when to when.

    It follows from the orders and from ``decides`` of their spec alone, whatever ops take, send and hold.
    """

    ops: OpTable
    pairs: Numbers
    """The first row of every atomic fused pair."""
    messages: Messages
    ways: Ways
    starts: Dependencies
    ends: Dependencies
    sends: Dependencies
    lifetimes: Lifetimes
    versions: Versions | None

    @cached_property
    def _loads(self) -> Latest[Loads]:
        return Latest(max(1, KEPT_ROWS // max(1, len(self.ops))))

    def loads(self, spec: PlanSpec) -> Loads:
        """What its ops take and hold under the spec's costs; where they are few, the latest ones are kept."""
        speed = spec.topology.cluster.speed
        key = id(spec.problem.costs), tuple(speed) if isinstance(speed, list) else speed, spec.problem.op_overhead
        return self._loads.of(key, lambda: Loads(self, spec))

    def transfers(self, route: Ints) -> Transfers:
        """The messages, each on its route."""
        messages = self.messages
        return Transfers(route, messages.producer, messages.issuer, messages.consumer, self.sends)


def structure_of(orders: CheckedOrders, spec: PlanSpec) -> Structure:
    """The structure of these orders under this spec."""
    ops = unrolled(with_recompute(orders, spec), spec)
    pairs = _atomic_pairs(ops) if spec.problem.costs.atomic_pairs else np.empty(0, np.int64)
    wiring = connect(ops, pairs, orders.after, spec)
    kept_versions = versions(ops, wiring.events, spec)
    return Structure(
        ops=ops,
        pairs=pairs,
        messages=wiring.messages,
        ways=Ways.of(wiring.messages.src, wiring.messages.dst, spec.topology.ranks),
        starts=wiring.starts.finish(),
        ends=wiring.ends.finish(),
        sends=wiring.sends.finish(),
        lifetimes=Lifetimes(wiring, kept_versions),
        versions=kept_versions,
    )


def decides(spec: PlanSpec) -> Hashable:
    """All of a spec that its structure depends on, beside the orders.

    Of the costs that is which stages have an optimizer; the gradients, where they are sent; the messages, where their
    size decides whether they are buffered.
    """
    problem, costs = spec.problem, spec.problem.costs
    sums = spec.sync.pipelines > 1 or problem.placement.replicated
    return (
        (problem.placement, problem.microbatches, problem.steps, problem.stream, problem.update_every, problem.slices),
        (spec.sending, spec.sync, spec.recompute, spec.microbatch_weights, spec.barrier, spec.version),
        (costs.atomic_pairs, tuple(map(bool, costs.optimizer))),
        costs.summed if sums else None,
        costs.message if spec.sending.eager_bytes is not None else None,
        spec.topology.cluster.sharing,
    )


class Structures:
    """The structures of the latest plans, each by the orders and the settings that it follows from."""

    def __init__(self) -> None:
        self._made: Latest[tuple[Structure, CheckedOrders]] = Latest(KEPT)

    def of(self, orders: CheckedOrders, spec: PlanSpec) -> Structure:
        """The structure of these orders under this spec."""
        return self._made.of((id(orders), decides(spec)), lambda: (structure_of(orders, spec), orders))[0]


def _atomic_pairs(ops: OpTable) -> Numbers:
    """The first row of every fused pair."""
    group = ops.group
    if isinstance(group, Constant):
        return np.empty(0, np.int64)
    return np.flatnonzero((group[:-1] != NONE) & (group[:-1] == group[1:]))
