"""Throughput: time per step, microbatches and samples per second, and the share of the peak rate."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

import numpy as np

from ppsim.engine.timeline import PER_SECOND, SENDS_AND_MOVES
from ppsim.metrics.base import Run, metric
from ppsim.metrics.bubble import busy
from ppsim.ops import Kind, among


@metric(scope="run", unit="s", better="low", definition="makespan / steps", of_work=True)
def step_time_s(run: Run) -> float:
    """Mean time of a step."""
    return run.timeline.makespan / run.plan.steps / PER_SECOND


@metric(scope="run", unit="1/s", better="high", definition="microbatches · steps / makespan", of_work=True)
def microbatches_per_s(run: Run) -> float | None:
    """Microbatches of one pipeline per second."""
    makespan = run.timeline.makespan
    return run.plan.microbatches * run.plan.steps * PER_SECOND / makespan if makespan else None


@metric(scope="run", unit="1/s", better="high", definition="samples of a step · steps / makespan", needs=("samples",))
def samples_per_s(run: Run) -> float | None:
    """Samples per second of all replicas."""
    makespan, samples = run.timeline.makespan, run.samples_per_step
    return samples * run.plan.steps * PER_SECOND / makespan if makespan and samples is not None else None


@metric(
    scope="run",
    unit="1/s",
    better="high",
    definition="tokens of a step · steps / makespan",
    needs=("samples",),
)
def tokens_per_s(run: Run) -> float | None:
    """Tokens per second of all replicas, where costs follow from a model."""
    makespan, tokens = run.timeline.makespan, run.tokens_per_step
    return tokens * run.plan.steps * PER_SECOND / makespan if makespan and tokens is not None else None


@metric(
    scope="run",
    unit="FLOP/s",
    better="high",
    definition="model FLOPs of a step / (ranks · step time); none recomputed, attention's square counted whole",
    needs=("flops",),
)
def device_flop_per_s(run: Run) -> float | None:
    """What a device computes per second of what the model asks for."""
    makespan, flops = run.timeline.makespan, run.flops_per_step
    return flops * run.plan.steps * PER_SECOND / (run.plan.ops.ranks * makespan) if makespan and flops else None


@metric(
    scope="run",
    unit="1",
    better="high",
    definition="model FLOPs of a step / (peak rate of all ranks · step time)",
    needs=("flops",),
)
def mfu(run: Run) -> float | None:
    """Model FLOPs utilisation."""
    makespan, flops, peak = run.timeline.makespan, run.flops_per_step, run.peak_flops
    if not makespan or flops is None or not peak:
        return None
    return flops * run.plan.steps * PER_SECOND / (peak * makespan)


@dataclass(frozen=True)
class Steady:
    """A stretch of the steady state: its first and last ns, and how many steps or microbatches it finished."""

    since: int
    until: int
    finished: int


def steady(run: Run) -> Steady | None:
    """The steady state; None where there is none to see.

    Of several steps: from the end of the first to the end of the last one, a step's end being that of its last op.
    Of a stream (an asynchronous schedule, forwards alone): the second half of the stretch in which every rank has begun
    a backward and none has ended its last forward, between two microbatches' ends, a whole number of rounds apart. A
    round is as many microbatches as make the pattern repeat: those in flight on the first rank, once for each copy of a
    stage. The first half is left out, since the start can show for some rounds.
    """
    plan = run.plan
    if plan.asynchronous or not plan.ops.index.has(Kind.B, Kind.I):
        return _of_stream(run)
    if plan.steps == 1:
        return None
    end = np.zeros(plan.steps, np.int64)
    np.maximum.at(end, plan.ops.step, run.timeline.end)
    return Steady(int(end[0]), int(end[-1]), plan.steps - 1)


def steps_to_see(run: Run) -> int:
    """With how many steps a stream is long enough to show its steady state: four rounds through all ranks."""
    return max(-(-4 * run.plan.ops.ranks // max(run.plan.microbatches, 1)), 2)


def _of_stream(run: Run) -> Steady | None:
    plan, timeline = run.plan, run.timeline
    forward, backward = plan.ops.kind == Kind.F, (plan.ops.kind == Kind.B) | (plan.ops.kind == Kind.I)
    trains = bool(np.any(backward))
    rows = np.flatnonzero(backward if trains else forward)
    done = np.zeros(int(plan.ops.microbatch.max(initial=-1)) + 1, np.int64)
    np.maximum.at(done, plan.ops.microbatch[rows], timeline.end[rows])
    began, ended = np.full((2, plan.ops.ranks), -1, np.int64)
    began[plan.ops.rank[rows[::-1]]] = timeline.start[rows[::-1]]
    ended[plan.ops.rank[np.flatnonzero(forward)]] = timeline.end[forward]
    inside = np.flatnonzero((done >= began.max()) & (done <= ended.min()))
    warm = int(forward[: backward[: plan.ops.offsets[1]].argmax()].sum()) if trains else 1
    repeat = lcm(*(len(ranks) for ranks in plan.placement.ranks_of)) * warm
    if not len(inside) or not repeat:
        return None
    first, last = int(inside[len(inside) // 2]), int(inside[-1])
    last -= (last - first) % repeat
    # Microbatches of a round may end in another order, those of different rounds don't.
    return Steady(int(done[first]), int(done[last]), last - first) if last > first else None


@metric(
    scope="run",
    unit="s",
    better="low",
    definition="steady-state time per step of several, per microbatch of a stream",
    of_work=True,
)
def period_s(run: Run) -> float | None:
    """None where no steady state is seen, as in a single step."""
    found = run.once(steady)
    return None if found is None else (found.until - found.since) / found.finished / PER_SECOND


@metric(scope="run", unit="1", better="low", definition="idle / (ranks x time) in the steady state")
def steady_bubble_ratio(run: Run) -> float | None:
    """Share of the device time that is lost once the pipeline is full; None where no steady state is seen."""
    found = run.once(steady)
    if found is None or found.until == found.since:
        return None
    plan, timeline = run.plan, run.timeline
    computes = ~among(plan.ops.kind, SENDS_AND_MOVES) & ~plan.tail
    inside = np.minimum(timeline.end, found.until) - np.maximum(timeline.start, found.since)
    busy = int(np.maximum(inside[computes], 0).sum())
    total = plan.ops.ranks * (found.until - found.since)
    return (total - busy) / total


@metric(
    scope="run",
    unit="1",
    better="high",
    definition="work of all ranks / makespan: over a single rank",
    needs=("costs",),
)
def speedup(run: Run) -> float | None:
    """At most the number of ranks; the rest is the bubble."""
    makespan = run.timeline.makespan
    return int(run.once(busy).sum()) / makespan if makespan else None


@metric(scope="run", unit="s", better="low", definition="of forwards alone: from the first item's entry to its exit")
def latency_s(run: Run) -> float | None:
    """What an item takes through an empty pipeline; None where there are backwards."""
    plan, timeline = run.plan, run.timeline
    if not len(plan.ops) or plan.ops.index.has(Kind.B, Kind.I):
        return None
    first = plan.ops.microbatch == 0
    return int(timeline.end[first].max() - timeline.start[first].min()) / PER_SECOND if first.any() else None
