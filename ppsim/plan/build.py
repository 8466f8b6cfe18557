"""plan.build: the flow from Orders to a Plan, step by step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ppsim.config.experiment import Experiment
from ppsim.errors import ConfigError, Notice
from ppsim.ops import NONE, Kind, Orders
from ppsim.plan import holdings as memory
from ppsim.plan.durations import RouteBook, Weights, durations, fused_durations
from ppsim.plan.index import Index
from ppsim.plan.links import link_up
from ppsim.plan.rows import build_rows, with_recompute
from ppsim.plan.sending import leave_at_once
from ppsim.plan.table import Holdings, Ints, Longs, Plan, Routes
from ppsim.plan.versions import versions
from ppsim.schedules.base import Problem, Schedule
from ppsim.units import COUNTABLE, COUNTED, to_bytes


def build(
    orders: Orders, problem: Problem, experiment: Experiment, schedule: Schedule, index: Index | None = None
) -> Plan:
    """Orders + StageCosts + Cluster -> Plan; the orders are legal (see ``check``, which gives their index)."""
    topology = experiment.topology()
    weights = Weights(experiment, problem)
    recomputing = with_recompute(orders, problem, experiment)
    rows = build_rows(recomputing, problem, experiment, schedule.asynchronous, index)
    duration = durations(rows, problem, experiment, topology, weights)

    atomic = problem.costs.atomic_pairs
    paired = rows.group != NONE
    same = paired[:-1] & paired[1:] & (rows.group[:-1] == rows.group[1:])
    head = np.flatnonzero(same) if atomic else np.empty(0, np.int64)
    if len(head):
        together = fused_durations(rows, head, problem, experiment, topology, weights)
        duration[head] = duration[head] + duration[head + 1] if together is None else together
        duration[head + 1] = 0

    routes = RouteBook(topology)
    links = link_up(rows, head, problem, experiment, schedule, weights, routes, orders.after, checked=index is not None)
    kept_versions = versions(rows, links.events, problem, schedule)
    found = routes.finish()
    at_once = leave_at_once(rows, found, experiment)
    held, in_flight = memory.holdings(rows, links.messages, links.events, problem, weights, at_once, kept_versions)
    capacity = topology.cluster.device.memory
    static = memory.static(problem)
    _countable(duration, links.transfers.route, found, held, static)
    return Plan(
        offsets=rows.offsets,
        rank=rows.rank,
        kind=rows.kind,
        stage=rows.stage,
        microbatch=rows.microbatch,
        step=rows.step,
        group=rows.group,
        peer=rows.peer,
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
        notices=tuple(_notices(rows.kind, problem)),
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
