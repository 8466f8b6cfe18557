"""Durations: what each op takes, in ns, rounded once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ppsim.costs.base import per_value, times, uniform
from ppsim.ops import COMPUTE, Kind, Longs, Numbers, OpTable, narrowest
from ppsim.plan.spec import PlanSpec
from ppsim.units import to_ns


def durations(ops: OpTable, pairs: Numbers, spec: PlanSpec) -> Longs:
    """Nanoseconds of every op; of an atomic fused pair (``pairs``: its forward's row) all of it on its first row."""
    duration = _single(ops, spec)
    if len(pairs):
        overlapped = spec.problem.costs.overlapped
        alone = duration[pairs] + duration[pairs + 1]
        duration[pairs] = alone if overlapped is None else _together(ops, pairs, overlapped, spec)
        duration[pairs + 1] = 0
    return duration


def _single(ops: OpTable, spec: PlanSpec) -> Longs:
    """Of every row by itself: cost · weight / speed + op_overhead."""
    problem, weights = spec.problem, spec.weights
    speeds = [spec.topology.speed(r) for r in range(problem.ranks)]
    distinct_speeds = [speeds[0]] if uniform(speeds) else sorted({s.as_integer_ratio(): s for s in speeds}.values())

    def ns(seconds: Fraction) -> list[list[int]]:
        """By weight and speed."""
        weighted = [times(seconds, weight) for weight in weights.distinct]
        return [[to_ns(_run(value, speed, problem.op_overhead)) for speed in distinct_speeds] for value in weighted]

    table = np.zeros((len(Kind), problem.stages, len(weights.distinct), len(distinct_speeds)), np.int64)
    for kind in COMPUTE:
        if ops.index.has(kind):
            table[kind] = per_value(problem.costs.seconds(kind), ns)
    # Row by row the place in the flattened table; what is the same for all rows adds nothing.
    place = ops.kind.astype(narrowest(table.size))
    place *= problem.stages
    place += ops.stage
    if len(weights.distinct) > 1:
        place *= len(weights.distinct)
        place += weights.index(ops.microbatch)
    if len(distinct_speeds) > 1:
        place *= len(distinct_speeds)
        place += np.array([distinct_speeds.index(speed) for speed in speeds], np.int64)[ops.rank]
    out: Longs = table.ravel()[place]
    optimizers = ops.index.select(Kind.OPTIM)
    if len(optimizers):
        held = problem.placement.stages_of
        seconds = [sum((problem.costs.optimizer[stage] for stage in mine), Fraction(0)) for mine in held]
        of_rank = np.array([to_ns(value / speed) for value, speed in zip(seconds, speeds, strict=True)])
        out[optimizers] = of_rank[ops.rank[optimizers]]
    return out


def _run(seconds: Fraction, speed: Fraction, overhead: Fraction) -> Fraction:
    """What an op takes on a rank of that speed; 1 and 0, as they mostly are, take no new fraction."""
    alone = seconds if speed == 1 else seconds / speed
    return alone + overhead if overhead else alone


def _together(ops: OpTable, forward: Numbers, overlapped: tuple[Fraction, ...], spec: PlanSpec) -> Longs:
    """Of fused pairs whose time is given; the longer of a pair's two microbatches counts."""
    weights = spec.weights
    longer = np.maximum(weights.index(ops.microbatch[forward]), weights.index(ops.microbatch[forward + 1]))
    columns = np.stack([ops.stage[forward], longer, ops.rank[forward]], axis=1)
    cases, case_of = np.unique(columns, axis=0, return_inverse=True)
    ns = [
        to_ns(_run(overlapped[s] * weights.distinct[w], spec.topology.speed(r), spec.problem.op_overhead))
        for s, w, r in cases.tolist()
    ]
    return np.array(ns, np.int64)[case_of.ravel()]
