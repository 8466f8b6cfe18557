"""The scalars of a run, as a sweep keeps them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from ppsim._latest import Latest
from ppsim.analysis.closed_form import closed_form
from ppsim.analysis.flow import Executed
from ppsim.config.experiment import Experiment
from ppsim.costs import TransformerCosts
from ppsim.costs.base import total
from ppsim.costs.transformer import active_parameters
from ppsim.metrics import Run, memory, scalars
from ppsim.schedules import Problem


def figures(done: Executed, spread: dict[str, Any] | None) -> dict[str, Any]:
    """Every scalar of the summary, the closed form's figures, the work of a step, and how far repeats spread."""
    experiment = done.experiment
    pipeline, theory = experiment.pipeline, closed_form(experiment.schedule, done.problem, done.run)
    found: dict[str, Any] = {
        "schedule": experiment.schedule.name,
        "ranks": pipeline.ranks,
        "microbatches": pipeline.microbatches,
        "virtual_stages": max(map(len, done.run.plan.placement.stages_of)),
        "steps": pipeline.steps,
        "engine": done.engine,
        "data_parallel": pipeline.data_parallel,
        "heaviest_rank": _heaviest(done.run),
        "device_memory_bytes": done.run.plan.capacity,
        "work_s": float(work(experiment, done.problem)),
    }
    found |= scalars(done.run)
    if spread is not None:
        for name, statistics in spread["figures"].items():
            found |= {f"{name}.{statistic}": value for statistic, value in statistics.items()}
    return found | {f"theory.{key}": theory.get(key) for key in ("makespan_s", "bubble_ratio")}


def _heaviest(run: Run) -> int | None:
    """The first rank that holds the most at its peak; None where nothing is held."""
    peaks = run.once(memory.peak_bytes)
    return int(peaks.argmax()) if peaks.any() else None


def work(experiment: Experiment, problem: Problem) -> Fraction:
    """Seconds of forward and backward that a step of all replicas computes, were every device of speed 1.

    Cases with the same work train as much in a step, so that their step times can be compared. Where costs follow from
    a model, however it is cut: six operations per token and parameter that it meets, at a device's peak rate.
    """
    peak, parts = experiment.peak_flops, (experiment.costs, experiment.pipeline, experiment.schedule, problem.costs)
    return _WORKS.of((peak, *map(id, parts)), lambda: (_work(experiment, problem, peak), parts))[0]


_WORKS: Latest[tuple[Fraction, tuple[object, ...]]] = Latest(64)
"""Work by what it follows from, links not among it."""


def _work(experiment: Experiment, problem: Problem, peak: Fraction | None) -> Fraction:
    costs, samples = experiment.costs, experiment.samples_per_step
    if isinstance(costs, TransformerCosts) and samples is not None and peak is not None:
        return Fraction(6 * active_parameters(costs.model) * samples * costs.tokens) / peak
    weights = experiment.pipeline.microbatch_weights
    units = problem.microbatches if weights is None else sum(weights, Fraction(0)) * len(problem.slices)
    once = total(problem.costs.forward) + total(problem.costs.backward)
    return once * units * experiment.pipeline.data_parallel
