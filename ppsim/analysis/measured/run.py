"""A measured run as a Run: a Timeline and a partial Plan, so that metrics and plots serve it like a simulated one.

The plan holds the ops, their order, placement and dependencies; it knows no bytes and no memory. Of a trace whose times
go on from step to step (ppsim's own) all steps are shown, else one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ppsim.analysis.measured.lanes import Lanes
from ppsim.analysis.measured.replay import Replay
from ppsim.costs.given import GivenCosts
from ppsim.costs.setting import Setting
from ppsim.engine.timeline import Timeline
from ppsim.hardware.cluster import Topology
from ppsim.metrics import Run
from ppsim.ops import COMPUTE, NONE, Kind, Longs, Op, OpTable, Orders, from_ops
from ppsim.ops.placement import inferred
from ppsim.plan import Plan, build, check
from ppsim.plan.spec import PlanSpec
from ppsim.schedules import Problem

_TICK = Fraction(1, 10**9)


@dataclass(frozen=True, eq=False)
class MeasuredTimeline(Timeline):
    """A Timeline whose transfers take what was measured, each its own time."""

    moments: tuple[Longs, Longs] | None = None
    """When each transfer left and arrived."""

    @property
    def left(self) -> Longs:
        """When each transfer freed its ports."""
        return self.transfer_start if self.moments is None else self.moments[0]

    @property
    def arrive(self) -> Longs:
        """When each transfer was there."""
        return self.transfer_start if self.moments is None else self.moments[1]


def run_of(replay: Replay, replica: int, steps: Sequence[int]) -> Run:
    """One replica's ops in those steps (by their places), from the first start on.

    Dependencies are told where every message was recorded by the source itself, so that no wait is left unexplained.
    Raises ScheduleError where the ops are no legal order.
    """
    lanes = replay.lanes
    plan = _plan(lanes, replica, steps)
    start, end = _times(lanes, plan, replica, steps)
    moments = _messages(replay, plan, (replica, steps), end)
    origin = int(start.min())
    ready, sent, left, arrive = (moment - origin for moment in moments)
    timeline = MeasuredTimeline(plan, start - origin, end - origin, ready, sent, moments=(left, arrive))
    told = frozenset({"dependencies"}) if lanes.measured.messages is not None else frozenset()
    return Run(plan, timeline, None, told)  # type: ignore[arg-type]


def compute_span(run: Run) -> int:
    """Ns from the first compute op's start to the last one's end."""
    mine = np.isin(run.plan.ops.kind, [int(kind) for kind in COMPUTE])
    return int(run.timeline.end[mine].max() - run.timeline.start[mine].min())


def _plan(lanes: Lanes, replica: int, steps: Sequence[int]) -> Plan:
    """The order in which the ops ran, with their dependencies; no op takes any time in it."""
    measured = lanes.measured
    ends_with_optimizer = bool(np.any(lanes.kind == Kind.OPTIM)) and lanes.measured.messages is not None
    optimizer = _TICK if ends_with_optimizer else 0 * _TICK
    costs = GivenCosts(per="stage", forward=_TICK, input_grad=_TICK, weight_grad=_TICK, optimizer=optimizer)
    placement = inferred(measured.stages_of)
    per_stage = costs.stage_costs(Setting(placement))
    problem = Problem(measured.ranks, measured.microbatches, placement, per_stage, steps=len(steps))
    orders = Orders.of([_order(lanes, rank, replica, steps[0]) for rank in range(measured.ranks)])
    return build(check(orders, problem, measured.source), PlanSpec(problem, Topology(None, measured.ranks)))


def _order(lanes: Lanes, rank: int, replica: int, step: int) -> OpTable:
    """A rank's ops in the order of one step; fused pairs as one."""
    mine = lanes.of_rank(rank, lanes.computes)
    start, end = lanes.start[mine, replica, step], lanes.end[mine, replica, step]
    cells: list[Op | tuple[Op, ...]] = []
    for node in mine[np.lexsort((lanes.seconds[mine], end, start))].tolist():
        if lanes.seconds[node]:
            continue
        pair = [node] + ([int(lanes.partner[node])] if lanes.partner[node] != NONE else [])
        cells.append(tuple(Op(Kind(int(lanes.kind[i])), int(lanes.stage[i]), int(lanes.microbatch[i])) for i in pair))
    return from_ops(cells)


def _times(lanes: Lanes, plan: Plan, replica: int, steps: Sequence[int]) -> tuple[Longs, Longs]:
    """Start and end of every row; an optimizer that wasn't recorded takes no time after its rank's last op."""
    where = lanes.where()
    optimizer = {int(lanes.rank[node]): node for node in np.flatnonzero(lanes.kind == Kind.OPTIM).tolist()}
    ops = plan.ops
    columns = (ops.kind.tolist(), ops.stage.tolist(), ops.microbatch.tolist())
    nodes = [where.get(key, -1) for key in zip(*columns, strict=True)]
    start, end = np.zeros((2, len(ops)), np.int64)
    for row, (node, rank, step) in enumerate(zip(nodes, ops.rank.tolist(), np.asarray(ops.step).tolist(), strict=True)):
        node = optimizer.get(rank, -1) if ops.kind[row] == Kind.OPTIM else node
        if node >= 0:
            start[row], end[row] = (times[node, replica, steps[step]] for times in (lanes.start, lanes.end))
        else:
            start[row] = end[row] = end[row - 1]
    return start, end


def _messages(
    replay: Replay, plan: Plan, which: tuple[int, Sequence[int]], end: Longs
) -> tuple[Longs, Longs, Longs, Longs]:
    """When each transfer was ready, started, left and arrived; what wasn't recorded is when its producer ended."""
    lanes, hops = replay.lanes, replay.hops
    replica, steps = which
    producer, route = plan.transfers.producer, plan.transfers.route
    ready = end[producer].copy()
    start, left, arrive = ready.copy(), ready.copy(), ready.copy()
    made = {(int(p), int(d)): row for row, (p, d) in enumerate(zip(hops.producer, hops.dst, strict=True))}
    recorded = _recorded(lanes)
    where, ops = lanes.where(), plan.ops
    for i, row in enumerate(producer.tolist()):
        key = (int(ops.kind[row]), int(ops.stage[row]), int(ops.microbatch[row]))
        dst, step = int(plan.routes.dst[route[i]]), steps[int(ops.step[row])]
        told = recorded.get((step, *key, dst))
        hop = made.get((where.get(key, -1), dst))
        if told is not None:
            ready[i], start[i], left[i], arrive[i] = told
        elif hop is not None and not np.isnan(hops.transit[hop, replica, step]):
            left[i] = arrive[i] = ready[i] + int(hops.transit[hop, replica, step])
    return ready, start, left, arrive


def _recorded(lanes: Lanes) -> dict[tuple[int, ...], tuple[int, int, int, int]]:
    """Each message that the source tells of: its moments, by step, op that made it and receiver."""
    messages = lanes.measured.messages
    if messages is None:
        return {}
    place = {number: i for i, number in enumerate(lanes.steps)}
    steps = [place.get(lanes.measured.steps[step], -1) for step in messages.step.tolist()]
    about = (messages.kind, messages.stage, messages.microbatch, messages.dst)
    moments = (messages.ready, messages.start, messages.left, messages.arrive)
    keys = zip(steps, *(column.tolist() for column in about), strict=True)
    return dict(zip(keys, zip(*(column.tolist() for column in moments), strict=True), strict=True))
