"""What a metric is: a small pure function of a Run, with its unit, its definition and what it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

from ppsim.engine.timeline import Timeline
from ppsim.errors import PpsimError
from ppsim.plan.table import Plan
from ppsim.schedules.base import Problem

T = TypeVar("T")
Need = Literal["dependencies", "costs", "memory", "links", "samples", "flops"]
"""Beyond the times of ops: what they waited for, what they cost, what they hold, transfers, samples and FLOPs."""
SIMULATED: frozenset[Need] = frozenset({"dependencies", "costs", "memory", "links"})
"""What every simulated run knows."""
Scope = Literal["run", "rank", "stage", "link", "pair"]
"""What there is a value for: the run, or each rank, each stage on each of its ranks, each port, each pair of ranks."""
Unit = Literal["s", "B", "1/s", "FLOP/s", "1", "count", "bool", "table"]
"""A table is several figures by their names."""
Better = Literal["low", "high"]


@dataclass(frozen=True, eq=False)
class Run:
    """One executed plan and what is known beside it; measured runs know less than simulated ones."""

    plan: Plan
    timeline: Timeline
    problem: Problem | None = None
    told: frozenset[Need] = frozenset()
    """What plan and problem say of the run, of what metrics need."""
    samples_per_step: int | None = None
    """Of all replicas."""
    tokens_per_step: int | None = None
    """Of all replicas, where costs follow from a model."""
    flops_per_step: int | None = None
    """What the model asks of a step of one pipeline, without what is computed a second time; of one device per rank."""
    peak_flops: int | None = None
    """FLOP/s of all the pipeline's devices together; of one device per rank."""
    sizes_known: bool = True
    """Whether all that takes memory is among the costs; where it isn't, less than a device has proves nothing."""
    _made: dict[Callable[[Run], Any], Any] = field(default_factory=dict, repr=False)

    @cached_property
    def knows(self) -> frozenset[Need]:
        """All that metrics may need and find here."""
        samples: set[Need] = {"samples"} if self.samples_per_step is not None else set()
        flops: set[Need] = {"flops"} if self.flops_per_step is not None and self.peak_flops is not None else set()
        return self.told | samples | flops

    @property
    def compiled(self) -> bool:
        """Whether what goes through all events is compiled: as the engine was."""
        return self.timeline.compiled

    def once(self, make: Callable[[Run], T]) -> T:
        """``make(self)``, computed once: tables that several metrics share."""
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True, eq=False)
class Metric:
    """A figure of the summary. As a decorator it registers the function of a Run that computes it, under its name.

    ``scope`` "run": the function gives one value; else one for each row, in their order: an array, a list, or None.
    """

    scope: Scope
    unit: Unit
    definition: str
    better: Better | None = None
    """Which of two values is better; None where neither is."""
    needs: tuple[Need, ...] = ()
    """A run that doesn't know these has no such figure: it is None."""
    of_work: bool = False
    """It grows with the work of a step, so that it compares only between runs that do the same."""
    name: str = ""
    """By default the function's."""
    compute: Callable[[Run], Any] = field(default=lambda _: None, repr=False)

    def __call__(self, function: Callable[[Run], T]) -> Callable[[Run], T]:
        """Register the function. Raises PpsimError where another module has a metric of that name for that scope."""
        found = replace(self, name=self.name or function.__name__, compute=function)
        taken = METRICS.get((found.scope, found.name))
        if taken is not None and taken.module != found.module:
            raise PpsimError(
                f"metric {found.name} per {found.scope}: {taken.module} has one of that name; choose another"
            )
        METRICS[found.scope, found.name] = found
        REGISTERED.append(found)
        return function

    @property
    def module(self) -> str:
        """Where it is defined."""
        return self.compute.__module__

    def of(self, run: Run) -> Any:
        """The figure, or None where the run doesn't know what it needs."""
        return self.compute(run) if run.knows.issuperset(self.needs) else None


metric = Metric
METRICS: dict[tuple[Scope, str], Metric] = {}
"""Those of the modules that are loaded; ``registry`` knows them all."""
REGISTERED: list[Metric] = []
"""All that were ever registered, those among them whose place another has taken since."""
