"""Weight versions and staleness of asynchronous schedules, as they came about in the run.

Version 0 are the first weights; the end of a rank's u-th update makes version u. A rank runs its ops in listed order,
so that the updates which have happened when an op starts are those of the rows before it, be they of no length.
"""

from __future__ import annotations

import numpy as np

from ppsim.metrics.base import Run
from ppsim.metrics.peaks import peaks
from ppsim.ops import Kind, Longs


def weight_versions(run: Run) -> Longs | None:
    """Most weight versions that a rank holds at once: the current one, and all that a minibatch still needs.

    With vertical sync a stage also keeps what a minibatch that has not reached it yet will need. 1 where the schedule
    flushes; None where it isn't known what the ops used.
    """
    if "dependencies" not in run.knows:
        return None
    if run.plan.versions is None:
        return np.ones(run.plan.ops.ranks, np.int64)
    return 1 + peaks(run, run.plan.versions.stashed).bytes


def staleness(run: Run) -> Longs | None:
    """Most updates per rank that a backward's weights lag behind when it starts, since the version of its forward.

    0 where the schedule flushes; None where it isn't known what the ops used.
    """
    if "dependencies" not in run.knows:
        return None
    plan, found = run.plan, run.plan.versions
    out = np.zeros(plan.ops.ranks, np.int64)
    if found is not None:
        backward = np.flatnonzero((plan.ops.kind == Kind.B) | (plan.ops.kind == Kind.I))
        first = np.searchsorted(found.updates, plan.ops.offsets[plan.ops.rank[backward]])
        applied = np.searchsorted(found.updates, backward) - first
        np.maximum.at(out, plan.ops.rank[backward], applied - found.used[backward])
    return out
