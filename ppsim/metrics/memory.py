"""Memory per rank over time, by category, and its peaks.

At one instant what is freed goes before what is allocated; what is held for no time counts nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ppsim.engine.timeline import PER_SECOND
from ppsim.errors import Notice
from ppsim.metrics.base import Run, metric
from ppsim.metrics.peaks import Groups, Peaks, by_group_and_time, peaks
from ppsim.ops import MOVES, Kinds, Longs
from ppsim.plan.table import CATEGORIES, Category, Holdings, Plan
from ppsim.units import show


@dataclass(frozen=True, eq=False)
class Changes:
    """What is allocated (+) and freed (-) on each rank, sorted by rank, then time."""

    time: Longs
    delta: Longs
    category: Kinds
    bounds: Longs
    """Rank r's changes are ``bounds[r]:bounds[r + 1]``."""


def changes(run: Run) -> Changes:
    """The holdings of all ranks as changes over time; what is held for no time left out."""
    held, times = run.plan.holdings, run.timeline.times
    since, until = times[held.since], times[held.until]
    lasting = np.flatnonzero(until > since)
    rank = np.tile(held.rank[lasting].astype(np.int64), 2)
    time = np.concatenate([since[lasting], until[lasting]])
    order = by_group_and_time(rank, time)
    size = held.bytes[lasting]
    return Changes(
        time[order],
        np.concatenate([size, -size])[order],
        np.tile(held.category[lasting], 2)[order],
        np.searchsorted(rank[order], np.arange(run.plan.ops.ranks + 1)),
    )


def rank_peaks(run: Run) -> Peaks:
    """Peaks over ranks, without what is held throughout."""
    return peaks(run, run.plan.holdings)


def peak_bytes(run: Run) -> Longs:
    """Peak bytes per rank, all categories."""
    held: Longs = run.plan.static.sum(axis=0)
    return held + run.once(rank_peaks).bytes


def peak_by_category(run: Run) -> Longs:
    """Bytes per (category, rank) at the moment of the rank's peak."""
    held, times, out = run.plan.holdings, run.timeline.times, run.plan.static.copy()
    moment = run.once(rank_peaks).since
    begun = np.flatnonzero(times[held.since] <= moment[held.rank])
    there = begun[times[held.until[begun]] > moment[held.rank[begun]]]
    place = np.asarray(held.category[there], np.int64) * run.plan.ops.ranks + held.rank[there]
    np.add.at(out.reshape(-1), place, np.asarray(held.bytes[there]))  # ten times as fast as by pairs of indices
    return out


def peak_time(run: Run) -> Longs:
    """When each rank's peak begins, in ns; 0 where nothing but static memory is held."""
    return np.maximum(run.once(rank_peaks).since, 0)


def peak_activation_by_stage(run: Run) -> dict[tuple[int, int], int]:
    """Peak activation bytes of each (rank, stage)."""
    held = run.plan.holdings
    places = np.flatnonzero(held.category == Category.ACTIVATIONS)
    if not len(places):
        return {}
    first, last = int(places[0]), int(places[-1])
    mine = slice(first, last + 1) if last - first < len(places) else places
    part = Holdings(held.rank[mine], held.category[mine], held.bytes[mine], held.since[mine], held.until[mine])
    pairs, groups = _by_stage(run.plan, part)
    return dict(zip(pairs, peaks(run, part, groups).bytes.tolist(), strict=True))


def _by_stage(plan: Plan, held: Holdings) -> tuple[list[tuple[int, int]], Groups]:
    """The (rank, stage) of each group, and which of them these activations belong to."""
    ops, placement, t = plan.ops, plan.placement, len(plan.transfers)
    alone = placement.stages == ops.ranks and not placement.replicated
    if alone and not ops.index.has(*MOVES):  # what a rank holds is of its one stage
        pairs = [(rank, stage) for rank, (stage,) in enumerate(placement.stages_of)]
        return pairs, Groups(len(pairs), held.rank, ops.rank)
    event = row = held.since
    n = len(ops)
    if event.max() >= n:
        row = event % n if not t else np.where(event < 2 * n, event % n, plan.transfers.issuer[(event - 2 * n) % t])
    if not placement.replicated and np.array_equal(ops.rank[row], held.rank):
        pairs = [(ranks[0], stage) for stage, ranks in enumerate(placement.ranks_of)]
        return pairs, Groups(len(pairs), ops.stage[row], ops.stage)
    # A stage is in two places, or its activations moved to another rank.
    where, stage = np.concatenate([held.rank, ops.rank]), np.concatenate([ops.stage[row], ops.stage])
    codes, number = np.unique(where.astype(np.int64) * placement.stages + stage, return_inverse=True)
    pairs = [divmod(code, placement.stages) for code in codes.tolist()]
    return pairs, Groups(len(pairs), number[: len(row)], number[len(row) :])


