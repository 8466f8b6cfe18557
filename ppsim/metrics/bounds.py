"""Will it pay? What no schedule with these costs and this placement can beat."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from ppsim.engine.timeline import PER_SECOND
from ppsim.metrics.base import Run, metric
from ppsim.metrics.bubble import busy
from ppsim.ops import Kind, Longs


def lead(run: Run) -> Longs:
    """Ns per rank of the forwards that must come before its first op: the earlier stages' shortest forwards."""
    before = [0, *accumulate(_shortest_forward(run))]
    return np.array([before[min(held)] if held else 0 for held in run.plan.placement.stages_of], np.int64)


def _shortest_forward(run: Run) -> list[int]:
    """Ns of each stage's shortest forward that runs by itself; 0 where there is none."""
    plan, stages = run.plan, run.plan.placement.stages
    rows, by_key = plan.ops.index.select(Kind.F), plan.ops.index.lookup(Kind.F)
    if not plan.atomic and len(rows) == len(by_key) and plan.ops.index.extent.stages == stages and by_key.min() >= 0:
        table = plan.duration[by_key].reshape(stages, -1)  # there is one of each
        return table.min(axis=1).tolist()  # type: ignore[no-any-return]
    if plan.atomic:
        rows = rows[~np.append(plan.tail[1:], False)[rows]]
    far = np.iinfo(np.int64).max
    shortest = np.full(stages, far, np.int64)
    np.minimum.at(shortest, plan.ops.stage[rows], plan.duration[rows])
    return [0 if ns == far else ns for ns in shortest.tolist()]


def _steps(run: Run) -> int:
    return 1 if run.plan.asynchronous else run.plan.steps


def step_bound(run: Run) -> int:
    """Ns that one step takes at least (of a stream: the whole of it)."""
    work = run.once(busy)
    return int((run.once(lead) + -(-work // _steps(run))).max(initial=0))


def run_bound(run: Run) -> int:
    """Ns that the whole run takes at least."""
    if run.plan.barrier:
        return _steps(run) * run.once(step_bound)
    return int((run.once(lead) + run.once(busy)).max(initial=0))


@metric(
    scope="run",
    unit="s",
    better="low",
    definition="largest over ranks of the forwards before its first op plus all its work in a step",
    needs=("costs",),
    of_work=True,
)
def step_bound_s(run: Run) -> float:
    """No schedule with these costs and this placement beats it in one step."""
    return run.once(step_bound) / PER_SECOND


@metric(
    scope="run",
    unit="s",
    better="low",
    definition="work of the busiest rank in a step",
    needs=("costs",),
    of_work=True,
)
def busy_bound_s(run: Run) -> float:
    """The bound for many steps without a barrier."""
    return int(run.once(busy).max(initial=0)) / _steps(run) / PER_SECOND


@metric(
    scope="run",
    unit="1",
    better="low",
    definition="makespan / step_bound_s (of several steps: / their bound)",
    needs=("costs",),
)
def max_speedup(run: Run) -> float | None:
    """What a perfect schedule would win in one step."""
    bound = run_bound(run)
    return run.timeline.makespan / bound if bound else None


@metric(scope="run", unit="1", better="low", definition="makespan / busy_bound_s", needs=("costs",))
def max_speedup_stream(run: Run) -> float | None:
    """What a perfect schedule would win over many steps without a barrier."""
    bound = int(run.once(busy).max(initial=0))
    return run.timeline.makespan / bound if bound else None
