"""Flow: from an experiment to its executed run; what neighbouring cases share is made once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from ppsim.analysis.specify import specify
from ppsim.config.experiment import Experiment
from ppsim.costs.shared import SharedCosts
from ppsim.engine import Engine, fastest, run
from ppsim.engine.watch import Watch
from ppsim.errors import ConfigError, DeadlockError, ScheduleError, shown
from ppsim.metrics import Run
from ppsim.metrics.base import SIMULATED
from ppsim.ops import Orders
from ppsim.plan import CheckedOrders, Plan, Structures, build, check
from ppsim.schedules import Problem, Schedule
from ppsim.schedules.from_file import FromFile

KEPT = 64
"""Orders that are kept, and costs, those of the latest cases."""
_BEYOND_SIZES = frozenset({"costs", "topology", "hop", "speed", "op_overhead", "room"})
"""What a problem says beside sizes and placement."""


@dataclass(frozen=True, eq=False)
class Executed:
    """An experiment's run, and what led to it."""

    experiment: Experiment
    problem: Problem
    orders: CheckedOrders
    plan: Plan
    """As it was built; the engine may have added when transfers came to turn."""
    run: Run
    engine: str


class Flow:
    """Simulates one experiment after the other.

    Orders are made once of those with the same schedule and sizes, unless that schedule looked at more; the structure
    of their plans likewise (``Structures``), and what its ops take and hold of those with the same costs. ``once``: of
    a single experiment nothing is kept.
    """

    def __init__(self, once: bool = False) -> None:
        self._once = once
        self._orders: dict[Hashable, tuple[CheckedOrders, Schedule]] = {}
        self._costs = None if once else SharedCosts(KEPT)
        self._structures = None if once else Structures()

    def execute(self, experiment: Experiment, engine: Engine | None, watch: Watch | None = None) -> Executed:
        """Simulate an experiment, by the fastest engine that can where none is named.

        Raises ConfigError, ScheduleError or FormatError where the input is wrong, DeadlockError where ranks wait for
        ever.
        """
        watch = watch or Watch()
        if not isinstance(experiment, Experiment):
            raise ConfigError(f"simulate takes an Experiment, not {shown(experiment)}; read a file with ppsim.load")
        costs_of = None if self._costs is None else self._costs.of
        problem = experiment.problem((engine or fastest()) == "compiled", costs_of)
        per_step = _per_step(experiment, problem)
        spec = specify(experiment, problem)
        orders = self._checked(experiment.schedule, problem)
        watch.at("plan")
        plan = build(orders, spec, self._structures)
        try:
            timeline, name = run(plan, engine or fastest(plan), watch)
        except DeadlockError as deadlock:
            raise DeadlockError("\n".join([str(deadlock), *_causes(experiment, problem)])) from None
        watch.at("metrics")
        executed = Run(timeline.plan, timeline, problem, SIMULATED, **per_step)
        return Executed(experiment, problem, orders, plan, executed, name)

    def _checked(self, schedule: Schedule, problem: Problem) -> CheckedOrders:
        """What the schedule lists. Raises ScheduleError where that is no legal schedule."""
        key = None if self._once else _sizes(schedule, problem)
        if key is not None and (known := self._orders.get(key)) is not None:
            return known[0]
        watched = problem
        if key is not None:
            watched = _Watched(**{field.name: getattr(problem, field.name) for field in fields(problem)})
        orders = schedule.orders(watched)
        if not isinstance(orders, Orders):
            raise ScheduleError(
                f"{schedule.label}: orders() gives {shown(orders)}, not Orders, as problem.per_rank does"
            )
        checked = check(orders, problem, schedule.label, schedule.place)
        if key is not None and not vars(watched).get(_ASKED):
            while len(self._orders) >= KEPT:
                del self._orders[next(iter(self._orders))]
            self._orders[key] = checked, schedule
        return checked


_ASKED = "_asked"


class _Watched(Problem):
    """A problem that notes whether it is asked for more than sizes: orders that follow from these alone can serve
    other costs and links, too."""

    def __getattribute__(self, name: str) -> Any:
        if name in _BEYOND_SIZES:
            object.__getattribute__(self, "__dict__")[_ASKED] = True
        return object.__getattribute__(self, name)


def _sizes(schedule: Schedule, problem: Problem) -> Hashable | None:
    """The schedule and the sizes that it lists ops for; None for a schedule that can't be compared with another.

    One that reads a file is itself only: the file may have changed in between.
    """
    which: Hashable = id(schedule) if isinstance(schedule, FromFile) else schedule
    key = (
        type(schedule), which, problem.ranks, problem.microbatches, problem.placement, problem.steps, problem.stream,
        problem.update_every, problem.slices, problem.compiled,
    )  # fmt: skip
    try:
        hash(key)
    except TypeError:  # it has a list among its settings
        return None
    return key


def _per_step(experiment: Experiment, problem: Problem) -> dict[str, Any]:
    """What is known of a step's samples, tokens, operations and memory, as a Run names it."""
    samples, tokens, peak = experiment.samples_per_step, experiment.tokens_per_sample, experiment.peak_flops
    sizes_known = experiment.sizes_known(problem.costs)
    per_microbatch = sum(problem.costs.flops, Fraction(0))
    passes = 3 if experiment.schedule.trains else 1  # a backward computes twice what its forward does
    return {
        "samples_per_step": samples,
        "tokens_per_step": samples * tokens if samples is not None and tokens is not None else None,
        "flops_per_step": round(passes * per_microbatch * problem.microbatches) if problem.costs.flops else None,
        "peak_flops": None if peak is None else round(peak * problem.ranks),
        "sizes_known": sizes_known,
    }


def _causes(experiment: Experiment, problem: Problem) -> Iterator[str]:
    """Settings that are known to make an order deadlock."""
    if experiment.pipeline.batch_sync:
        yield (
            "pipeline.batch_sync makes a stage wait for all microbatches of the stage before it; a schedule that needs "
            "a backward before its last forward can't do that: use gpipe"
        )
    if hint := experiment.schedule.deadlock_hint(problem):
        yield hint