@dataclass(frozen=True, eq=False)
class Curves:
    """Memory as steps: from ``time[i]`` on, rank ``rank[i]`` holds ``bytes[i, category]``; a row per change."""

    rank: Longs
    time: Longs
    bytes: Longs


def curves(run: Run) -> Curves:
    """Memory of every rank over time, by category; the first row of a rank is at time 0."""
    plan, found = run.plan, run.once(changes)
    parts: list[tuple[Longs, Longs, Longs]] = []
    for rank in range(plan.ops.ranks):
        here = slice(int(found.bounds[rank]), int(found.bounds[rank + 1]))
        steps = np.zeros((here.stop - here.start + 1, len(Category)), np.int64)
        steps[0] = plan.static[:, rank]
        steps[np.arange(1, len(steps)), found.category[here]] = found.delta[here]
        level = np.cumsum(steps, axis=0)
        time = np.concatenate([[0], found.time[here]])
        last = np.flatnonzero(np.append(time[1:] != time[:-1], True))  # of one instant's changes only the sum is seen
        seen = level[last]
        new = last[np.append(True, np.any(seen[1:] != seen[:-1], axis=1))]
        parts.append((np.full(len(new), rank, np.int64), time[new], level[new]))
    rank_, time_, level_ = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Curves(rank_, time_, level_)


@metric(scope="run", unit="B", better="low", definition="most that any rank holds at once", needs=("memory",))
def peak_memory_bytes(run: Run) -> int:
    """The largest peak."""
    return int(run.once(peak_bytes).max())


@metric(scope="run", unit="bool", definition="peak memory <= the device's memory on every rank", needs=("memory",))
def fits(run: Run) -> bool | None:
    """Whether every rank's peak is within the device's memory; None where that, or what else is held, isn't known."""
    capacity = run.plan.capacity
    if capacity is None:
        return None
    within = peak_memory_bytes(run) <= capacity
    return None if within and not run.sizes_known else within


@metric(
    scope="rank",
    name="peak_memory_bytes",
    unit="B",
    better="low",
    definition="most that it holds at once",
    needs=("memory",),
)
def rank_peak_bytes(run: Run) -> Longs:
    """The peak of every rank."""
    return run.once(peak_bytes)


@metric(scope="rank", unit="s", definition="when its peak begins", needs=("memory",))
def peak_memory_at_s(run: Run) -> list[float]:
    """When the peak of every rank begins."""
    return [ns / PER_SECOND for ns in peak_time(run).tolist()]


@metric(
    scope="rank",
    name="peak_by_category",
    unit="table",
    definition="bytes held at its peak, by what for",
    needs=("memory",),
)
def rank_peak_by_category(run: Run) -> list[dict[str, int]]:
    """Bytes by category at the peak of every rank."""
    return [dict(zip(CATEGORIES, held, strict=True)) for held in peak_by_category(run).T.tolist()]


@metric(
    scope="rank",
    unit="count",
    better="low",
    definition="most (stage, microbatch) activations alive at once, from the start of F to the end of B or I",
    needs=("memory",),
)
def peak_in_flight(run: Run) -> Longs:
    """Most activations alive on every rank at once."""
    return peaks(run, run.plan.in_flight).bytes


@metric(scope="stage", unit="B", better="low", definition="most of its activations held at once", needs=("memory",))
def peak_activation_bytes(run: Run) -> list[int]:
    """Peak activation bytes of every stage on each of its ranks."""
    peak = run.once(peak_activation_by_stage)
    return [peak.get((rank, s), 0) for s, ranks in enumerate(run.plan.placement.ranks_of) for rank in ranks]


def too_much(run: Run) -> Iterator[Notice]:
    """What doesn't fit: the rank that is furthest over, when, by how much, and how many others are over, too."""
    capacity, peak = run.plan.capacity, run.once(peak_bytes)
    if capacity is None or int(peak.max()) <= capacity:
        return
    rank = int(peak.argmax())
    needed, over = (show(Fraction(n), "size") for n in (int(peak[rank]), int(peak[rank]) - capacity))
    when = show(Fraction(int(peak_time(run)[rank]), PER_SECOND), "time")
    others = int((peak > capacity).sum()) - 1
    yield Notice(
        "does_not_fit",
        "cluster.device.memory",
        f"rank {rank} needs {needed} at {when}, {over} more than the device's {show(Fraction(capacity), 'size')}"
        + (f"; {others} more rank{'s'[: others - 1]} over it, too" if others else ""),
    )
