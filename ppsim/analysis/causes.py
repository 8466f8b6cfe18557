"""What can make a step slow: a function for each cause, with the same run without it.

A function takes a run and what its plan was built from, and gives nothing where the run hasn't got its cause. A
``Remedy`` says what was found, and changes the PlanSpec so that it is gone; ``limit`` simulates that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from ppsim.analysis.crowding import sending, shared_ports, shared_switches
from ppsim.analysis.remedy import Case, Remedy, ranks_named, time, times_scaled, with_costs
from ppsim.analysis.whatif import on_cluster, without_recomputation
from ppsim.hardware.link import PairLink
from ppsim.metrics import bubble, memory
from ppsim.ops import MOVES, Kind, among
from ppsim.plan import PlanSpec
from ppsim.schedules import Limited, known
from ppsim.schedules.from_file import FromFile
from ppsim.schedules.one_f_one_b import OneFOneB
from ppsim.units import show

NOTABLE = Fraction(1, 100)
"""A rank with less than this part more work than the mean isn't named."""
SLOWER = 1.5
"""A link is slower than the others from this multiple of their median message time on."""


Cause = Callable[[Case], Remedy | None]


def unequal_work(case: Case) -> Remedy | None:
    """A rank whose stages take longer than the mean rank's, at equal speeds."""
    busy = case.result.run.once(bubble.busy).tolist()
    work = [Fraction(ns) * case.spec.topology.speed(rank) for rank, ns in enumerate(busy)]
    mean = sum(work, Fraction(0)) / len(work)
    if not mean or max(work) / mean - 1 < NOTABLE:
        return None
    heaviest = [rank for rank, ns in enumerate(work) if ns == max(work)]
    excess = float(100 * (max(work) / mean - 1))
    held = {stage for rank in heaviest for stage in case.spec.problem.placement.stages_of[rank]}
    guess = [name for stage, name in ((0, "embedding"), (case.spec.problem.stages - 1, "head")) if stage in held]
    hint = f" ({' and '.join(guess)}?)" if guess and len(heaviest) == 1 else ""

    def balanced(before: PlanSpec) -> PlanSpec:
        holders = before.problem.placement.ranks_of
        shares = [sum((work[rank] for rank in ranks), Fraction(0)) / len(ranks) for ranks in holders]
        return times_scaled(before, [mean / share if share else Fraction(1) for share in shares])

    verb = "has" if len(heaviest) == 1 else "have"
    found = f"{ranks_named(heaviest)} {verb} {excess:.0f} % more work than the mean{hint}"
    return Remedy("work", found, "balanced it would be", balanced)


