"""What limits a step: its root causes, ordered by what the step would win without each, every figure simulated.

A cause is what one could change: unequal stages, a slow rank, a link, too few microbatches. What a rank waits for
(``waits``) is the symptom: a heavy last rank shows as waiting for messages on all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ppsim.analysis.causes import CAUSES
from ppsim.analysis.explain import waiting
from ppsim.analysis.remedy import Case, Remedy, time
from ppsim.analysis.result import Result
from ppsim.analysis.specify import batched, specify
from ppsim.engine import Engine, run
from ppsim.errors import DeadlockError, PpsimError
from ppsim.plan import PlanSpec, build, check
from ppsim.schedules import Limited, Schedule

SHOWN = 3
"""Causes that are named at most."""
WORTH = Fraction(1, 100)
"""A cause that costs less than this part of the step isn't named."""
ENOUGH = 4
"""Microbatches per rank from which on the pipeline's filling and draining isn't named beside another cause; GPipe
calls it negligible from there (Huang et al. 2019, section 2.3)."""
MOST_OPS = 1_000_000
"""Above so many ops in a run the causes aren't simulated; the commonest wait is named."""


@dataclass(frozen=True)
class Limit:
    """A root cause, and the simulated step time (of all steps, ns) without it, alone or with those above it gone."""

    cause: str
    text: str
    without: int


def limits(result: Result) -> tuple[Limit, ...]:
    """At most three causes, the one whose removal wins most first; empty where nothing would win a hundredth.

    A cause that another one hides is named behind it, with both gone; causes that hide each other are named together.
    A schedule that looks at costs lists the changed run's order anew.
    """
    makespan = result.timeline.makespan
    if not makespan or len(result.plan.ops) > MOST_OPS:
        return ()
    spec = specify(result.experiment, result.problem)
    case = Case(result, spec)
    remedies = [remedy for cause in CAUSES if (remedy := cause(case)) is not None]
    runs = _Runs(result, spec)
    alone: dict[str, int] = {}
    worth, enough = makespan * WORTH, spec.problem.microbatches >= ENOUGH * spec.problem.ranks
    found: list[Remedy] = []
    for remedy in sorted(remedies, key=lambda remedy: remedy.cause == "microbatches"):
        if found and enough and remedy.cause == "microbatches":
            break
        alone[remedy.cause] = runs.without([remedy])
        if makespan - alone[remedy.cause] >= worth:
            found.append(remedy)
    found.sort(key=lambda remedy: alone[remedy.cause])
    named = [_limit(remedy, alone[remedy.cause]) for remedy in found[:SHOWN]]
    hidden = [remedy for remedy in remedies if remedy not in found and remedy.schedule is None]
    gone = [remedy for remedy in found if remedy.schedule is None]
    base = runs.without(gone) if gone else makespan
    for remedy in hidden:
        if len(named) == SHOWN or not gone:
            break
        both = runs.without([*gone, remedy])
        if base - both >= worth:
            named.append(Limit(remedy.cause, f"behind that, {_sentence(remedy, both)}", both))
            gone, base = [*gone, remedy], both
    if not named and len(hidden) > 1 and makespan - (all_gone := runs.without(hidden)) >= worth:
        text = "; ".join(remedy.found for remedy in hidden)
        named.append(Limit("together", f"{text}; without all of these it would be {time(all_gone)}", all_gone))
    return tuple(named)


def lines(result: Result) -> list[str]:
    """The limits as text, a line each; where no cause is worth naming, what most of the idle time waits for."""
    return [limit.text for limit in limits(result)] or [waiting(result)]


class _Runs:
    """A run's plan simulated with changes."""

    def __init__(self, result: Result, spec: PlanSpec) -> None:
        self.result, self.spec = result, spec
        self.engine: Engine = "compiled" if result.engine == "compiled" else "simpy"

    def without(self, remedies: list[Remedy]) -> int:
        """The makespan without these causes, ns, for the work of today's steps; today's where it can't be run."""
        spec, orders, steps = self.spec, self.result.orders, 1
        schedule: Schedule | None = self.result.schedule if isinstance(self.result.schedule, Limited) else None
        for remedy in remedies:
            spec, schedule, steps = remedy.change(spec), remedy.schedule or schedule, steps * remedy.steps
        try:
            if schedule is not None:
                orders = check(schedule.orders(spec.problem), spec.problem)
                spec = batched(spec, schedule)
            timeline, _ = run(build(orders, spec), self.engine)
        except (DeadlockError, PpsimError):  # the changed order may be one that this framework can't run
            return self.result.timeline.makespan
        return round(Fraction(timeline.makespan, steps))


def _limit(remedy: Remedy, without: int) -> Limit:
    return Limit(remedy.cause, _sentence(remedy, without), without)


def _sentence(remedy: Remedy, ns: int) -> str:
    return f"{remedy.found}; {remedy.without} {time(ns)}"
