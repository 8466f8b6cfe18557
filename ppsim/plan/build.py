"""plan.build: the flow from Orders to a Plan, step by step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ppsim.errors import ConfigError, Notice
from ppsim.ops import NONE, Constant, Kind, Numbers, OpTable
from ppsim.plan.check import CheckedOrders
from ppsim.plan.connect import connect
from ppsim.plan.durations import durations
from ppsim.plan.holdings import holdings, static
from ppsim.plan.routes import routed
from ppsim.plan.sending import leave_at_once
from ppsim.plan.spec import PlanSpec
from ppsim.plan.table import Plan, Transfers
from ppsim.plan.unroll import unrolled, with_recompute
from ppsim.plan.versions import versions
from ppsim.units import COUNTABLE, COUNTED, to_bytes


def build(orders: CheckedOrders, spec: PlanSpec) -> Plan:
    """Orders + PlanSpec -> Plan. Raises ConfigError where times or sizes add up to more than can be counted."""
    problem = spec.problem
    ops = unrolled(with_recompute(orders, spec), spec)
    pairs = _atomic_pairs(ops) if problem.costs.atomic_pairs else np.empty(0, np.int64)
    wiring = connect(ops, pairs, orders.after, spec)
    messages = wiring.messages
    routes, ports, route = routed(messages.src, messages.dst, messages.bytes, spec.topology)
    kept_versions = versions(ops, wiring.events, spec)
    held, in_flight = holdings(wiring, leave_at_once(ops, routes, spec.sending), kept_versions)
    capacity = spec.topology.cluster.device.memory
    plan = Plan(
        ops=ops,
        duration=durations(ops, pairs, spec),
        atomic=len(pairs) > 0,
        start_needs=wiring.starts.finish(),
        end_needs=wiring.ends.finish(),
        transfers=Transfers(route, messages.producer, messages.issuer, messages.consumer, wiring.sends.finish()),
        routes=routes,
        ports=ports,
        holdings=held,
        in_flight=in_flight,
        static=static(problem),
        capacity=None if capacity is None else to_bytes(capacity),
        placement=problem.placement,
        microbatches=problem.microbatches // len(problem.slices),
        steps=problem.steps,
        barrier=spec.barrier,
        asynchronous=problem.stream,
        versions=kept_versions,
        notices=tuple(_notices(ops, problem.costs.halves_assumed)),
    )
    _countable(plan)
    return plan if spec.sending.transport is None else spec.sending.transport(plan, spec.sending)


def _atomic_pairs(ops: OpTable) -> Numbers:
    """The first row of every fused pair."""
    group = ops.group
    if isinstance(group, Constant):
        return np.empty(0, np.int64)
    return np.flatnonzero((group[:-1] != NONE) & (group[:-1] == group[1:]))


def _countable(plan: Plan) -> None:
    """Raise ConfigError where sums over all ranks may be more than 64 bits hold: no figure is ever wrong by that."""
    routes, ranks = plan.routes, plan.ops.ranks
    passes = np.bincount(plan.transfers.route, minlength=len(routes.src)).astype(float)
    on_way = float(passes @ (routes.occupancy + routes.latency))
    seconds = ranks * (plan.duration.sum(dtype=float) + on_way) / 1e9
    size = np.sum(plan.holdings.bytes, dtype=float) + plan.static.sum(dtype=float)
    for what, value, counted in (("times", seconds, COUNTED["time"]), ("sizes", size, COUNTED["size"])):
        if value * counted.per_si > 2 * COUNTABLE:
            raise ConfigError(
                f"costs: the {what} of the whole run, on all ranks, add up to {value:.4g} {counted.unit}, "
                "more than can be counted; are the units as meant?"
            )


def _notices(ops: OpTable, halves_assumed: bool) -> Iterator[Notice]:
    if halves_assumed and ops.index.has(Kind.I, Kind.W):
        yield Notice(
            "halves_assumed",
            "costs.backward",
            "the order splits the backward, the costs don't: each half is taken as half of it; give input_grad: and "
            "weight_grad:",
        )
