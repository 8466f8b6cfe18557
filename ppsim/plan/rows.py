"""Orders -> the rows of the plan: recomputation put in, steps repeated, gradient sync and optimizer appended."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ppsim.config.experiment import Experiment
from ppsim.ops import NONE, Kind, Ops, Orders, concat, ops
from ppsim.plan.table import Ints, Longs
from ppsim.schedules.base import Problem


@dataclass(frozen=True, eq=False)
class Rows:
    """The columns of all ops, rank after rank; ``unit`` is step · microbatches + microbatch (-1: none)."""

    offsets: Longs
    rank: Ints
    kind: NDArray[np.int8]
    stage: Ints
    microbatch: Ints
    step: Ints
    group: Ints
    peer: Ints
    unit: Longs
    stages: int
    units: int

    def __len__(self) -> int:
        return len(self.kind)

    def lookup(self, *kinds: Kind) -> Longs:
        """Row of the op of one of these kinds, by ``stage * units + unit``; -1 where there is none."""
        found = np.full(self.stages * self.units, -1, np.int64)
        rows = np.flatnonzero(np.isin(self.kind, kinds) if len(kinds) > 1 else self.kind == kinds[0])
        found[self.key[rows]] = rows
        return found

    @property
    def key(self) -> Longs:
        """``stage * units + unit`` of every row."""
        return self.stage.astype(np.int64) * self.units + self.unit

    def select(self, *kinds: Kind) -> Longs:
        """The rows of these kinds."""
        mask = self.kind == kinds[0]
        for kind in kinds[1:]:
            mask |= self.kind == kind
        return np.flatnonzero(mask)


def with_recompute(orders: Orders, problem: Problem, experiment: Experiment) -> Orders:
    """R right before the B (or I) of every microbatch that is recomputed; before the pair, where that is fused."""
    modes = [experiment.pipeline.recomputed(stage) for stage in range(problem.stages)]
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
    added = ops(Kind.R, table.stage[rows], table.microbatch[rows])
    position = np.concatenate([np.arange(len(table)) * 2 + 1, before * 2])
    joined = concat(table, added)[np.argsort(position, kind="stable")]
    shift = np.searchsorted(before, orders.offsets)
    return Orders(joined, orders.offsets + shift, orders.after)


def build_rows(orders: Orders, problem: Problem, experiment: Experiment, asynchronous: bool) -> Rows:
    """All steps' rows, with REDUCE_GRAD and OPTIM where they do something."""
    table, m = orders.table, problem.microbatches
    steps = 1 if asynchronous else experiment.pipeline.steps
    per_rank: list[Ops] = [orders.rank(r) for r in range(orders.ranks)]
    if not asynchronous:
        per_rank = [_with_step_end(ops_, r, problem, experiment) for r, ops_ in enumerate(per_rank)]
        orders = Orders.of(per_rank, orders.after) if any(len(a) != len(b) for a, b in zip(per_rank, orders, strict=True)) else orders
        table = orders.table
    length = np.diff(orders.offsets)
    if steps > 1:
        # Row j of rank r in step s comes from row offsets[r] + j of the one step.
        total = length * steps
        offsets = np.concatenate([[0], np.cumsum(total)])
        inside = np.arange(offsets[-1]) - np.repeat(offsets[:-1], total)
        per = np.repeat(np.maximum(length, 1), total)
        step = (inside // per).astype(np.int32)
        pairs = int(table.group.max(initial=NONE)) + 1
        table = table[np.repeat(orders.offsets[:-1], total) + inside % per]
        table = replace(table, group=np.where(table.group == NONE, NONE, table.group + step * pairs).astype(np.int32))
    else:
        offsets = orders.offsets
        step = np.zeros(len(table), np.int32)
    microbatch = table.microbatch
    unit = np.where(microbatch == NONE, NONE, microbatch + step.astype(np.int64) * m)
    if asynchronous:
        step = np.where(microbatch == NONE, 0, microbatch // m).astype(np.int32)
    return Rows(
        offsets=offsets.astype(np.int64),
        rank=np.repeat(np.arange(orders.ranks, dtype=np.int32), np.diff(offsets)),
        kind=table.kind,
        stage=table.stage,
        microbatch=microbatch,
        step=step,
        group=table.group,
        peer=table.peer,
        unit=unit,
        stages=problem.stages,
        units=m * experiment.pipeline.steps,
    )


def _with_step_end(table: Ops, rank: int, problem: Problem, experiment: Experiment) -> Ops:
    """One rank's step with its gradient sync (at the end, or after each stage's last backward) and its optimizer."""
    held = problem.placement.stages_of[rank]
    listed = np.any(table.kind == Kind.REDUCE_GRAD)
    if experiment.pipeline.data_parallel > 1 and not listed:
        if experiment.runtime.grad_sync == "end":
            table = concat(table, ops(Kind.REDUCE_GRAD, np.array(held), NONE))
        else:
            backward = (table.kind == Kind.B) | (table.kind == Kind.I) | (table.kind == Kind.W)
            last = {stage: np.flatnonzero(backward & (table.stage == stage)) for stage in held}
            for stage, rows in sorted(last.items(), key=lambda item: item[1][-1] if len(item[1]) else -1, reverse=True):
                after = int(rows[-1]) + 1 if len(rows) else len(table)
                if 0 < after < len(table) and table.group[after] != NONE and table.group[after] == table.group[after - 1]:
                    after += 1
                table = concat(table[:after], ops(Kind.REDUCE_GRAD, stage, NONE), table[after:])
    several = experiment.pipeline.steps > 1 or experiment.pipeline.data_parallel > 1
    if (several or any(problem.costs.optimizer[stage] for stage in held)) and not np.any(table.kind == Kind.OPTIM):
        table = concat(table, ops(Kind.OPTIM, held[0], NONE))
    return table
