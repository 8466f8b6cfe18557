"""Clocks that differ: offsets of ranks from causality, as no message arrives before it is sent.

A rank's clock may be ahead of another's, by a constant, or where each step's times begin anew by one per step. Between
two ranks that send each other messages, each way, the hop (the consumer's start less the producer's end) is at least 0:
that bounds the difference of their clocks from both sides. Offsets are found only where a hop is negative: the fewest
ranks that must move do (the least sum of offsets), each to where the hops there and back have the same room, and how
far it could be off is the uncertainty.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ppsim.analysis.measured.lanes import Lanes
from ppsim.analysis.measured.replay import Replay
from ppsim.errors import PpsimError

TOLERATED_NS = 1.0


@dataclass(frozen=True, eq=False)
class Clocks:
    """Offsets to add to each worker's times in ns, and how far off they are at most: (replicas, ranks, steps)."""

    offset: np.ndarray
    uncertain: np.ndarray
    worst_hop: float
    """The most negative hop, in ns; 0 where none is."""
    steps: tuple[int, ...]
    unsolved: tuple[int, ...] = ()
    """Steps, by their numbers, in which no offsets make all hops positive."""

    @property
    def differ(self) -> bool:
        """Whether any clock was set."""
        return bool(np.any(self.offset != 0))

    def said(self) -> list[str]:
        """A sentence about each clock that was set, or about why it couldn't be."""
        out: list[str] = []
        for replica, rank in zip(*np.nonzero(np.any(self.offset != 0, axis=2)), strict=True):
            mine = self.offset[replica, rank]
            some = np.flatnonzero(mine)
            when = (
                ""
                if len(some) == len(mine) > 1
                else f" in step {', '.join(str(self.steps[i]) for i in some[:6].tolist())}"
            )
            largest = some[np.argmax(np.abs(mine[some]))]
            whose = f" of replica {replica}" if len(self.offset) > 1 else ""
            out.append(
                f"clock of rank {rank}{whose}{when}: set by {mine[largest] / 1e3:+,.1f} us, known to "
                f"±{self.uncertain[replica, rank, largest] / 1e3:,.1f} us"
            )
        if self.unsolved:
            which = ", ".join(map(str, self.unsolved[:6]))
            out.append(
                f"step {which}: a message arrives {-self.worst_hop / 1e3:,.1f} us before it is sent, and no offsets of "
                "clocks make that right: the spans aren't what they are called; left as they are"
            )
        return out


def clocks(lanes: Lanes) -> Clocks:
    """The offsets that make every hop of every replica at least 0: one per worker, or where none will do one per step.

    Needs scipy where a hop is negative.
    """
    hops = Replay(lanes).hops
    shape = (lanes.measured.replicas, lanes.measured.ranks, len(lanes.steps))
    offset, uncertain = np.zeros(shape), np.zeros(shape)
    gap = lanes.start[hops.consumer] - lanes.end[hops.producer]
    least = -max(TOLERATED_NS, lanes.measured.clock_ns)
    worst = float(gap.min(initial=0))
    unsolved: set[int] = set()
    for replica in range(shape[0]) if worst <= least else ():
        bounds = np.full((shape[1], shape[1], shape[2]), np.inf)
        np.minimum.at(bounds, (hops.src, hops.dst), gap[:, replica])
        if np.all(bounds > least):
            continue
        found = _offsets(bounds.min(axis=2))
        if found is not None:
            offset[replica], uncertain[replica] = (column[:, None] for column in found)
            continue
        for step in np.flatnonzero(np.any(bounds <= least, axis=(0, 1))).tolist():
            found = _offsets(bounds[:, :, step])
            if found is None:
                unsolved.add(lanes.steps[step])
            else:
                offset[replica, :, step], uncertain[replica, :, step] = found
    return Clocks(offset, uncertain, worst, lanes.steps, tuple(sorted(unsolved)))


def _offsets(bound: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Offsets with offset[a] - offset[b] <= bound[a, b] where a sends to b, and how far off each may be.

    None where there are no such offsets.
    """
    linprog = _scipy()
    ranks = len(bound)
    pairs = np.argwhere(np.isfinite(bound))
    rows = np.zeros((len(pairs), ranks))
    rows[np.arange(len(pairs)), pairs[:, 0]] += 1
    rows[np.arange(len(pairs)), pairs[:, 1]] -= 1
    limits = bound[pairs[:, 0], pairs[:, 1]]
    # The least sum of |offset|: two columns per rank, up and down.
    least = linprog(np.ones(2 * ranks), A_ub=np.hstack([rows, -rows]), b_ub=limits, bounds=(0, None), method="highs")
    if least.status != 0:
        return None
    moved = np.abs(least.x[:ranks] - least.x[ranks:]) > TOLERATED_NS
    for rank in sorted(np.flatnonzero(moved).tolist(), key=lambda r: abs(least.x[r] - least.x[ranks + r])):
        trial = moved & (np.arange(ranks) != rank)
        sides = [(None, None) if move else (0, 0) for move in trial]
        if linprog(np.zeros(ranks), A_ub=rows, b_ub=limits, bounds=sides, method="highs").status == 0:
            moved = trial
    # Those that move go where the hops of each pair, there and back, have the same room.
    both = [(a, b) for a, b in pairs.tolist() if a < b and np.isfinite(bound[b, a]) and (moved[a] or moved[b])]
    uneven = np.zeros((2 * len(both), ranks + len(both)))
    target = np.zeros(2 * len(both))
    for i, (a, b) in enumerate(both):
        middle = (bound[a, b] - bound[b, a]) / 2
        uneven[2 * i, [a, b, ranks + i]] = 1, -1, -1
        uneven[2 * i + 1, [a, b, ranks + i]] = -1, 1, -1
        target[2 * i : 2 * i + 2] = middle, -middle
    wide = np.hstack([rows, np.zeros((len(pairs), len(both)))])
    free = [(None, None) if move else (0, 0) for move in moved] + [(0, None)] * len(both)
    cost = np.concatenate([np.zeros(ranks), np.ones(len(both))])
    even = linprog(
        cost, A_ub=np.vstack([wide, uneven]), b_ub=np.concatenate([limits, target]), bounds=free, method="highs"
    )
    offset = even.x[:ranks] if even.status == 0 else least.x[:ranks] - least.x[ranks:]
    offset = np.where(moved, np.rint(offset), 0.0)
    room = limits - (offset[pairs[:, 0]] - offset[pairs[:, 1]])
    up, down = np.full(ranks, np.inf), np.full(ranks, np.inf)
    np.minimum.at(up, pairs[:, 0], room)
    np.minimum.at(down, pairs[:, 1], room)
    return offset, np.where(moved & np.isfinite(up + down), np.maximum(up, down), 0.0)


def _scipy() -> Any:
    try:
        from scipy.optimize import linprog
    except ImportError:
        raise PpsimError("the trace's clocks differ; setting them needs scipy: pip install 'ppsim[fit]'") from None
    return linprog


def synchronised(lanes: Lanes, found: Clocks) -> Lanes:
    """The lanes with every worker's times on one clock."""
    if not found.differ:
        return lanes
    shift = np.rint(found.offset).astype(np.int64).transpose(1, 0, 2)[lanes.rank]
    return replace(lanes, start=lanes.start + shift, end=lanes.end + shift)
