"""The closed form of a schedule beside its simulated run."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ppsim._latest import Latest
from ppsim.costs.base import StageCosts, uniform
from ppsim.engine.timeline import PER_SECOND
from ppsim.metrics import Run, links
from ppsim.schedules.base import Problem, Schedule
from ppsim.schedules.theory import Sizes


def closed_form(schedule: Schedule, problem: Problem, run: Run) -> dict[str, Any]:
    """The closed form's figures for one step; empty where none is known."""
    flight = _flight(run)
    key = (id(schedule), id(problem.costs), problem.ranks, problem.stages, problem.microbatches, flight)
    return dict(_KNOWN.of(key, lambda: (_figures(schedule, problem, flight), schedule, problem.costs))[0])


_KNOWN: Latest[tuple[dict[str, Any], Schedule, StageCosts]] = Latest(64)
"""Figures by what they follow from: cases that differ in their links' bandwidth alone have the same."""


def _figures(schedule: Schedule, problem: Problem, flight: int) -> dict[str, Any]:
    form = schedule.theory()
    if form is None:
        return {}
    seen = _sizes(problem, flight)
    bubble_s = form.bubble(seen)
    if bubble_s is None:
        return {}
    work = form.work(seen)
    total = work + bubble_s
    return {
        "makespan_s": float(total),
        "bubble_ratio": float(bubble_s / total) if total else None,
        "bubble_overhead": float(bubble_s / work) if work else None,
        "source": form.source,
        "assumes": "equal stages, equal microbatches, links that are free or a latency alone",
    }


def seen_sizes(problem: Problem, run: Run) -> Sizes:
    """The problem as the closed forms see it: mean stage times, and the latency where all links are that alone."""
    return _sizes(problem, _flight(run))


def _flight(run: Run) -> int:
    """The latency in ns of all links that are used, where they are that alone; else 0."""
    routes, used = run.plan.routes, run.once(links.messages) > 0
    flights = set(routes.latency[used].tolist())
    return flights.pop() if len(flights) == 1 and not routes.occupancy[used].any() else 0


def _sizes(problem: Problem, flight: int) -> Sizes:
    costs, p = problem.costs, problem.ranks
    mean = {name: _mean(getattr(costs, name)) for name in ("forward", "backward", "input_grad", "weight_grad")}
    return Sizes(
        p=p,
        m=problem.microbatches,
        v=max(problem.stages // p, 1),
        latency=Fraction(flight, PER_SECOND),
        pair=None if costs.overlapped is None else _mean(costs.overlapped),
        **mean,
    )


def _mean(values: Sequence[Fraction]) -> Fraction:
    """Exact; one value for all stages, the usual case, isn't added up."""
    return values[0] if uniform(values) else sum(values, Fraction(0)) / len(values)
