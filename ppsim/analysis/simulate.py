"""simulate(experiment) -> Result: the whole flow, once through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ppsim.analysis.result import Result
from ppsim.analysis.specify import specify
from ppsim.analysis.uncertainty import repeats
from ppsim.config.experiment import Experiment
from ppsim.config.notices import notices
from ppsim.engine import Engine, run
from ppsim.engine.watch import Watch
from ppsim.errors import ConfigError, DeadlockError, Notice, ScheduleError, shown
from ppsim.metrics import Run, scalars
from ppsim.metrics.base import SIMULATED
from ppsim.metrics.memory import too_much
from ppsim.ops import NONE, Orders
from ppsim.plan import CheckedOrders, Plan, build, check
from ppsim.schedules import Problem, Schedule


def simulate(
    experiment: Experiment, schedule: Schedule | None = None, engine: Engine = "auto", watch: Watch | None = None
) -> Result:
    """Simulate an experiment; ``watch`` is told how far it is.

    With a ``schedule`` it is the experiment under that one, which the result then holds and which is stored.
    Raises ConfigError, ScheduleError or FormatError where the input is wrong, DeadlockError where ranks wait for ever.
    """
    watch = watch or Watch()
    experiment = _under(experiment, schedule)
    problem = replace(experiment.problem(), compiled=engine == "compiled")
    found = list(notices(experiment, problem))
    per_step = _per_step(experiment, problem)
    spec = specify(experiment, problem)
    orders = _checked_orders(experiment.schedule, problem)
    watch.at("plan")
    plan = build(orders, spec)
    try:
        timeline, engine_name = run(plan, engine, watch)
    except DeadlockError as deadlock:
        raise DeadlockError("\n".join([str(deadlock), *_causes(experiment, problem)])) from None
    watch.at("metrics")
    executed = Run(timeline.plan, timeline, problem, SIMULATED, **per_step)
    found += [*plan.notices, *_unused(experiment, problem, plan), *too_much(executed)]
    spread = _spread(experiment, plan, executed, engine)
    return Result(experiment, problem, orders, executed, engine_name, tuple(dict.fromkeys(found)), spread)


def _under(experiment: object, schedule: object) -> Experiment:
    """The experiment, under another schedule if there is one. Raises ConfigError where they are none, or disagree."""
    if not isinstance(experiment, Experiment):
        raise ConfigError(f"simulate takes an Experiment, not {shown(experiment)}; read a file with ppsim.load")
    if schedule is None:
        return experiment
    if not isinstance(schedule, Schedule):
        raise ConfigError(
            f"schedule takes an object of a Schedule's class, not {shown(schedule)}; a schedule by name goes into the "
            "experiment, as in ppsim.load(path, {'schedule': 'gpipe'})"
        )
    return experiment.with_schedule(schedule)


def _checked_orders(schedule: Schedule, problem: Problem) -> CheckedOrders:
    """What the schedule lists. Raises ScheduleError where that is no legal schedule."""
    orders = schedule.orders(problem)
    if not isinstance(orders, Orders):
        raise ScheduleError(f"{schedule.label}: orders() gives {shown(orders)}, not Orders, as problem.per_rank does")
    return check(orders, problem, schedule.label, schedule.place)


def _unused(experiment: Experiment, problem: Problem, plan: Plan) -> Iterator[Notice]:
    """What the config says of links that nothing is sent over, and of fused pairs where there are none."""
    links = experiment.cluster.links if experiment.cluster is not None else []
    used = np.zeros(len(plan.routes.src), bool)
    used[plan.transfers.route] = True
    ends = zip(plan.routes.src[used].tolist(), plan.routes.dst[used].tolist(), strict=True)
    pairs = {frozenset(pair) for pair in ends} if links else set()
    for index, link in enumerate(links):
        if frozenset(link.ranks) not in pairs:
            a, b = link.ranks
            why = f"ranks {a} and {b} send each other nothing"
            yield Notice("no_effect", f"cluster.links.{index}", f"has no effect: {why}")
    if problem.costs.overlapped is not None and not np.any(plan.ops.group != NONE):
        yield Notice("no_effect", "costs.overlapped", "has no effect: the order has no fused pairs")


def _spread(experiment: Experiment, plan: Plan, nominal: Run, engine: Engine) -> dict[str, Any] | None:
    """How far the figures spread over the repeats with random times, where the experiment asks for them."""
    if experiment.uncertainty is None:
        return None

    def measure(plan: Plan) -> dict[str, Any]:
        timeline, _ = run(plan, engine)
        return scalars(replace(nominal, plan=timeline.plan, timeline=timeline, _made={}))

    return repeats(plan, experiment.uncertainty, measure)


def _per_step(experiment: Experiment, problem: Problem) -> dict[str, Any]:
    """What is known of a step's samples, tokens and operations, as a Run names it."""
    samples, tokens, peak = experiment.samples_per_step, experiment.tokens_per_sample, experiment.peak_flops
    per_microbatch = sum(problem.costs.flops, Fraction(0))
    passes = 3 if experiment.schedule.trains else 1  # a backward computes twice what its forward does
    return {
        "samples_per_step": samples,
        "tokens_per_step": samples * tokens if samples is not None and tokens is not None else None,
        "flops_per_step": round(passes * per_microbatch * problem.microbatches) if problem.costs.flops else None,
        "peak_flops": None if peak is None else round(peak * problem.ranks),
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
