"""Which version of the weights every minibatch of a stream uses, and how long a version is kept for it."""

from __future__ import annotations

import numpy as np

from ppsim.ops import Constant, Kind, Numbers, OpTable
from ppsim.plan.boundary import taken_up
from ppsim.plan.spec import PlanSpec
from ppsim.plan.table import Category, Events, Holdings, Versions
from ppsim.schedules.base import Problem


def versions(ops: OpTable, events: Events, spec: PlanSpec) -> Versions | None:
    """The versions of an asynchronous schedule; None where there is a flush.

    A forward uses the version that is current on its rank; with vertical sync the newest one that knows no more
    minibatches than the first stage knew when the minibatch entered there; double buffered the one that the step before
    its predecessor left.
    """
    problem = spec.problem
    if not problem.stream:
        return None
    updates = _updates(ops, spec)
    forward = ops.index.select(Kind.F)
    current = _before(ops, updates, forward)
    version = current
    if spec.version == "double_buffered":
        version = np.maximum(ops.index.unit[forward] // problem.update_every - 1, 0)
    elif spec.version == "first_stage":
        version = np.minimum(current, _known_at_entry(ops, forward, current, problem))
    used = np.full(len(ops), -1, np.int64)
    used[forward] = version
    backward = ops.index.lookup(Kind.B, Kind.I)[ops.index.key[forward]]
    used[backward[backward >= 0]] = version[backward >= 0]
    return Versions(used, updates, _stashed(ops, events, updates, used))


def _backward_end(ops: OpTable) -> Numbers:
    """The row that ends a backward, by key: W where it is split, else B."""
    weight = ops.index.lookup(Kind.W)
    return np.where(weight >= 0, weight, ops.index.lookup(Kind.B))


def _updates(ops: OpTable, spec: PlanSpec) -> Numbers:
    """The rows whose ends are updates: of a step's last backward its OPTIM, else its sync, else itself.

    Of an overlapped sync it is what waits for it: nothing before that may count on the round's gradients.
    """
    every = spec.problem.update_every
    last = _backward_end(ops)
    optimizer, sync = (np.asarray(ops.index.lookup(kind)) for kind in (Kind.OPTIM, Kind.REDUCE_GRAD))
    summed = sync >= 0
    if spec.rounds_overlap and np.any(summed):
        sync = sync.copy()
        sync[summed] = taken_up(ops, sync[summed])
    applied = np.where(optimizer >= 0, optimizer, np.where(summed, sync, last))
    ends_a_step = np.arange(len(applied)) % ops.index.units % every == every - 1
    return np.sort(applied[(applied >= 0) & ends_a_step])


def _before(ops: OpTable, updates: Numbers, these: Numbers) -> Numbers:
    """How many updates come before each of these rows on its rank; a rank runs its rows in their order."""
    return np.searchsorted(updates, these) - np.searchsorted(updates, ops.offsets[ops.rank[these]])


def _known_at_entry(ops: OpTable, forward: Numbers, current: Numbers, problem: Problem) -> Numbers:
    """The version of each forward's stage that knows the minibatches which the first stage knew at its entry."""
    copies = np.array([len(ranks) for ranks in problem.placement.ranks_of])
    entry = forward[ops.stage[forward] == 0]
    known = np.zeros(ops.index.units, np.int64)
    known[ops.index.unit[entry]] = np.minimum(current[ops.stage[forward] == 0] * copies[0], ops.index.units)
    minibatches, n = known[ops.index.unit[forward]], copies[ops.stage[forward]]
    rounds: Numbers = np.where(minibatches == ops.index.units, -(-minibatches // n), minibatches // n)
    return rounds


def _stashed(ops: OpTable, events: Events, updates: Numbers, used: Numbers) -> Holdings:
    """Versions that outlive the update that supersedes them."""
    forward = ops.index.select(Kind.F)
    rank, version = ops.rank[forward].astype(np.int64), used[forward]
    last = _backward_end(ops)[ops.index.key[forward]]
    first = np.searchsorted(updates, ops.offsets[:-1])
    count = np.diff(np.append(first, len(updates)))
    # Version v of a rank is superseded by its update number v (from 0).
    superseded = (version < count[rank]) & (last >= 0)
    by = first[rank[superseded]] + version[superseded]
    needed_until = np.full(len(updates), -1, np.int64)
    np.maximum.at(needed_until, by, last[superseded])
    kept = np.flatnonzero(needed_until > updates)
    return Holdings(
        rank=ops.rank[updates[kept]],
        category=Constant(np.int8(Category.STASH), len(kept)),
        bytes=Constant(np.int64(1), len(kept)),
        since=events.end(updates[kept]),
        until=events.end(needed_until[kept]),
    )
