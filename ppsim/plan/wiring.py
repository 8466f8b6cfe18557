"""Messages and dependencies while they are being gathered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ppsim.config.experiment import Experiment
from ppsim.ops import MOVES, Ints, Kind, Longs, Numbers, OpTable, among
from ppsim.plan.needs import NeedsBuilder
from ppsim.plan.table import Events
from ppsim.schedules.base import Problem, Schedule


@dataclass(frozen=True, eq=False)
class Messages:
    """Messages before they have numbers: rows that produce, send, receive and consume them, ranks and bytes.

    ``issuer`` is the row whose place in its rank's list orders it at a port; ``receiver`` (-1: none) the row at which
    its rank has reached its receive.
    """

    producer: Numbers
    issuer: Numbers
    receiver: Numbers
    consumer: Numbers
    src: Ints
    dst: Ints
    bytes: Longs

    def __len__(self) -> int:
        return len(self.producer)

    def data(self, ops: OpTable) -> Numbers:
        """Those that carry an activation or a gradient from stage to stage."""
        if not ops.index.has(*MOVES, Kind.REDUCE_GRAD):  # nothing else is ever sent
            return np.arange(len(self), dtype=ops.index.number)
        return np.flatnonzero(among(ops.kind[self.producer], (Kind.F, Kind.B, Kind.I)))

    def some(self, which: Numbers) -> Messages:
        """Some of them."""
        return Messages(**{name: getattr(self, name)[which] for name in self.__dataclass_fields__})

    @classmethod
    def join(cls, *parts: Messages) -> Messages:
        """All of them, in the order of their issuers."""
        columns = {
            name: np.concatenate([getattr(part, name) for part in parts]) if len(parts) > 1 else getattr(parts[0], name)
            for name in cls.__dataclass_fields__
        }
        if len(parts) == 1 and _sorted(columns["issuer"]):
            return cls(**columns)
        order = np.argsort(columns["issuer"], kind="stable")
        return cls(**columns).some(order)


def _sorted(values: Numbers) -> bool:
    return bool(np.all(values[1:] >= values[:-1]))


@dataclass(eq=False)
class Wiring:
    """What is being wired up; ``head`` maps the second row of an atomic pair to its first, others to themselves."""

    ops: OpTable
    head: Numbers
    problem: Problem
    experiment: Experiment
    schedule: Schedule
    messages: Messages
    events: Events
    starts: NeedsBuilder
    ends: NeedsBuilder
    sends: NeedsBuilder
    has_pairs: bool = False

    def heads(self, rows: Numbers) -> Numbers:
        """The rows themselves, or the first of the pairs that they end."""
        return self.head[rows] if self.has_pairs else rows

    def after_row(self, things: Numbers, awaited: Numbers) -> None:
        """Op i starts after row i of ``awaited`` has ended; left out where the rank's own order sees to it."""
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
