"""plan.build: the flow from Orders to a Plan, step by step."""

from __future__ import annotations

from collections.abc import Iterator

from ppsim.errors import ConfigError, Notice
from ppsim.ops import Kind, OpTable
from ppsim.plan.check import CheckedOrders
from ppsim.plan.lines import shared
from ppsim.plan.routes import routed
from ppsim.plan.sending import leave_at_once
from ppsim.plan.spec import PlanSpec
from ppsim.plan.structure import Structures, structure_of
from ppsim.plan.table import Plan
from ppsim.units import COUNTABLE, COUNTED, to_bytes


def build(orders: CheckedOrders, spec: PlanSpec, structures: Structures | None = None) -> Plan:
    """Orders + PlanSpec -> Plan; with ``structures`` what an earlier plan of these orders can share isn't made again.

    Raises ConfigError where times or sizes add up to more than can be counted.
    """
    made = structure_of(orders, spec) if structures is None else structures.of(orders, spec)
    ops, problem, loads = made.ops, spec.problem, made.loads(spec)
    routes, ports, route = routed(made.ways, loads.messages, spec.topology)
    routes, lines = shared(routes, spec.topology)
    held = loads.held(leave_at_once(ops, routes, spec.sending))
    capacity = spec.topology.cluster.device.memory
    plan = Plan(
        ops=ops,
        duration=loads.duration,
        atomic=len(made.pairs) > 0,
        start_needs=made.starts,
        end_needs=made.ends,
        transfers=made.transfers(route),
        routes=routes,
        ports=ports,
        holdings=held.holdings,
        in_flight=made.lifetimes.in_flight,
        static=loads.static,
        capacity=None if capacity is None else to_bytes(capacity),
        placement=problem.placement,
        microbatches=problem.microbatches // len(problem.slices),
        steps=problem.steps,
        barrier=spec.barrier,
        asynchronous=problem.stream,
        versions=made.versions,
        sharing=spec.topology.cluster.sharing,
        lines=lines,
        notices=tuple(_notices(ops, problem.costs.halves_assumed)),
    )
    _countable(plan, loads.busy_ns, held.bytes)
    return plan if spec.sending.transport is None else spec.sending.transport(plan, spec.sending)


def _countable(plan: Plan, busy_ns: float, size: float) -> None:
    """Raise ConfigError where sums over all ranks may be more than 64 bits hold: no figure is ever wrong by that."""
    routes, ranks = plan.routes, plan.ops.ranks
    on_way = float(plan.passes.astype(float) @ (routes.occupancy + routes.latency))
    seconds = ranks * (busy_ns + on_way) / 1e9
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
