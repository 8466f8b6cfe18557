"""A cause that a run has, the same run without it, and the words and changes that causes share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from ppsim._words import seconds
from ppsim.analysis.result import Result
from ppsim.engine.timeline import PER_SECOND
from ppsim.plan import PlanSpec
from ppsim.schedules import Schedule


@dataclass(frozen=True)
class Case:
    """A run, and what its plan was built from."""

    result: Result
    spec: PlanSpec


@dataclass(frozen=True)
class Remedy:
    """A cause that a run has, and the run without it."""

    cause: str
    found: str
    """What was found, as in 'rank 7 has 12 % more work than the mean'."""
    without: str
    """What the step is without it, as in 'balanced it would be'."""
    change: Callable[[PlanSpec], PlanSpec]
    schedule: Schedule | None = None
    """What lists the orders of the changed run, where they aren't the same."""
    steps: int = 1
    """The changed run does the work of so many of today's."""


def times_scaled(spec: PlanSpec, factors: list[Fraction]) -> PlanSpec:
    """The same with each stage's times multiplied by its factor."""
    costs = spec.problem.costs
    timed = ("forward", "backward", "input_grad", "weight_grad", "recompute")
    changes = {name: tuple(v * f for v, f in zip(getattr(costs, name), factors, strict=True)) for name in timed}
    if costs.overlapped is not None:
        changes["overlapped"] = tuple(v * f for v, f in zip(costs.overlapped, factors, strict=True))
    return with_costs(spec, **changes)


def with_costs(spec: PlanSpec, **changes: tuple[Fraction, ...]) -> PlanSpec:
    """The same with other costs per stage."""
    costs = replace(spec.problem.costs, **changes)  # type: ignore[arg-type]  # the changes are of per-stage values
    return replace(spec, problem=replace(spec.problem, costs=costs))


def ranks_named(ranks: list[int]) -> str:
    """'rank 3', or 'ranks 0, 3'."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = ", ".join(map(str, ranks[:4])) + (", …" if len(ranks) > 4 else "")
    return f"ranks {shown}"


def time(ns: int) -> str:
    """Nanoseconds in words: '41.3 ms'."""
    return seconds(ns / PER_SECOND)
