"""Why the ranks of a measured run were idle, for all replicas and steps at once.

An op's wait is explained by the input that comes last: ``upstream`` until its producer has ended, ``transfer`` until
it has arrived (where that was recorded), ``gap`` from when all was there to when the op began: a launch, or a transfer
that wasn't recorded. Before a rank's first op it is ``fill``, after its last one ``drain``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ppsim.analysis.measured.graph import Times
from ppsim.analysis.measured.replay import Replay
from ppsim.ops import Longs

CAUSES = ("fill", "drain", "upstream", "transfer", "gap")


@dataclass(frozen=True, eq=False)
class Idle:
    """Ns by cause; ``per_op`` of shape (ops, replicas, steps), the others (ranks, replicas, steps)."""

    replay: Replay

    @cached_property
    def per_op(self) -> dict[str, Times]:
        """What each op waited for, after the op before it on its rank; 0 for a rank's first."""
        lanes, hops, replay = self.replay.lanes, self.replay.hops, self.replay
        free = np.full(lanes.start.shape, np.nan)
        some = np.flatnonzero(replay.previous >= 0)
        free[some] = lanes.end[replay.previous[some]]
        until = np.where(np.isnan(free), np.nan, lanes.start)
        sent, there = free.copy(), free.copy()
        for row, (producer, consumer) in enumerate(zip(hops.producer.tolist(), hops.consumer.tolist(), strict=True)):
            made = lanes.end[producer].astype(float)
            arrived = made + replay.transit[row]
            later = arrived > there[consumer]
            sent[consumer] = np.where(later, made, sent[consumer])
            there[consumer] = np.where(later, arrived, there[consumer])
        sent, there = (np.clip(moment, free, until) for moment in (sent, there))
        parts = {"upstream": sent - free, "transfer": there - sent, "gap": until - there}
        empty = lanes.seconds | ~lanes.computes
        out = {name: np.nan_to_num(np.maximum(part, 0)) for name, part in parts.items()}
        for part in out.values():
            part[empty] = 0
        return out

    @cached_property
    def busy(self) -> Longs:
        """By rank, the time of its compute ops; a fused pair's once."""
        lanes = self.replay.lanes
        mine = lanes.computes & ~lanes.seconds
        return self._by_rank(np.where(mine[:, None, None], lanes.duration, 0))

    @cached_property
    def causes(self) -> dict[str, Longs]:
        """Idle ns by cause; with the busy time they add up to the step."""
        lanes = self.replay.lanes
        ranks, computes = range(lanes.measured.ranks), lanes.computes
        first = np.stack([lanes.start[lanes.of_rank(rank, computes)].min(axis=0) for rank in ranks])
        last = np.stack([lanes.end[lanes.of_rank(rank, computes)].max(axis=0) for rank in ranks])
        waits = {name: self._by_rank(np.rint(part).astype(np.int64)) for name, part in self.per_op.items()}
        begin, end = first.min(axis=(0, 1)), last.max(axis=(0, 1))
        return {"fill": first - begin, "drain": end - last, **waits}

    @cached_property
    def bubble_ratio(self) -> np.ndarray:
        """By step, the share of all device time that is idle."""
        span = self.replay.lanes.span
        devices = self.busy.shape[0] * self.busy.shape[1]
        ratio: np.ndarray = 1 - self.busy.sum(axis=(0, 1)) / np.maximum(devices * span, 1)
        return ratio

    def _by_rank(self, values: Longs) -> Longs:
        lanes = self.replay.lanes
        out = np.zeros((lanes.measured.ranks, *values.shape[1:]), np.int64)
        np.add.at(out, lanes.rank, values)
        return out
