"""Weight versions and staleness of asynchronous schedules, as they came about in the run.

Version 0 are the first weights; the end of a rank's u-th update makes version u. A rank runs its ops in listed order,
so that the updates which have happened when an op starts are those of the rows before it, be they of no length.
"""

from __future__ import annotations

import numpy as np

from ppsim.metrics.base import Run, metric
from ppsim.metrics.peaks import peaks
from ppsim.ops import Kind, Longs


@metric(
    scope="rank",
    unit="count",
    better="low",
    definition="most versions of the weights held at once, the current one among them",
    needs=("dependencies",),
)
def weight_versions(run: Run) -> Longs:
    """Most weight versions that a rank holds at once: the current one, and all that a minibatch still needs.

    With vertical sync a stage also keeps what a minibatch that has not reached it yet will need. 1 where the schedule
    flushes.
    """
    if run.plan.versions is None:
        return np.ones(run.plan.ops.ranks, np.int64)
    return 1 + peaks(run, run.plan.versions.stashed).bytes


@metric(
    scope="rank",
    unit="count",
    better="low",
    definition="most updates that a backward's weights lag behind, since the version of its forward",
    needs=("dependencies",),
)
def staleness(run: Run) -> Longs:
    """Most updates per rank that a backward's weights lag behind when it starts, since the version of its forward.

    0 where the schedule flushes.
    """
    plan, found = run.plan, run.plan.versions
    out = np.zeros(plan.ops.ranks, np.int64)
    if found is not None:
        backward = np.flatnonzero((plan.ops.kind == Kind.B) | (plan.ops.kind == Kind.I))
        first = np.searchsorted(found.updates, plan.ops.offsets[plan.ops.rank[backward]])
        applied = np.searchsorted(found.updates, backward) - first
        np.maximum.at(out, plan.ops.rank[backward], applied - found.used[backward])
    return out
