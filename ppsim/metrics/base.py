"""What a metric is: a small pure function of a Run, with its unit, its definition and what it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from ppsim.engine.timeline import Timeline
from ppsim.plan.table import Plan
from ppsim.schedules.base import Problem

T = TypeVar("T")
Need = Literal["dependencies", "costs", "memory", "links", "samples", "flops", "stream"]
"""Beyond the times of ops: what they waited for, what they cost, what they hold, transfers, sizes of the model."""


@dataclass(frozen=True, eq=False)
class Run:
    """One executed plan and what is known beside it; measured runs know less than simulated ones."""

    plan: Plan
    timeline: Timeline
    problem: Problem | None = None
    knows: frozenset[Need] = frozenset()
    samples_per_step: int | None = None
    flops_per_step: int | None = None
    peak_flops: int | None = None
    _made: dict[Callable[[Run], Any], Any] = field(default_factory=dict, repr=False)

    @property
    def compiled(self) -> bool:
        """Whether what goes through all events is compiled: as the engine was."""
        return self.timeline.compiled

    def once(self, make: Callable[[Run], T]) -> T:
        """``make(self)``, computed once: tables that several metrics share."""
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Metric:
    """A figure of the summary."""

    name: str
    unit: str
    definition: str
    needs: tuple[Need, ...]
    compute: Callable[[Run], Any]

    def of(self, run: Run) -> Any:
        """The figure, or None where the run doesn't know what it needs."""
        return self.compute(run) if set(self.needs) <= run.knows else None


METRICS: dict[str, Metric] = {}
"""Every metric by its name, in the order of the files that define them."""


def scalars(run: Run) -> dict[str, Any]:
    """Every figure that is one value, by its name."""
    return {name: found.of(run) for name, found in METRICS.items() if found.unit != "table"}


def metric(
    name: str, *, unit: str, definition: str, needs: tuple[Need, ...] = ()
) -> Callable[[Callable[[Run], T]], Callable[[Run], T]]:
    """Register a function of a Run as the metric of that name."""

    def register(function: Callable[[Run], T]) -> Callable[[Run], T]:
        METRICS[name] = Metric(name, unit, definition, needs, function)
        return function

    return register
