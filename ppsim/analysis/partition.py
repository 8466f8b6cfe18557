"""What a run's split of layers costs: its slowest stage, and what a better split would bring, simulated."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ppsim.analysis.simulate import simulate
from ppsim.config.experiment import Experiment
from ppsim.config.resolved import operations
from ppsim.config.splitting import Split, default_rule
from ppsim.costs.partition.balanced import Balanced
from ppsim.costs.partition.field import BALANCED, UNIFORM
from ppsim.costs.partition.pipedream import Plan
from ppsim.errors import PpsimError
from ppsim.schedules.pipedream import PipeDream, noam
from ppsim.units import show

MOST_OPS = 400_000
"""Runs with more than so many ops aren't simulated just to compare splits."""
WORTH = Fraction(1, 1000)
"""Gains below this part of a step aren't told."""


def report(experiment: Experiment) -> list[str]:
    """Lines on the split: who holds what, the slowest stage, what another rule would bring; none without layers."""
    found = experiment.split()
    if found is None:
        return []
    rule = experiment.partition if isinstance(experiment.partition, str) else None
    told = rule or (default_rule(experiment.costs) if experiment.partition is None else "as listed")
    lines = [f"{told}: {_held(found)}", _slowest(experiment, found)]
    if found.found is not None:
        lines += _about(found.found)
    if found.plan is not None:
        lines += _planned(experiment, found.plan)
    return [*lines, *_others(experiment, told)]


def _held(found: Split) -> str:
    """Layers per stage, and what comes with them."""
    ends = [name for name, there in (("embedding", found.rows.embedding), ("head", found.rows.head)) if there]
    extra = f", {found.rows.extra} of them for multi-token prediction" if found.rows.extra else ""
    return f"{sum(found.layers)} layers on {len(found.counts)} stages: [{', '.join(map(str, found.layers))}]{extra}" + (
        f"; {' and '.join(ends)} at the ends" if ends else ""
    )


def _slowest(experiment: Experiment, found: Split) -> str:
    problem = experiment.problem()
    costs, stages_of = problem.costs, problem.placement.stages_of
    speeds = problem.speed or (Fraction(1),) * problem.ranks
    recomputes = [experiment.pipeline.recomputed(stage) != "none" for stage in range(costs.stages)]
    busy = [
        costs.forward[s]
        + (costs.backward[s] if experiment.schedule.trains else 0)
        + (costs.recompute[s] if recomputes[s] else 0)
        for s in range(costs.stages)
    ]
    if isinstance(experiment.schedule, PipeDream):  # a stage's ranks take minibatches in turn
        busy = [time / len(problem.placement.ranks_of[s]) for s, time in enumerate(busy)]
    time = [max(busy[s] / speeds[rank] for rank in problem.placement.ranks_of[s]) for s in range(costs.stages)]
    worst = max(range(costs.stages), key=lambda s: time[s])
    mean = sum(time, Fraction(0)) / len(time)
    over = f", {float(time[worst] / mean - 1):.1%} above the mean of {_short(mean)}" if mean else ""
    line = f"slowest stage: {worst}, {found.layers[worst]} layers: {_short(time[worst])} per microbatch{over}"
    if any(len(held) > 1 for held in stages_of):
        loads = [sum((busy[s] for s in held), Fraction(0)) / speeds[rank] for rank, held in enumerate(stages_of)]
        rank = max(range(len(loads)), key=lambda r: loads[r])
        line += f"; slowest rank: {rank}, {_short(loads[rank])}"
    return line


def _about(found: Balanced) -> Iterator[str]:
    """What is not as good as asked for."""
    if not found.proven:
        yield "the search was given up: a better balanced split may exist"
    if not found.capped:
        yield "no split fits the devices' memory: balanced by time alone"


def _planned(experiment: Experiment, plan: Plan) -> list[str]:
    """The plan's stages, its minibatches in flight, and its period, expected and simulated."""
    stages = (
        f"layers {stage.begin} to {stage.end - 1} on {stage.workers} rank{'s' if stage.workers > 1 else ''}"
        for stage in plan.stages
    )
    lines = [f"plan {'-'.join(map(str, plan.replicas))}: {'; '.join(stages)}"]
    schedule = experiment.schedule
    in_flight = noam(plan.replicas)[0] if isinstance(schedule, PipeDream) else 0
    expected = f"minibatches in flight per input rank (NOAM): {in_flight}; {_short(plan.period)} per minibatch expected"
    period = _period(experiment)
    return [*lines, expected + (f", {_short(period)} simulated" if period is not None else "")]


def _others(experiment: Experiment, told: str) -> list[str]:
    """What the other rules would bring."""
    mine = _period(experiment)
    if mine is None:
        return [f"other splits aren't compared: more than {MOST_OPS:,} ops"]
    lines = []
    for rule in (UNIFORM, BALANCED):
        if rule == told:
            continue
        try:
            other = experiment.with_partition(rule)
            split, time = other.split(), _period(other)
        except PpsimError:
            continue
        if split is None or time is None or split.counts == getattr(experiment.split(), "counts", None):
            continue
        if time < mine * (1 - WORTH):
            lines.append(
                f"better, simulated: 'partition: {rule}', {split.rows.written(split.counts)}, gives {_short(time)} per "
                f"step instead of {_short(mine)} ({float(time / mine - 1):+.1%})"
            )
        elif rule == BALANCED:
            lines.append(
                f"'partition: balanced' brings nothing, simulated: {_short(time)} per step, now {_short(mine)}"
            )
    return lines


def _period(experiment: Experiment) -> Fraction | None:
    """Seconds of a step, or of a stream's minibatch in its steady state; None for a run that is too large."""
    if operations(experiment) > MOST_OPS:
        return None
    result = simulate(experiment.model_copy(update={"uncertainty": None, "sweep": None}))
    steady = result.summary["period_s"] if experiment.schedule.asynchronous else None
    return Fraction(steady) if steady else Fraction(result.timeline.makespan, 10**9 * result.plan.steps)


def _short(seconds: Fraction) -> str:
    return show(Fraction(f"{float(seconds):.4g}"), "time")
