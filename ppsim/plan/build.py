"""plan.build: the flow from Orders to a Plan, step by step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ppsim.config.experiment import Experiment
from ppsim.errors import ConfigError, Notice
from ppsim.ops import NONE, Constant, Ints, Kind, Longs, Orders
from ppsim.plan import holdings as memory
from ppsim.plan.check import CheckedOrders
from ppsim.plan.durations import RouteBook, Weights, durations, fused_durations
from ppsim.plan.links import link_up
from ppsim.plan.sending import leave_at_once
from ppsim.plan.table import Holdings, Plan, Routes
from ppsim.plan.unroll import unrolled, with_recompute
from ppsim.plan.versions import versions
from ppsim.schedules.base import Problem, Schedule
from ppsim.units import COUNTABLE, COUNTED, to_bytes


def build(orders: Orders, problem: Problem, experiment: Experiment, schedule: Schedule) -> Plan:
    """Orders + StageCosts + Cluster -> Plan."""
    topology = experiment.topology()
    weights = Weights(experiment, problem)
    ops = unrolled(with_recompute(orders, problem, experiment), problem, experiment, schedule.asynchronous)
    duration = durations(ops, problem, experiment, topology, weights)

    atomic = problem.costs.atomic_pairs
    head = np.empty(0, np.int64)
    if atomic and not isinstance(ops.group, Constant):
        paired = ops.group != NONE
        head = np.flatnonzero(paired[:-1] & paired[1:] & (ops.group[:-1] == ops.group[1:]))
    if len(head):
        together = fused_durations(ops, head, problem, experiment, topology, weights)
        duration[head] = duration[head] + duration[head + 1] if together is None else together
        duration[head + 1] = 0

    routes = RouteBook(topology)
    links = link_up(
        ops, head, problem, experiment, schedule, weights, routes, orders.after, isinstance(orders, CheckedOrders)
    )
    kept_versions = versions(ops, links.events, problem, schedule)
    found = routes.finish()
    at_once = leave_at_once(ops, found, experiment)
    held, in_flight = memory.holdings(ops, links.messages, links.events, problem, weights, at_once, kept_versions)
    capacity = topology.cluster.device.memory
    static = memory.static(problem)
    _countable(duration, links.transfers.route, found, held, static)
    return Plan(
        ops=ops,
        duration=duration,
        atomic=bool(len(head)),
        start_needs=links.start_needs,
        end_needs=links.end_needs,
        transfers=links.transfers,
        routes=found,
        ports=routes.ports,
        holdings=held,
        in_flight=in_flight,
        static=static,
        capacity=None if capacity is None else to_bytes(capacity),
        placement=problem.placement,
        microbatches=problem.microbatches // len(problem.slices),
        steps=experiment.pipeline.steps,
        barrier=experiment.runtime.barrier,
        asynchronous=schedule.asynchronous,
        versions=kept_versions,
        notices=tuple(_notices(ops.kind, problem)),
    )


def _countable(duration: Longs, route: Ints, routes: Routes, held: Holdings, static: Longs) -> None:
    """Raise ConfigError where sums over all ranks may be more than 64 bits hold: no figure is ever wrong by that."""
    ranks = static.shape[1]
    passes = np.bincount(route, minlength=len(routes.src)).astype(float)
    seconds = ranks * (duration.sum(dtype=float) + float(passes @ (routes.occupancy + routes.latency))) / 1e9
    size = held.bytes.sum(dtype=float) + static.sum(dtype=float)
    for what, value, counted in (("times", seconds, COUNTED["time"]), ("sizes", size, COUNTED["size"])):
        if value * counted.per_si > 2 * COUNTABLE:
            raise ConfigError(
                f"costs: the {what} of the whole run, on all ranks, add up to {value:.4g} {counted.unit}, "
                "more than can be counted; are the units as meant?"
            )


def _notices(kind: NDArray[np.int8], problem: Problem) -> list[Notice]:
    halves = bool(np.any((kind == Kind.I) | (kind == Kind.W)))
    if halves and problem.costs.halves_assumed:
        return [
            Notice(
                "halves_assumed",
                "costs.backward",
                "the order splits the backward, the costs don't: each half is taken as half of it; give input_grad: "
                "and weight_grad:",
            )
        ]
    return []
