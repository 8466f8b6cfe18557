"""Messages and dependencies while they are being gathered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppsim.config.experiment import Experiment
from ppsim.plan.needs import NeedsBuilder
from ppsim.plan.rows import Rows
from ppsim.plan.table import Events, Ints, Longs
from ppsim.schedules.base import Problem, Schedule

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Messages:
    """Messages before they have numbers: rows that produce, send, receive and consume them, ranks and bytes.

    ``issuer`` is the row whose place in its rank's list orders it at a port; ``receiver`` (-1: none) the row at which its
    rank has reached its receive.
    """

    producer: Index
    issuer: Index
    receiver: Index
    consumer: Index
    src: Ints
    dst: Ints
    bytes: Longs

    def __len__(self) -> int:
        return len(self.producer)

    @classmethod
    def join(cls, *parts: Messages) -> Messages:
        """All of them, in the order of their issuers."""
        columns = {
            name: np.concatenate([getattr(part, name) for part in parts]) if len(parts) > 1 else getattr(parts[0], name)
            for name in cls.__dataclass_fields__
        }
        order = np.argsort(columns["issuer"], kind="stable") if len(parts) > 1 or not _sorted(columns["issuer"]) else None
        return cls(**(columns if order is None else {name: column[order] for name, column in columns.items()}))


def _sorted(values: Index) -> bool:
    return bool(np.all(values[1:] >= values[:-1]))


@dataclass(eq=False)
class Wiring:
    """What is being wired up; ``head`` maps the second row of an atomic pair to its first, others to themselves."""

    rows: Rows
    head: Index
    problem: Problem
    experiment: Experiment
    schedule: Schedule
    messages: Messages
    events: Events
    starts: NeedsBuilder
    ends: NeedsBuilder
    sends: NeedsBuilder

    def after_row(self, things: Index, awaited: Index) -> None:
        """Op i starts after row i of ``awaited`` has ended; left out where the rank's own order sees to it."""
        things = self.head[things]
        known = (self.rows.rank[things] == self.rows.rank[awaited]) & (awaited < things)
        self.starts.add(things[~known], self.events.end(awaited[~known]))

    def previous(self, rows: Index) -> Index:
        """The row before each on its rank, -1 for a rank's first."""
        return np.where(rows > self.rows.offsets[self.rows.rank[rows]], rows - 1, -1)

    def following(self, rows: Index) -> Index:
        """The first row after each (after its pair) on its rank, -1 for a rank's last."""
        after = rows + 1
        inside = after < self.rows.offsets[self.rows.rank[rows] + 1]
        second = inside & (self.head[np.minimum(after, len(self.rows) - 1)] < after)
        after = after + second
        return np.where(after < self.rows.offsets[self.rows.rank[rows] + 1], after, -1)
