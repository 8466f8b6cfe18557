"""The closed form of a schedule beside its simulated run."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ppsim.costs.base import uniform
from ppsim.engine.timeline import PER_SECOND
from ppsim.metrics import Run, links
from ppsim.schedules.base import Problem, Schedule
from ppsim.schedules.theory import Sizes


def closed_form(schedule: Schedule, problem: Problem, run: Run) -> dict[str, Any]:
    """The closed form's figures for one step; empty where none is known."""
    form = schedule.theory()
    if form is None:
        return {}
    seen = seen_sizes(problem, run)
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
    costs, routes, p = problem.costs, run.plan.routes, problem.ranks
    used = run.once(links.messages) > 0
    flights = set(routes.latency[used].tolist())
    only_latency = len(flights) == 1 and not routes.occupancy[used].any()
    mean = {name: _mean(getattr(costs, name)) for name in ("forward", "backward", "input_grad", "weight_grad")}
    return Sizes(
        p=p,
        m=problem.microbatches,
        v=max(problem.stages // p, 1),
        latency=Fraction(flights.pop(), PER_SECOND) if only_latency else Fraction(0),
        pair=None if costs.overlapped is None else _mean(costs.overlapped),
        **mean,
    )


def _mean(values: Sequence[Fraction]) -> Fraction:
    """Exact; one value for all stages, the usual case, isn't added up."""
    return values[0] if uniform(values) else sum(values, Fraction(0)) / len(values)
