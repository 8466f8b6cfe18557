"""Orders -> the ops of the plan: recomputation put in, steps repeated, gradient sync and optimizer appended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ppsim.ops import NONE, Constant, Extent, Kind, OpTable, Orders, among, concat, ops
from ppsim.plan.spec import PlanSpec


def with_recompute(orders: Orders, spec: PlanSpec) -> Orders:
    """R right before the B (or I) of every microbatch that is recomputed; before the pair, where that is fused."""
    problem, modes = spec.problem, spec.recompute.of_stage
    if all(mode == "none" for mode in modes) or np.any(orders.table.kind == Kind.R):
        return orders
    table = orders.table
    recomputed = np.array([mode != "none" for mode in modes])[table.stage]
    spared = np.array([mode == "except_last" for mode in modes])[table.stage]
    last = table.microbatch % problem.microbatches >= problem.microbatches - len(problem.slices)
    wanted = ((table.kind == Kind.B) | (table.kind == Kind.I)) & recomputed & ~(spared & last)
    rows = np.flatnonzero(wanted)
    fused = table.group[rows] != NONE
    before = np.where(fused, rows - 1, rows)
    joined = _inserted(table, before, ops(Kind.R, table.stage[rows], table.microbatch[rows]))
    offsets = table.offsets + np.searchsorted(before, table.offsets)
    return Orders(replace(joined, offsets=offsets), orders.after)


def _inserted(table: OpTable, before: NDArray[np.int64], added: OpTable) -> OpTable:
    """The table with each added op right before a row of it; those before the same row keep their order."""
    if not len(added):
        return table
    position = np.concatenate([np.arange(len(table)) * 2 + 1, before * 2])
    return concat(table, added)[np.argsort(position, kind="stable")]


def unrolled(orders: Orders, spec: PlanSpec) -> OpTable:
    """The ops of all steps, with REDUCE_GRAD and OPTIM where they do something."""
    m, steps = spec.problem.microbatches, spec.steps
    extent = Extent(spec.problem.stages, m * spec.problem.steps, m if steps > 1 else None)
    if spec.problem.stream:
        table = Orders.of([_with_updates(one, spec) for one in orders]).table
        step = np.where(table.microbatch == NONE, 0, table.microbatch // m).astype(np.int32)
        return replace(table, step=step, extent=extent)
    table = orders.table
    if _step_has_end(orders, spec):
        per_rank = [_with_step_end(one, rank, spec) for rank, one in enumerate(orders)]
        table = Orders.of(per_rank).table
    if steps > 1:
        return replace(_repeated(table, steps), extent=extent)
    return table if table.extent == extent else replace(table, extent=extent)


def _repeated(table: OpTable, steps: int) -> OpTable:
    """So many steps of what a table lists for one."""
    # Row j of rank r in step s comes from row offsets[r] + j of the one step.
    length = np.diff(table.offsets)
    total = length * steps
    offsets = np.concatenate([[0], np.cumsum(total)])
    inside = np.arange(offsets[-1]) - np.repeat(offsets[:-1], total)
    per = np.repeat(np.maximum(length, 1), total)
    step = (inside // per).astype(np.int32)
    many: OpTable = table[np.repeat(table.offsets[:-1], total) + inside % per]
    group = many.group
    if not isinstance(group, Constant):
        pairs = int(group.max(initial=NONE)) + 1
        group = np.where(group == NONE, np.int32(NONE), group + step * np.int32(pairs))
    return replace(many, step=step, group=group, offsets=offsets)


def _step_has_end(orders: Orders, spec: PlanSpec) -> bool:
    """Whether a step ends with a gradient sync or an optimizer on some rank."""
    return (
        spec.steps > 1
        or any(spec.problem.costs.optimizer)
        or any(_sums_gradients(stage, spec) for stage in range(spec.problem.stages))
        or orders.table.index.has(Kind.REDUCE_GRAD)
    )


def _with_step_end(table: OpTable, rank: int, spec: PlanSpec) -> OpTable:
    """One rank's step with its gradient sync (at the end, or after each stage's last backward) and its optimizer."""
    if not np.any(among(table.kind, (Kind.B, Kind.I))):
        return table
    # Ascending on every rank, so that ranks with two stages in common sync them in the same order.
    held = np.array(sorted(spec.problem.placement.stages_of[rank]))
    if not np.any(table.kind == Kind.REDUCE_GRAD):
        synced = [s for s in held.tolist() if _sums_gradients(s, spec)]
        before = np.full(len(synced), len(table), np.int64)
        if spec.sync.overlapped:
            before = np.array([_after_last_backward(table, stage) for stage in synced], np.int64)
            order = np.argsort(before, kind="stable")
            before, synced = before[order], [synced[i] for i in order.tolist()]
        table = _inserted(table, before, ops(Kind.REDUCE_GRAD, np.array(synced, np.int32), NONE))
    wanted = (
        spec.steps > 1
        or spec.sync.pipelines > 1
        or np.any(table.kind == Kind.REDUCE_GRAD)
        or any(spec.problem.costs.optimizer[stage] for stage in held.tolist())
    )
    if wanted and not np.any(table.kind == Kind.OPTIM):
        table = concat(table, ops(Kind.OPTIM, spec.problem.placement.stages_of[rank][0], NONE))
    return table


def _sums_gradients(stage: int, spec: PlanSpec) -> bool:
    copies = len(spec.problem.placement.ranks_of[stage])
    return spec.sync.pipelines > 1 or (copies > 1 and spec.problem.costs.summed[stage] > 0)


def _after_last_backward(table: OpTable, stage: int) -> int:
    """The row before which a stage's gradients are complete; a fused pair isn't taken apart."""
    backward = (table.kind == Kind.B) | (table.kind == Kind.I) | (table.kind == Kind.W)
    rows = np.flatnonzero(backward & (table.stage == stage))
    if not len(rows):
        return len(table)
    after = int(rows[-1]) + 1
    in_pair = after < len(table) and table.group[after] != NONE and table.group[after] == table.group[after - 1]
    return after + in_pair


def _with_updates(table: OpTable, spec: PlanSpec) -> OpTable:
    """One rank's stream with the update after each backward: a round's gradient sync, then the optimizer.

    Microbatches go round-robin over a stage's copies; a round is one of each. Where a stage has one copy and its
    optimizer takes no time, the update is the end of the backward.
    """
    problem = spec.problem
    total = problem.microbatches * problem.steps
    split = np.any(table.kind == Kind.W)
    rows = np.flatnonzero(table.kind == (Kind.W if split else Kind.B))
    rows = rows[table.microbatch[rows] % problem.update_every == problem.update_every - 1]
    stage, microbatch = table.stage[rows], table.microbatch[rows]
    copies = np.array([len(ranks) for ranks in problem.placement.ranks_of])[stage]
    # The last round may lack some copies; one that is alone has nobody to sync with.
    left = total if problem.update_every > 1 else total - microbatch // copies * copies
    shared = np.minimum(copies, left) * spec.sync.pipelines > 1
    timed = np.array([value > 0 for value in problem.costs.optimizer])[stage]
    at = np.concatenate([rows[shared], rows[timed]]) + 1
    kinds = np.repeat([Kind.REDUCE_GRAD, Kind.OPTIM], [shared.sum(), timed.sum()])
    both = [np.concatenate([column[shared], column[timed]]) for column in (stage, microbatch)]
    return _inserted(table, at, ops(kinds, *both))
