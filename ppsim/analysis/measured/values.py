"""What a measured run's ops, links and syncs take: medians over steps and microbatches, samples and spreads."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ppsim.analysis.measured.graph import Times
from ppsim.analysis.measured.lanes import Lanes
from ppsim.analysis.measured.memory import Memory, memory
from ppsim.analysis.measured.replay import Replay
from ppsim.analysis.measured.table import Scope
from ppsim.ops import NONE, Kind
from ppsim.units import show

SYSTEMATIC, LARGE = 0.5, 0.01
"""Microbatches are given weights where these explain so much of the variance between ops, and differ by so much."""
SLOW = 0.1
"""A worker that takes so much longer than the same stage in the other replicas is a straggler."""


class Value(NamedTuple):
    """A median in ns, of how many samples, and the quarters below and above it."""

    ns: float
    samples: int
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Half of the middle half, over the median."""
        return (self.high - self.low) / 2 / self.ns if self.ns > 0 else 0.0

    def said(self) -> str:
        """How it was found, as a comment."""
        within = f"within ±{self.spread:.1%}"
        if self.spread > 1:
            within = " to ".join(show(Fraction(max(round(end), 0), 10**9), "time") for end in (self.low, self.high))
        return f"median of {self.samples:,}, middle half {within}"


def value(samples: np.ndarray) -> Value:
    """The median of some samples, but for those that aren't known."""
    flat = samples[np.isfinite(samples)]
    if not len(flat):
        return Value(0.0, 0, 0.0, 0.0)
    low, middle, high = (float(x) for x in np.percentile(flat, [25, 50, 75]))
    return Value(middle, len(flat), low, high)


@dataclass(frozen=True, eq=False)
class Values:
    """Constants of a run."""

    compute: dict[tuple[int, int, Kind], Value]
    """By replica, stage and kind."""
    overhead: Value
    """What an op costs beside its own time: the gap between it and what it waited for."""
    links: dict[tuple[int, int], Value]
    """By pair of ranks, the lower one first: how long a message is on its way, both ways."""
    syncs: dict[str, Value]
    """By label: gradient sync, optimizer and the like, without waiting for others."""
    weights: tuple[float, ...] | None
    """By microbatch, where its ops differ from the others in the same way in every step."""
    unsystematic: float
    """The mean difference of an op from its own worker's median, over that: what no constant explains."""
    memory: Memory | None

    def stage_times(self, kind: Kind, replica: int) -> dict[int, Value]:
        """Values of one kind by stage."""
        return {stage: found for (d, stage, k), found in self.compute.items() if d == replica and k == kind}


def values(replay: Replay) -> Values:
    """The constants that a run's ops follow."""
    lanes = replay.lanes
    compute: dict[tuple[int, int, Kind], Value] = {}
    typical = np.full(lanes.duration.shape, np.nan)
    for stage, kind in sorted(
        {*zip(lanes.stage[lanes.computes].tolist(), lanes.kind[lanes.computes].tolist(), strict=True)}
    ):
        mine = lanes.computes & (lanes.stage == stage) & (lanes.kind == kind)
        alone = mine & (lanes.partner == NONE)
        share = 1.0 if np.any(alone) else 0.5  # of a pair's time, where the op is never by itself
        mine = alone if np.any(alone) else mine
        for replica in range(lanes.measured.replicas):
            compute[replica, stage, Kind(kind)] = found = value(
                share * lanes.duration[mine, replica].astype(float).ravel()
            )
            typical[mine, replica] = found.ns / share
    ratio = lanes.duration / np.where(typical > 0, typical, np.nan)
    weights, left = _weights(lanes, ratio)
    gaps = value(replay.gaps)
    return Values(
        compute=compute,
        overhead=gaps._replace(ns=max(gaps.ns, 0.0)),
        links=_links(replay),
        syncs=_syncs(lanes),
        weights=weights,
        unsystematic=left,
        memory=memory(lanes),
    )


def _weights(lanes: Lanes, ratio: Times) -> tuple[tuple[float, ...] | None, float]:
    """By microbatch the median of its ops over their workers' medians, where that explains most of the difference."""
    used = np.flatnonzero(~np.all(np.isnan(ratio), axis=(1, 2)))
    microbatch = lanes.microbatch[used]
    logs = np.log(np.where(ratio[used] > 0, ratio[used], np.nan))
    apart = float(np.nanmean(np.abs(np.expm1(logs)))) if logs.size else 0.0
    m = lanes.measured.microbatches
    if m < 2 or not logs.size or logs.shape[2] * logs.shape[1] < 2:
        return None, apart
    of_each = np.array([np.nanmedian(logs[microbatch == k]) if np.any(microbatch == k) else 0.0 for k in range(m)])
    whole, rest = float(np.nanvar(logs)), float(np.nanvar(logs - of_each[microbatch][:, None, None]))
    if whole <= 0 or 1 - rest / whole < SYSTEMATIC or np.ptp(of_each) < LARGE:
        return None, apart
    left = float(np.nanmean(np.abs(np.expm1(logs - of_each[microbatch][:, None, None]))))
    return tuple(float(w) for w in np.round(np.exp(of_each), 4)), left


def _links(replay: Replay) -> dict[tuple[int, int], Value]:
    hops = replay.hops
    if not hops.measured:
        return {}
    low, high = np.minimum(hops.src, hops.dst), np.maximum(hops.src, hops.dst)
    return {
        (a, b): value(hops.transit[(low == a) & (high == b)].ravel())
        for a, b in sorted({*zip(low.tolist(), high.tolist(), strict=True)})
    }


def _syncs(lanes: Lanes) -> dict[str, Value]:
    """By label what it takes once all have come: the end less the latest start among the ranks of a step."""
    out: dict[str, Value] = {}
    for label in sorted({*lanes.label[~lanes.computes & ~lanes.messages].tolist()}):
        mine = np.flatnonzero(lanes.label == label)
        each = lanes.measured.labels[label]
        if each.kind is None or lanes.kind[mine[0]] == NONE:
            continue
        start = lanes.start[mine].astype(float)
        axes = {Scope.REPLICAS: (1,), Scope.ENDS: (0,), Scope.ALL: (0, 1)}.get(each.scope, ())
        if axes:
            start = np.broadcast_to(start.max(axis=axes, keepdims=True), start.shape)
        out[each.name] = value(np.maximum(lanes.end[mine] - start, 0).ravel())
    return out


def stragglers(found: Values, replicas: int) -> dict[tuple[int, int], float]:
    """By (stage, replica), how much longer a worker takes than its stage in the other replicas, where that is a lot."""
    out: dict[tuple[int, int], float] = {}
    stages = {stage for _, stage, _ in found.compute}
    for stage in sorted(stages):
        time = np.array([
            sum(each.ns for (d, s, _), each in found.compute.items() if d == replica and s == stage)
            for replica in range(replicas)
        ])  # fmt: skip
        for replica in range(replicas):
            others = np.delete(time, replica)
            if len(others) and np.median(others) > 0 and time[replica] > (1 + SLOW) * np.median(others):
                out[stage, replica] = float(time[replica] / np.median(others))
    return out
