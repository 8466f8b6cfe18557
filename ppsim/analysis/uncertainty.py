"""Repeats of a plan with random times, and how far its figures spread.

A repeat is the same plan with other durations: nothing else of the flow knows about chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppsim.config.uncertainty import Uncertainty
from ppsim.ops import Longs
from ppsim.plan.table import Lines, Plan, Routes

Factors = NDArray[np.float64]
CONFIDENCE = 0.95


def repeats(plan: Plan, settings: Uncertainty, measure: Callable[[Plan], dict[str, Any]]) -> dict[str, Any]:
    """``measure`` of every repeat, as statistics per figure; figures that aren't numbers in each are left out.

    Each repeat has random numbers of its own, so that the first n are the same however many follow.
    """
    streams = np.random.SeedSequence(settings.seed).spawn(settings.repeat)
    measured = [measure(perturbed(plan, settings, stream)) for stream in streams]
    figures = [name for name in measured[0] if all(_is_number(repeat[name]) for repeat in measured)]
    return {
        "repeat": settings.repeat,
        "seed": settings.seed,
        "figures": {name: statistics([repeat[name] for repeat in measured]) for name in figures},
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def perturbed(plan: Plan, settings: Uncertainty, stream: np.random.SeedSequence) -> Plan:
    """The plan with its times drawn anew: durations, occupancies and latencies times a factor, rounded half up.

    Where all factors are 1 the plan is as it was. Ops, transfers and stragglers draw from streams of their own, so that
    a change of one leaves the others' numbers alone.
    """
    of_ops, of_transfers, of_ranks = (np.random.default_rng(child) for child in stream.spawn(3))
    jitter = settings.jitter
    factor = _factors(jitter.ops, jitter.scope, plan.ops.rank, plan.ops.ranks, of_ops)
    for slow in settings.stragglers:
        if of_ranks.random() < slow.probability:
            factor[plan.ops.rank == slow.rank] *= float(slow.factor)
    routes, transfers = plan.routes, plan.transfers
    if jitter.transfers and len(transfers):
        sender = routes.src[transfers.route]
        on_way = _factors(jitter.transfers, jitter.scope, sender, plan.ops.ranks, of_transfers)
        routes = _own_routes(routes, transfers.route, on_way)
        lines = _own_lines(plan.lines, transfers.route, on_way)
        transfers = replace(transfers, route=np.arange(len(transfers), dtype=np.int32))
        plan = replace(plan, lines=lines)
    return replace(plan, duration=_scaled(plan.duration, factor), routes=routes, transfers=transfers)


def _factors(
    variation: float, scope: str, rank: NDArray[np.signedinteger], ranks: int, source: np.random.Generator
) -> Factors:
    """A factor per row: lognormal with mean 1 and this standard deviation; exactly 1 where that is 0."""
    if not variation:
        return np.ones(len(rank))
    sigma = math.sqrt(math.log1p(variation**2))
    drawn = source.standard_normal({"op": len(rank), "rank": ranks, "shared": 1}[scope])
    factors: Factors = np.exp(sigma * drawn - sigma**2 / 2)
    return factors if scope == "op" else factors[rank] if scope == "rank" else np.full(len(rank), factors[0])


def _scaled(ns: Longs, factor: Factors) -> Longs:
    return np.floor(ns * factor + 0.5).astype(np.int64)


def _own_routes(routes: Routes, route: NDArray[np.int32], factor: Factors) -> Routes:
    """A route for every transfer, with its own times."""
    return Routes(
        routes.src[route],
        routes.dst[route],
        routes.bytes[route],
        _scaled(routes.occupancy[route], factor),
        _scaled(routes.latency[route], factor),
        routes.egress[route],
        routes.ingress[route],
    )


def _own_lines(lines: Lines | None, route: NDArray[np.int32], factor: Factors) -> Lines | None:
    """The lines of a route for every transfer, with its own work."""
    if lines is None:
        return None
    scaled = tuple(
        lines.work[way] * Fraction(times) for way, times in zip(route.tolist(), factor.tolist(), strict=True)
    )
    return Lines(lines.capacity, scaled, tuple(lines.lines[way] for way in route.tolist()))


def statistics(values: Sequence[float]) -> dict[str, float | None]:
    """Mean, median, 95th and 99th percentile, and the 95 % confidence interval of the mean (None of one value).

    Equal values give exactly that value. Percentiles are interpolated between the two nearest values.
    """
    first, count = values[0], len(values)
    shifted = [value - first for value in values]
    shift = math.fsum(shifted) / count
    p50, p95, p99 = np.percentile(shifted, [50, 95, 99]).tolist()
    half = None
    if count > 1:
        variance = math.fsum((value - shift) ** 2 for value in shifted) / (count - 1)
        half = student(CONFIDENCE, count - 1) * math.sqrt(variance / count)
    return {
        "mean": first + shift,
        "p50": first + p50,
        "p95": first + p95,
        "p99": first + p99,
        "ci95_low": None if half is None else first + (shift - half),
        "ci95_high": None if half is None else first + (shift + half),
    }


def student(confidence: float, freedom: int) -> float:
    """Student's t, two-sided: with that confidence |t| is no larger.

    Exact for one and two degrees of freedom, else by the expansion in 1 / freedom, right to 0.2 % from three on.
    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    p = (1 + confidence) / 2
    if freedom == 1:
        return math.tan(math.pi * (p - 0.5))
    if freedom == 2:
        return (2 * p - 1) / math.sqrt(2 * p * (1 - p))
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / float(freedom) ** power for power, term in enumerate(terms, start=1))
