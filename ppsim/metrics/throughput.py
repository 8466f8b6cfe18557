"""Throughput: time per step, microbatches and samples per second, and the share of the peak rate."""

from __future__ import annotations

from ppsim.metrics.base import Run, metric
from ppsim.timeline import PER_SECOND


@metric("step_time_s", unit="s", definition="makespan / steps")
def step_time_s(run: Run) -> float:
    """Mean time of a step."""
    return run.timeline.makespan / run.plan.steps / PER_SECOND


@metric("microbatches_per_s", unit="1/s", definition="microbatches · steps / makespan")
def microbatches_per_s(run: Run) -> float | None:
    """Microbatches of one pipeline per second."""
    makespan = run.timeline.makespan
    return run.plan.microbatches * run.plan.steps * PER_SECOND / makespan if makespan else None


@metric("samples_per_s", unit="1/s", definition="samples of a step · steps / makespan", needs=("samples",))
def samples_per_s(run: Run) -> float | None:
    """Samples per second of all replicas."""
    makespan, samples = run.timeline.makespan, run.samples_per_step
    return samples * run.plan.steps * PER_SECOND / makespan if makespan and samples is not None else None


@metric("mfu", unit="1", definition="model FLOPs of a step / (ranks · peak rate · step time)", needs=("flops",))
def mfu(run: Run) -> float | None:
    """Model FLOPs utilisation."""
    if not run.timeline.makespan or run.flops_per_step is None or not run.peak_flops:
        return None
    return run.flops_per_step / (run.plan.ranks * run.peak_flops * run.timeline.makespan / run.plan.steps / PER_SECOND)


@metric("period_s", unit="s", definition="steady-state time per step, for several steps")
def period_s(run: Run) -> float | None:
    """None for a single step."""
    return None if run.plan.steps == 1 else run.timeline.makespan / run.plan.steps / PER_SECOND


@metric("steady_bubble_ratio", unit="1", definition="idle share of the device time in the steady state")
def steady_bubble_ratio(run: Run) -> float | None:
    """None for a single step."""
    return None
