"""What a measured run's memory says: activations of one microbatch, and what is held throughout."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ppsim.analysis.measured.lanes import Lanes
from ppsim.ops import Kind

_FEWEST_RANKS, _BAND = 3, 0.35


class Memory(NamedTuple):
    """Bytes of one microbatch's activations on one stage, and by rank what is held throughout, activations aside."""

    activation: int
    static: tuple[int, ...]
    spread: float
    """The middle half of the slopes between two ranks, over their median."""


def memory(lanes: Lanes) -> Memory | None:
    """The activations' size, from how the ranks' peaks differ with the microbatches that each holds at once.

    None where no peaks were measured, or they don't grow with what is in flight.
    """
    measured = lanes.measured
    if measured.memory is None or measured.ranks < _FEWEST_RANKS or np.any(measured.memory < 0):
        return None
    whole = np.isin(measured.steps, lanes.steps)
    peak = np.median(measured.memory[whole], axis=0)
    flying = in_flight(lanes)
    a, b = np.triu_indices(measured.ranks, 1)
    apart = flying[a] != flying[b]
    if not np.any(apart):
        return None
    slopes = (peak[a] - peak[b])[apart] / (flying[a] - flying[b])[apart]
    middle = float(np.median(slopes))
    low, high = np.percentile(slopes, [25, 75])
    static = peak - middle * flying
    if middle <= 0 or np.any(static < 0) or (high - low) > _BAND * middle:
        return None
    return Memory(round(middle), tuple(round(value) for value in static.tolist()), float((high - low) / middle))


def in_flight(lanes: Lanes) -> np.ndarray:
    """By rank, the most (stage, microbatch) between the start of their forward and the end of their backward."""
    where = lanes.where()
    out = np.zeros(lanes.measured.ranks)
    start, end = lanes.start[:, 0, 0], lanes.end[:, 0, 0]
    for rank in range(lanes.measured.ranks):
        begins, frees = [], []
        for node in lanes.of_rank(rank, lanes.computes & (lanes.kind == Kind.F)).tolist():
            key = int(lanes.stage[node]), int(lanes.microbatch[node])
            backs = [where[kind, *key] for kind in (Kind.B, Kind.I, Kind.W) if (kind, *key) in where]
            begins.append(start[node])
            frees.append(max(end[backs], default=np.iinfo(np.int64).max))
        held = np.searchsorted(np.sort(begins), np.sort(begins), side="right") - np.searchsorted(
            np.sort(frees), np.sort(begins), side="right"
        )
        out[rank] = held.max(initial=0)
    return out
