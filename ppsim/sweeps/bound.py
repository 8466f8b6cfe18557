"""What a case takes and holds at least, from its costs alone: no orders, no plan, no simulation."""

from __future__ import annotations

from fractions import Fraction

from ppsim.config.experiment import Experiment
from ppsim.hardware.cluster import Route
from ppsim.network import Load, rule
from ppsim.plan.holdings import static
from ppsim.schedules import Problem
from ppsim.units import to_bytes

NS = Fraction(1, 10**9)
"""More than rounding can take off an op's time."""


def step_bound(experiment: Experiment, problem: Problem) -> Fraction:
    """Seconds per step that no schedule with these costs, this placement and these links can beat."""
    return max(work_bound(experiment, problem), port_bound(experiment, problem))


def port_bound(experiment: Experiment, problem: Problem) -> Fraction:
    """Seconds per step that the busiest port carries messages; 0 where several ranks could be the sender."""
    placement, topology = problem.placement, experiment.topology()
    if placement.replicated:
        return Fraction(0)
    weights = experiment.pipeline.microbatch_weights or [Fraction(1)] * experiment.pipeline.microbatches
    messages, length = problem.microbatches, sum(weights, Fraction(0)) * len(problem.slices)
    ports: dict[str, list[Load]] = {}
    for stage, ((rank,), (after,)) in enumerate(zip(placement.ranks_of[:-1], placement.ranks_of[1:], strict=True)):
        ways = [(rank, after), (after, rank)] if experiment.schedule.trains else [(rank, after)]
        for src, dst in ways if rank != after else []:
            route = topology.route(src, dst)
            on_wire = length * problem.costs.message[stage] / route.link.bandwidth if route.link.bandwidth else 0
            taken = on_wire + messages * (route.link.overhead - NS)
            for port in filter(None, (route.egress, route.ingress)):
                ports.setdefault(port, []).append(Load(taken, route.link.bandwidth))
    for stage, (rank,) in enumerate(placement.ranks_of):
        route = topology.replica_route(rank)
        for port in filter(None, (route.egress, route.ingress)):
            sync = _sync(experiment, problem, stage, route)
            ports.setdefault(port, []).append(Load(sync, route.link.bandwidth))
    least = rule(topology.cluster.sharing).least
    return max((least(loads) for loads in ports.values()), default=Fraction(0))


def _sync(experiment: Experiment, problem: Problem, stage: int, route: Route) -> Fraction:
    """Seconds that the gradients of a stage take to the copies of its rank in other pipelines: at least."""
    pipeline, bandwidth = experiment.pipeline, route.link.bandwidth
    copies, size = pipeline.data_parallel, problem.costs.summed[stage]
    if copies == 1 or bandwidth is None or not experiment.schedule.trains or problem.stream:
        return Fraction(0)
    buckets = 1 + (size // pipeline.grad_bucket if pipeline.grad_bucket else 0)
    return max((size * 2 * (copies - 1) / copies - buckets) / bandwidth - buckets * NS, Fraction(0))


def work_bound(experiment: Experiment, problem: Problem) -> Fraction:
    """Seconds per step that the busiest rank needs.

    Over ranks, the largest of: the forwards that come before its first op, plus all of its work, plus the sync of one
    stage's gradients. Without the sync it is at most what the metric ``step_bound_s`` says of the finished plan, which
    knows the ops themselves. Where stages are on several ranks, who does what is the schedule's choice: then the mean.
    """
    topology, placement, costs = experiment.topology(), problem.placement, problem.costs
    speeds = [topology.speed(rank) for rank in range(problem.ranks)]
    per_stage = [_work(experiment, problem, stage) for stage in range(problem.stages)]
    steps = experiment.pipeline.steps
    if placement.replicated:
        return sum(per_stage, Fraction(0)) / sum(speeds)
    overlapped = costs.overlapped or costs.forward
    lightest = min(experiment.pipeline.microbatch_weights or [Fraction(1)])
    shortest = min([Fraction(1), *(part.time for part in problem.slices)])
    ops = problem.microbatches * (2 if experiment.schedule.trains and not costs.overlapped else 1)
    lead = [Fraction(0)]
    for stage, (rank,) in enumerate(placement.ranks_of):
        forward = min(costs.forward[stage], overlapped[stage]) * lightest * shortest / speeds[rank]
        lead.append(lead[-1] + max(forward - NS, Fraction(0)) + experiment.runtime.op_overhead)
    found = Fraction(0)
    for rank, held in enumerate(placement.stages_of):
        work = sum((per_stage[stage] for stage in held), Fraction(0)) / speeds[rank]
        work += ops * len(held) * experiment.runtime.op_overhead
        before = lead[min(held, default=0)]
        # The stage whose backward is the rank's last op syncs its gradients after it.
        route = topology.replica_route(rank)
        work += min((_sync(experiment, problem, stage, route) for stage in held), default=Fraction(0))
        flushed = experiment.runtime.barrier and not problem.stream
        found = max(found, before + work if flushed else before / steps + work)
    return found


def _work(experiment: Experiment, problem: Problem, stage: int) -> Fraction:
    """Seconds of ops of a stage in a step, on a rank of speed 1: at least."""
    pipeline, costs = experiment.pipeline, problem.costs
    weights = pipeline.microbatch_weights or [Fraction(1)] * pipeline.microbatches
    once = costs.forward[stage] + costs.backward[stage]
    if costs.overlapped is not None:
        once = min(costs.overlapped[stage], costs.forward[stage] + min(costs.backward))
    again = Fraction(0)
    mode, schedule = pipeline.recomputed(stage), experiment.schedule
    if mode != "none" and schedule.trains:
        repeated = weights[:-1] if mode == "except_last" else weights
        again = costs.recompute[stage] * sum(repeated, Fraction(0))
    length = sum(weights, Fraction(0))
    rounding = 4 * len(weights) * NS
    slices = len(problem.slices)
    return max(slices * (once * length + again - rounding), Fraction(0))


def memory_bound(problem: Problem) -> int:
    """Bytes that some rank holds at least: weights, gradients, optimizer state."""
    return int(static(problem).sum(axis=0).max(initial=0))


def too_large(experiment: Experiment, problem: Problem) -> bool:
    """Whether what a rank holds throughout is more than a device has."""
    memory = experiment.topology().cluster.device.memory
    return memory is not None and memory_bound(problem) > to_bytes(memory)
