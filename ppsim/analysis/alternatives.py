"""What other settings would give, simulated: ``run`` and ``check`` ask for it, never a sweep or a plain simulate."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ppsim.analysis.closed_form import seen_sizes
from ppsim.analysis.result import Result
from ppsim.analysis.simulate import simulate
from ppsim.config.experiment import Experiment
from ppsim.config.resolved import operations
from ppsim.engine.timeline import PER_SECOND
from ppsim.errors import Notice, PpsimError
from ppsim.schedules import theory
from ppsim.units import show

MOST_OPS = 100_000
"""Runs of more ops are simulated when somebody asks for them, not beside another one."""


def with_alternative(result: Result) -> Result:
    """The result, with a notice of what the nearest better settings would give where its schedule warns of its own."""
    found = alternative(result.experiment, result.timeline.makespan)
    return result if found is None else replace(result, notices=(*result.notices, found))


def alternative(experiment: Experiment, makespan: int | None = None) -> Notice | None:
    """What the settings cost that a notice of the schedule warns of: the same run with the nearest better ones.

    ``makespan`` in ns is this experiment's own, where it is known.
    """
    pipeline = experiment.pipeline
    better = experiment.schedule.alternative(pipeline.ranks, pipeline.microbatches)
    if better is None or operations(experiment) > MOST_OPS:
        return None
    name, schedule = better
    try:
        now = simulate(experiment).timeline.makespan if makespan is None else makespan
        then = simulate(experiment, schedule).timeline.makespan
    except PpsimError:  # an order that gets stuck is the run's own answer
        return None
    told = [show(Fraction(ns, PER_SECOND), "time") for ns in (then, now)]
    return Notice("alternative", "schedule", f"{name} gives {told[0]} instead of {told[1]}")


def what_if(result: Result) -> str | None:
    """What m doubled, v = 2 and p halved would give; None where that can't be told.

    By closed form where there is one and its assumptions hold; else m doubled is simulated, and the others, for which
    the stages would have to be cut anew, aren't told.
    """
    form, sizes = result.schedule.theory(), replace(seen_sizes(result.problem, result.run), latency=Fraction(0))
    if not equal(result) or result.experiment.pipeline.recompute != "none":
        return _doubled(result)
    if form is None or form.bubble_ratio(sizes) is None:
        return None
    v = 2 * sizes.v
    cases = [
        (f"m = {2 * sizes.m}", form, replace(sizes, m=2 * sizes.m)),
        (f"v = {v}", theory.INTERLEAVED, _cut(sizes, v=v)),
    ]
    if sizes.p % 2 == 0:
        cases.append((f"p = {sizes.p // 2}", form, _cut(sizes, p=sizes.p // 2)))
    ratios = [(name, closed.bubble_ratio(other)) for name, closed, other in cases]
    told = [f"{name}: {100 * float(ratio):.1f} %" for name, ratio in ratios if ratio is not None]
    return "bubble_ratio by closed form, links being free, with " + ", ".join(told)


def equal(result: Result) -> bool:
    """Whether stages, ranks and microbatches are equal, as all closed forms assume."""
    costs, weights = result.problem.costs, result.experiment.pipeline.microbatch_weights
    times = (costs.forward, costs.backward, costs.input_grad, costs.weight_grad, costs.overlapped or costs.forward)
    return all(len(set(values)) <= 1 for values in (*times, result.problem.speed, weights or (), result.problem.slices))


def _doubled(result: Result) -> str | None:
    experiment, pipeline = result.experiment, result.experiment.pipeline
    if pipeline.steps > 1 or 2 * operations(experiment) > MOST_OPS:
        return None
    weights, batch = pipeline.microbatch_weights, pipeline.global_batch
    changes = {
        "microbatches": 2 * pipeline.microbatches,
        "microbatch_weights": None if weights is None else 2 * weights,
        "global_batch": None if batch is None else 2 * batch,
    }
    other = experiment.model_copy(update={"pipeline": pipeline.model_copy(update=changes)})
    try:
        found = simulate(other, other.schedule).summary
    except PpsimError:  # an order for so many microbatches and no others
        return None
    return f"bubble_ratio simulated with m = {found['microbatches']}: {100 * found['bubble_ratio']:.1f} %"


def _cut(sizes: theory.Sizes, p: int | None = None, v: int | None = None) -> theory.Sizes:
    """The same model cut into other stages."""
    p, v = p or sizes.p, v or sizes.v
    share = Fraction(sizes.p * sizes.v, p * v)
    times = {k: getattr(sizes, k) * share for k in ("forward", "backward", "input_grad", "weight_grad")}
    return replace(sizes, p=p, v=v, **times)
