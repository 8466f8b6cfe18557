"""Which version of the weights every minibatch of a stream uses, and how long a version is kept for it."""

from __future__ import annotations

import numpy as np

from ppsim.ops import Kind
from ppsim.plan.needs import Index
from ppsim.plan.rows import Rows
from ppsim.plan.table import Category, Events, Holdings, Versions
from ppsim.schedules.base import Problem, Schedule


def versions(rows: Rows, events: Events, problem: Problem, schedule: Schedule) -> Versions | None:
    """The versions of an asynchronous schedule; None where there is a flush.

    A forward uses the version that is current on its rank; with vertical sync the newest one that knows no more
    minibatches than the first stage knew when the minibatch entered there; double buffered the one that the step before
    its predecessor left.
    """
    if not schedule.asynchronous:
        return None
    updates = _updates(rows, problem.update_every)
    forward = rows.select(Kind.F)
    current = _before(rows, updates, forward)
    version = current
    if schedule.double_buffered:
        version = np.maximum(rows.unit[forward] // problem.update_every - 1, 0)
    elif schedule.uses_first_stage_version:
        version = np.minimum(current, _known_at_entry(rows, forward, current, problem))
    used = np.full(len(rows), -1, np.int64)
    used[forward] = version
    backward = rows.lookup(Kind.B, Kind.I)[rows.key[forward]]
    used[backward[backward >= 0]] = version[backward >= 0]
    last = _backward_end(rows)[rows.key[forward]]
    return Versions(used, updates, _stashed(rows, events, updates, forward, version, last))


def _backward_end(rows: Rows) -> Index:
    """The row that ends a backward, by key: W where it is split, else B."""
    weight = rows.lookup(Kind.W)
    return np.where(weight >= 0, weight, rows.lookup(Kind.B))


def _updates(rows: Rows, every: int) -> Index:
    """The rows whose ends are updates: of every ``every``-th backward its OPTIM, else its sync, else itself."""
    last = _backward_end(rows)
    rows_by_key: list[Index] = [rows.lookup(Kind.OPTIM), rows.lookup(Kind.REDUCE_GRAD), last]
    applied = np.where(rows_by_key[0] >= 0, rows_by_key[0], np.where(rows_by_key[1] >= 0, rows_by_key[1], last))
    ends_a_step = np.arange(len(applied)) % rows.units % every == every - 1
    return np.sort(applied[(applied >= 0) & ends_a_step])


def _before(rows: Rows, updates: Index, these: Index) -> Index:
    """How many updates come before each of these rows on its rank; a rank runs its rows in their order."""
    return np.searchsorted(updates, these) - np.searchsorted(updates, rows.offsets[rows.rank[these]])


def _known_at_entry(rows: Rows, forward: Index, current: Index, problem: Problem) -> Index:
    """The version of each forward's stage that knows the minibatches which the first stage knew at its entry."""
    copies = np.array([len(ranks) for ranks in problem.placement.ranks_of])
    entry = forward[rows.stage[forward] == 0]
    known = np.zeros(rows.units, np.int64)
    known[rows.unit[entry]] = np.minimum(current[rows.stage[forward] == 0] * copies[0], rows.units)
    minibatches, n = known[rows.unit[forward]], copies[rows.stage[forward]]
    rounds: Index = np.where(minibatches == rows.units, -(-minibatches // n), minibatches // n)
    return rounds


def _stashed(rows: Rows, events: Events, updates: Index, forward: Index, version: Index, last: Index) -> Holdings:
    """Versions that outlive the update that supersedes them."""
    rank = rows.rank[forward].astype(np.int64)
    first = np.searchsorted(updates, rows.offsets[:-1])
    count = np.diff(np.append(first, len(updates)))
    # Version v of a rank is superseded by its update number v (from 0).
    superseded = (version < count[rank]) & (last >= 0)
    by = first[rank[superseded]] + version[superseded]
    needed_until = np.full(len(updates), -1, np.int64)
    np.maximum.at(needed_until, by, last[superseded])
    kept = np.flatnonzero(needed_until > updates)
    return Holdings(
        rank=rows.rank[updates[kept]],
        category=np.full(len(kept), Category.STASH, np.int8),
        bytes=np.ones(len(kept), np.int64),
        since=events.end(updates[kept]),
        until=events.end(needed_until[kept]),
    )
