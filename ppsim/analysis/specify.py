"""Experiment -> PlanSpec: the one place where settings become what a plan is built from."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Literal

from ppsim.config.experiment import Experiment
from ppsim.network import transport
from ppsim.plan import PlanSpec, Recompute, Sending, Sync
from ppsim.schedules import Batched, Problem, Schedule
from ppsim.units import to_bytes


def specify(experiment: Experiment, problem: Problem) -> PlanSpec:
    """What a plan of this experiment is built from."""
    pipeline, runtime, schedule = experiment.pipeline, experiment.runtime, experiment.schedule
    eager = runtime.eager_threshold
    return PlanSpec(
        problem=problem,
        topology=experiment.topology(),
        sending=Sending(
            mode=runtime.send,
            eager_bytes=None if eager is None else to_bytes(eager),
            receives=runtime.receives,
            transport=None if runtime.transport == "none" else transport(runtime.transport).wire,
            batch_warmup=_batch_warmup(schedule, problem) if runtime.p2p == "fused" else None,
        ),
        sync=Sync(
            pipelines=pipeline.data_parallel,
            bucket_bytes=to_bytes(pipeline.grad_bucket),
            overlapped=runtime.grad_sync == "overlapped",
            batch_normalised=tuple(filter(pipeline.syncs, range(problem.stages))) if pipeline.batch_sync else (),
        ),
        recompute=Recompute(
            of_stage=pipeline.recomputed_by_stage(problem.stages),
            late=pipeline.recompute_when == "late",
        ),
        microbatch_weights=tuple(pipeline.microbatch_weights or [Fraction(1)]),
        barrier=runtime.barrier,
        version=_version(schedule),
    )


def _version(schedule: Schedule) -> Literal["newest", "first_stage", "double_buffered"]:
    if schedule.double_buffered:
        return "double_buffered"
    return "first_stage" if schedule.uses_first_stage_version else "newest"


def batched(spec: PlanSpec, schedule: Schedule) -> PlanSpec:
    """The same with the batches of another order, where there are batches."""
    if spec.sending.batch_warmup is None:
        return spec
    return replace(spec, sending=replace(spec.sending, batch_warmup=_batch_warmup(schedule, spec.problem)))


def _batch_warmup(schedule: Schedule, problem: Problem) -> tuple[int, ...] | None:
    if not isinstance(schedule, Batched):
        return None
    ranks, microbatches = problem.ranks, problem.microbatches
    return tuple(schedule.fused_warmup(ranks, microbatches, rank) or 0 for rank in range(ranks))
