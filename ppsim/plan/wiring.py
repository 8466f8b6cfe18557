"""Wiring: all messages, and who waits for whom."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ppsim.ops import MOVES, Numbers, OpTable, among
from ppsim.plan.dependencies import Gathering
from ppsim.plan.messages import Messages
from ppsim.plan.spec import PlanSpec
from ppsim.plan.table import Events


@dataclass(eq=False)
class Wiring:
    """What is being wired up; ``pairs`` are the first rows of atomic fused pairs.

    ``starts`` is what ops wait for before they start, ``ends`` before they end, ``sends`` what messages wait for.
    """

    ops: OpTable
    pairs: Numbers
    messages: Messages
    spec: PlanSpec

    def __post_init__(self) -> None:
        self.events = Events(len(self.ops), len(self.messages))
        self.starts, self.ends = Gathering(len(self.ops)), Gathering(len(self.ops))
        self.sends = Gathering(len(self.messages))
        self.head: Numbers = np.arange(len(self.ops), dtype=self.ops.index.number)
        """For the second row of an atomic pair its first, for others themselves."""
        self.head[self.pairs + 1] = self.pairs

    def heads(self, rows: Numbers) -> Numbers:
        """The rows themselves, or the first of the pairs that they end."""
        return self.head[rows] if len(self.pairs) else rows

    def after_row(self, things: Numbers, awaited: Numbers) -> None:
        """Op i starts after row i of ``awaited`` has ended; left out where the rank's own order sees to it."""
        if not len(things):
            return
        things = self.head[things]
        known = (self.ops.rank[things] == self.ops.rank[awaited]) & (awaited < things)
        self.starts.add(things[~known], self.events.end(awaited[~known]))

    @cached_property
    def _up_to(self) -> Numbers:
        """For each row, itself or the last row before it that isn't a move; -1 where there is none."""
        rows = np.arange(len(self.ops))
        return np.maximum.accumulate(np.where(among(self.ops.kind, MOVES), -1, rows))

    @cached_property
    def _from(self) -> Numbers:
        """For each row, itself or the first row after it that isn't a move; the number of rows where there is none."""
        n = len(self.ops)
        rows = np.where(among(self.ops.kind, MOVES), n, np.arange(n))
        return np.append(np.minimum.accumulate(rows[::-1])[::-1], n)

    def previous(self, rows: Numbers) -> Numbers:
        """The row before each on its rank that isn't a move, -1 where there is none."""
        before = np.where(rows > 0, self._up_to[np.maximum(rows - 1, 0)], -1)
        return np.where(before >= self.ops.offsets[self.ops.rank[rows]], before, -1)

    def following(self, rows: Numbers) -> Numbers:
        """The first row after each (after its pair) on its rank that isn't a move, -1 where there is none."""
        n = len(self.ops)
        after = self._from[rows + 1]
        second = (after < n) & (self.head[np.minimum(after, n - 1)] < after)
        after = np.where(second, self._from[np.minimum(after + 1, n)], after)
        return np.where(after < self.ops.offsets[self.ops.rank[rows] + 1], after, -1)
