"""Settings that are right by themselves and contradict each other: schedule, pipeline and runtime."""

from __future__ import annotations

from collections.abc import Iterator

from ppsim.config.pipeline import Pipeline
from ppsim.config.runtime import Runtime
from ppsim.schedules import Batched, Schedule, known


def combinations(schedule: Schedule, pipeline: Pipeline, runtime: Runtime) -> Iterator[tuple[str, str]]:
    """(key, what contradicts what, and what would work)."""
    if runtime.p2p == "fused":
        yield from _fused(schedule, pipeline, runtime)
    if runtime.transport != "none":
        yield from _over_transport(runtime)
    if schedule.asynchronous and pipeline.batch_sync:
        yield (
            "pipeline.batch_sync",
            f"'{schedule.name}' has no batch to wait for: its minibatches stream without a flush",
        )


def _fused(schedule: Schedule, pipeline: Pipeline, runtime: Runtime) -> Iterator[tuple[str, str]]:
    ranks, microbatches = pipeline.ranks, pipeline.microbatches
    if isinstance(schedule, Batched) and schedule.fused_warmup(ranks, microbatches, 0) is not None:
        yield from schedule.fused_problems(ranks, microbatches)
    else:
        able = [name for name, other in known().items() if issubclass(other, Batched)]
        yield (
            "runtime.p2p",
            f"no framework fuses the sends and receives of '{schedule.name}'"
            + (" in this form" if schedule.name in able else "")
            + f"; 'separate' works, or another schedule: {', '.join(sorted(able))}",
        )
    if runtime.send != "overlapped":
        yield (
            "runtime.send",
            f"'{runtime.send}' contradicts p2p: fused, whose batches themselves wait for both sides; leave one of them "
            "out",
        )


def _over_transport(runtime: Runtime) -> Iterator[tuple[str, str]]:
    if runtime.send != "overlapped":
        yield (
            "runtime.send",
            f"'{runtime.send}' contradicts transport: {runtime.transport}, which says itself what a message waits for; "
            "leave one of them out",
        )
    if runtime.preset == "megatron":
        yield (
            "runtime.transport",
            f"Megatron-LM sends over NCCL, '{runtime.transport}' holds for PyTorch: take preset: pytorch, or leave the "
            "transport out",
        )