def straggler(case: Case) -> Remedy | None:
    """Ranks that are slower than most."""
    speeds = [case.spec.topology.speed(rank) for rank in range(case.spec.problem.ranks)]
    usual = sorted(speeds)[len(speeds) // 2]
    slow = [rank for rank, speed in enumerate(speeds) if speed < usual]
    if not slow:
        return None
    up_to = "up to " if len({speeds[rank] for rank in slow}) > 1 else ""
    longer = f"{up_to}{float(usual / min(speeds)):.3g} times as long as the others for the same work"
    found = f"the straggler rank {slow[0]} takes" if len(slow) == 1 else f"the stragglers, {ranks_named(slow)}, take"
    mended = [max(speed, usual) for speed in speeds]
    return Remedy(
        "straggler", f"{found} {longer}", "at their speed it would be", lambda before: on_cluster(before, speed=mended)
    )


def unequal_microbatches(case: Case) -> Remedy | None:
    """Microbatches that differ in length."""
    weights = case.spec.microbatch_weights
    if min(weights) == max(weights):
        return None
    mean = sum(weights, Fraction(0)) / len(weights)
    span = f"from {float(min(weights) / mean):.2g} to {float(max(weights) / mean):.2g} of the mean"
    return Remedy(
        "microbatches differ",
        f"microbatches differ in length, {span}",
        "of equal length it would be",
        lambda before: replace(before, microbatch_weights=(mean,)),
    )


def messages(case: Case) -> Remedy | None:
    """Links whose messages take long: those that are slower than most, or all."""
    plan, routes = case.result.plan, case.result.plan.routes
    data = among(plan.ops.kind[plan.transfers.producer], (Kind.F, Kind.B, Kind.I))
    used = np.unique(plan.transfers.route[data])
    took = (routes.occupancy + routes.latency)[used]
    if not took.any():
        return None
    worst = int(took.argmax())
    src, dst = int(routes.src[used[worst]]), int(routes.dst[used[worst]])
    longest = int(took[worst])
    forwards = plan.duration[(plan.ops.kind == Kind.F) & (plan.ops.rank == src)]
    hides = int(forwards.mean()) if len(forwards) else 0
    why = (
        f"longer than the forward ({time(hides)}) that they should hide behind"
        if longest > hides
        else "which no work on the critical path hides"
    )
    slow = took > SLOWER * np.median(took)
    chosen = used[slow] if slow.any() else used
    ends = {frozenset(pair) for pair in zip(routes.src[chosen].tolist(), routes.dst[chosen].tolist(), strict=True)}
    # Of these pairs alone: gradient sync has a link of its own to other pipelines.
    freed = [PairLink(ranks=sorted(pair), like="free") for pair in sorted(ends, key=sorted)]
    taken = f"messages {src}→{dst} take {time(longest)}"
    if not slow.any():
        taken = f"messages take {time(longest)}, as {src}→{dst}"
    elif len(ends) > 1:
        taken += f" (so do those of {len(ends) - 1} other {'pair' if len(ends) == 2 else 'pairs'} of ranks)"
    sync = " between stages" if plan.ops.index.has(Kind.REDUCE_GRAD) else ""
    links = f"free links{sync}" if not slow.any() else "that link free" if len(ends) == 1 else "those links free"
    return Remedy(
        "messages",
        f"{taken}, {why}",
        f"with {links} it would be",
        lambda before: on_cluster(before, links=[*before.topology.cluster.links, *freed]),
    )


def recomputation(case: Case) -> Remedy | None:
    """Forwards that are run again."""
    if not case.result.plan.ops.index.has(Kind.R):
        return None
    plan = case.result.plan
    again = int(plan.duration[plan.ops.kind == Kind.R].sum()) / max(int(plan.duration.sum()), 1)
    return Remedy(
        "recomputation",
        f"recomputation is {100 * again:.0f} % of all work",
        "without it (and with its memory) it would be",
        without_recomputation,
    )


def gradient_sync(case: Case) -> Remedy | None:
    """Gradients that are summed over copies."""
    if not case.result.plan.ops.index.has(Kind.REDUCE_GRAD):
        return None

    def alone(before: PlanSpec) -> PlanSpec:
        nothing = (Fraction(0),) * before.problem.stages
        costs = replace(before.problem.costs, gradients=nothing)
        return replace(before, problem=replace(before.problem, costs=costs), sync=replace(before.sync, pipelines=1))

    how = "overlapped" if case.spec.sync.overlapped else "at the end of the step (runtime.grad_sync: end)"
    return Remedy("sync", f"gradients are summed {how}", "without that the step would be", alone)


def batch_normalisation(case: Case) -> Remedy | None:
    """Stages that wait for the whole batch."""
    if not case.spec.sync.batch_normalised:
        return None
    return Remedy(
        "batch sync",
        "stages wait for whole batches (pipeline.batch_sync)",
        "without it the step would be",
        lambda before: replace(before, sync=replace(before.sync, batch_normalised=())),
    )


def optimizer(case: Case) -> Remedy | None:
    """The optimizer's step."""
    taken = case.result.plan.duration[case.result.plan.ops.kind == Kind.OPTIM]
    if not taken.any():
        return None
    return Remedy(
        "optimizer",
        f"the optimizer takes {time(int(taken.max()))}",
        "without it the step would be",
        lambda before: with_costs(before, optimizer=(Fraction(0),) * before.problem.stages),
    )


def overhead(case: Case) -> Remedy | None:
    """Time before every op."""
    each = case.spec.problem.op_overhead
    if not each:
        return None
    return Remedy(
        "overhead",
        f"every op takes {show(each, 'time')} more than its work (runtime.op_overhead)",
        "without it the step would be",
        lambda before: replace(before, problem=replace(before.problem, op_overhead=Fraction(0))),
    )


def moves(case: Case) -> Remedy | None:
    """Activations that are moved to other ranks and back."""
    if not case.result.plan.ops.index.has(*MOVES):
        return None

    def unmoved(before: PlanSpec) -> PlanSpec:
        nothing = (Fraction(0),) * before.problem.stages
        return with_costs(before, activation=nothing, held_for_weight_grad=nothing, stage_input=nothing)

    return Remedy(
        "memory", "activations are moved to other ranks and back", "with moves of no size it would be", unmoved
    )


def barrier(case: Case) -> Remedy | None:
    """Steps that wait for each other."""
    if case.spec.steps == 1 or not case.spec.barrier or case.spec.problem.stream:
        return None
    return Remedy(
        "barrier",
        "every step waits for the last op of the step before (runtime.barrier)",
        f"without it the {case.spec.steps} steps would be",
        lambda before: replace(before, barrier=False),
    )


def few_microbatches(case: Case) -> Remedy | None:
    """The pipeline's filling and draining, shared by few microbatches."""
    problem, schedule = case.spec.problem, case.result.schedule
    if (
        problem.stream
        or problem.ranks == 1
        or isinstance(schedule, FromFile)
        or known().get(schedule.name) is not type(schedule)
    ):
        return None  # an order from a file, or one of the user's own, may hold for these sizes alone
    m = problem.microbatches // len(problem.slices)
    if any(schedule.problems(problem.ranks, 2 * m)):
        return None

    def twice(before: PlanSpec) -> PlanSpec:
        weights = before.microbatch_weights
        more = replace(before.problem, microbatches=2 * before.problem.microbatches)
        return replace(before, problem=more, microbatch_weights=weights * 2 if len(weights) > 1 else weights)

    return Remedy(
        "microbatches",
        f"too few microbatches ({m} for {problem.ranks} ranks)",
        f"with {2 * m} the same work would take",
        twice,
        schedule,
        steps=2,
    )


def order(case: Case) -> Remedy | None:
    """An order that leaves ranks idle where 1F1B wouldn't."""
    problem, placement = case.spec.problem, case.spec.problem.placement
    looped = placement.stages == placement.ranks and not placement.replicated
    if (
        problem.stream
        or not looped
        or not case.result.schedule.trains
        or len(problem.slices) > 1
        or case.result.schedule.name == "1f1b"
        or (case.result.plan.ops.index.has(Kind.R) and case.result.experiment.pipeline.recompute == "none")  # its own R
        or isinstance(case.result.schedule, Limited)  # never slower than a 1F1B that its memory allows
    ):
        return None
    here, there = int(case.result.run.once(memory.peak_in_flight).max()), min(problem.ranks, problem.microbatches)
    holds = f" (with {there} microbatches in flight instead of {here})" if there > here else ""
    return Remedy(
        "order",
        f"the order ({case.result.schedule.name}) leaves ranks idle",
        f"by 1f1b{holds} it would be",
        lambda before: before,
        OneFOneB(),
    )


def memory_limit(case: Case) -> Remedy | None:
    """An order that keeps within a limit of memory."""
    schedule, problem = case.result.schedule, case.spec.problem
    if not isinstance(schedule, Limited):
        return None
    return Remedy(
        "memory limit",
        f"the order ({schedule.name}) keeps within {schedule.limit_words(problem)}",
        "with all the memory that helps it would be",
        lambda before: before,
        schedule.unlimited(problem),
    )


CAUSES: tuple[Cause, ...] = (
    unequal_work, straggler, unequal_microbatches, messages, shared_ports, shared_switches, sending, recomputation,
    gradient_sync, batch_normalisation, optimizer, overhead, moves, memory_limit, barrier, few_microbatches, order,
)  # fmt: skip
"""Every cause; of two that would win the same the earlier is named."""
