"""Orders: what a schedule decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ppsim.ops.column import Constant, Ints, Longs
from ppsim.ops.op import NONE, Kind
from ppsim.ops.table import OpTable
from ppsim.ops.vocabulary import concat


class Grid(NamedTuple):
    """Equally many ops of one kind on every rank: ``stage`` and ``microbatch`` broadcast to (ranks, ops)."""

    kind: Kind
    stage: Ints
    microbatch: Ints

    @property
    def shape(self) -> tuple[int, ...]:
        """(ranks, ops)."""
        return np.broadcast_shapes(self.stage.shape, self.microbatch.shape)


@dataclass(frozen=True, eq=False, slots=True)
class Orders:
    """The order of ops of every rank: one table, rank after rank.

    ``after`` are conditions beyond those of the data: op i of its first table waits until op i of its second is done
    (a move: has arrived).
    """

    table: OpTable
    after: tuple[OpTable, OpTable] | None = None

    @classmethod
    def of(cls, per_rank: Sequence[OpTable], after: tuple[OpTable, OpTable] | None = None) -> Orders:
        """Orders from a table per rank."""
        offsets = np.concatenate([[0], np.cumsum([len(table) for table in per_rank])]).astype(np.int64)
        return cls(replace(concat(*per_rank), offsets=offsets), after)

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self.table.ranks

    def __len__(self) -> int:
        return len(self.table)

    @classmethod
    def in_turn(cls, first: Grid, second: Grid, lead: Sequence[int]) -> Orders:
        """On rank r ``lead[r]`` of its first ops, then one of each in turn, the first first, then what is left.

        There are equally many of both, of which the lead is at most as many.
        """
        ranks, n = first.shape
        listed, ahead_of, behind = np.empty((3, ranks, 2 * n), np.int32), *np.empty((2, 3, ranks, n), np.int32)
        for grid, columns in ((first, ahead_of), (second, behind)):
            columns[0], columns[1], columns[2] = grid
        for r, ahead in enumerate(lead):  # all columns at once: on a few ranks a copy takes no longer than its call
            row, one, other, left = listed[:, r], ahead_of[:, r], behind[:, r], n - ahead
            row[:, :ahead], row[:, ahead : n + left : 2] = one[:, :ahead], one[:, ahead:]
            row[:, ahead + 1 : n + left : 2], row[:, n + left :] = other[:, :left], other[:, left:]
        kind, stage, microbatch = listed.reshape(3, -1)
        none = Constant(np.int32(NONE), kind.size)
        offsets: Longs = np.arange(ranks + 1) * (2 * n)
        step = Constant(np.int32(0), kind.size)
        return cls(OpTable(kind.astype(np.int8), stage, microbatch, step, none, none, offsets))

    def rank(self, rank: int) -> OpTable:
        """The ops of one rank, in order."""
        rows = self.table.rows(rank)
        return self.table[rows.start : rows.stop]

    def __iter__(self) -> Iterator[OpTable]:
        return (self.rank(r) for r in range(self.ranks))
