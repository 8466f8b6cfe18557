"""simulate(experiment) -> Result: the whole flow, once through."""

from __future__ import annotations

from collections.abc import Iterator

from ppsim.config.experiment import Experiment, disagreements
from ppsim.config.mistakes import config_error
from ppsim.config.notices import notices
from ppsim.engine import Engine, run
from ppsim.errors import DeadlockError, Notice
from ppsim.metrics import Run
from ppsim.metrics.base import Need
from ppsim.plan import build, check
from ppsim.result import Result
from ppsim.schedules import Problem, Schedule
from ppsim.schedules.registry import plugin_notices


def simulate(experiment: Experiment, schedule: Schedule | None = None, engine: Engine = "auto") -> Result:
    """Simulate an experiment, with its own schedule or any other.

    Raises ConfigError, ScheduleError or FormatError where the input is wrong, DeadlockError where ranks wait for ever.
    """
    if schedule is None:
        schedule = experiment.schedule
    elif wrong := list(disagreements({k: getattr(experiment, k) for k in ("pipeline", "costs", "cluster")}, schedule)):
        raise config_error(wrong)
    problem = experiment.problem(schedule)
    orders = schedule.orders(problem)
    check(orders, problem, schedule.name)
    plan = build(orders, problem, experiment, schedule)
    try:
        timeline, engine_name = run(plan, engine)
    except DeadlockError as deadlock:
        raise DeadlockError("\n".join([str(deadlock), *_causes(experiment, schedule, problem)])) from None
    found = [
        *plugin_notices(),
        *schedule.notices(problem.ranks, experiment.pipeline.microbatches),
        *notices(experiment, problem),
        *plan.notices,
    ]
    executed = Run(plan, timeline, problem, _known(experiment), experiment.samples_per_step)
    return Result(experiment, schedule, problem, orders, executed, engine_name, _distinct(found))


def _known(experiment: Experiment) -> frozenset[Need]:
    known: set[Need] = {"dependencies", "costs", "memory", "links"}
    if experiment.samples_per_step is not None:
        known.add("samples")
    return frozenset(known)


def _causes(experiment: Experiment, schedule: Schedule, problem: Problem) -> Iterator[str]:
    """Settings that are known to make an order deadlock."""
    if experiment.pipeline.batch_sync:
        yield (
            "pipeline.batch_sync makes a stage wait for all microbatches of the step before it; a schedule that needs a "
            "backward before its last forward can't do that: use gpipe or naive"
        )
    if hint := schedule.deadlock_hint(problem):
        yield hint


def _distinct(found: list[Notice]) -> tuple[Notice, ...]:
    return tuple(dict.fromkeys(found))
