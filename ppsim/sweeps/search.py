"""Branch and bound: the fastest cases of a sweep that fit into memory, with most cases never simulated.

Cases are taken in the order of the least time they can take (``bound``). Once that is more than the time of the worst
of the best so far, none of the rest can be among them. So the answer is that of simulating everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from ppsim.errors import ConfigError
from ppsim.sweeps.bound import step_bound, too_large
from ppsim.sweeps.cases import Base, Case, Resolver
from ppsim.sweeps.columns import Cell, Cells, Column
from ppsim.sweeps.crew import Crew
from ppsim.sweeps.db import Row
from ppsim.sweeps.figures import work
from ppsim.sweeps.work import Task

Figures = dict[str, Any]


class Candidate(NamedTuple):
    """A case that may be the best: the seconds that its step takes at least, its id, and what it sets."""

    bound: float
    """A little less than the exact one, so that rounding never makes it too large."""
    id: str
    changes: str
    parameters: dict[str, Cell]


@dataclass
class Space:
    """What is to be searched, and what was left out before."""

    candidates: list[Candidate] = field(default_factory=list)
    legal: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    too_large: int = 0
    """Cases whose weights, gradients and optimizer state alone don't fit."""


@dataclass
class Found:
    """The best cases, best first, and how many it took to be sure."""

    best: list[Figures] = field(default_factory=list)
    simulated: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    unfit: int = 0
    """Simulated cases that don't fit into memory."""
    stopped: bool = False


def space(base: Base, listed: Iterable[Case], columns: list[Column]) -> Space:
    """The candidates of a listing, by what they take at least.

    Raises ConfigError where their step times don't compare: times drawn at random, or unequal work.
    """
    resolver, cells = Resolver(base), Cells(columns)
    found = Space()
    works: dict[Fraction, Case] = {}
    seen: set[str] = set()
    for case in listed:
        if case.reason is not None:
            found.skipped.append((case.reason, case.text))
            continue
        if case.id in seen:
            continue
        seen.add(case.id)
        experiment = resolver.experiment(resolver.settled(case.settings, legal=True))
        if experiment.uncertainty is not None:
            raise ConfigError(f"{base.path}: uncertainty: a search compares exact step times; leave it out")
        problem = experiment.problem()
        works.setdefault(work(experiment, problem), case)
        if len(works) > 1:
            raise ConfigError(f"{base.path}: sweep: {_unequal(works)}")
        found.legal += 1
        if too_large(experiment, problem):
            found.too_large += 1
            continue
        bound = float(step_bound(experiment, problem)) * (1 - 1e-12)
        changes = case.text
        found.candidates.append(Candidate(bound, case.id, changes, cells.of(case.settings)))
    found.candidates.sort(key=lambda candidate: candidate[:2])
    return found


def _unequal(works: dict[Fraction, Case]) -> str:
    (a, first), (b, second) = works.items()
    return (
        "a search compares step times, which takes the same work in every step; "
        f"{first.text} computes {float(a):.6g} s, "
        f"{second.text} {float(b):.6g} s: give costs per: model, and keep "
        "micro_batch_size · microbatches · data_parallel the same with where: or pipeline.global_batch"
    )


def search(
    crew: Crew,
    found: Space,
    top: int,
    watch: Callable[[Found], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Found:
    """The ``top`` fastest of the candidates that fit, by step time, then peak memory, then id."""
    result = Found()
    named = {candidate.id: candidate for candidate in found.candidates}
    waiting = iter(found.candidates)
    following = next(waiting, None)

    def source(_: int) -> list[Task]:
        nonlocal following
        if following is None:
            return []
        worst = result.best[top - 1]["step_time_s"] if len(result.best) >= top else None
        if worst is not None and following.bound > worst:
            return []
        task = (following.id, following.changes)
        following = next(waiting, None)
        return [task]

    def sink(rows: list[Row]) -> None:
        for row in rows:
            _take(result, row, named[row.id], top)
        watch(result)

    result.stopped = not crew.work(source, sink, stop)
    return result


def _take(result: Found, row: Row, candidate: Candidate, top: int) -> None:
    """A case's row, into the best if it is one of them."""
    result.simulated += 1
    if row.error is not None:
        result.failed.append((row.error, candidate.changes))
        return
    figures: Figures = row.figures
    if figures["step_time_s"] < candidate.bound:
        raise RuntimeError(f"the bound of {candidate.changes}, {candidate.bound} s, is above its step time")
    if figures.get("fits") is False:
        result.unfit += 1
        return
    result.best.append({**figures, **candidate.parameters, "id": row.id, "changes": candidate.changes})
    result.best.sort(key=lambda case: (case["step_time_s"], case["peak_memory_bytes"], case["id"]))
    del result.best[top:]
