"""The op table: columns that share one row numbering, from the orders that a schedule writes to the metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, overload

import numpy as np
from numpy.typing import NDArray

from ppsim.ops.column import About, Column, Constant, Flags, Ints, Kinds, Longs, narrowest
from ppsim.ops.index import Extent, Index
from ppsim.ops.op import NONE, Kind, Op, cell

_FIRST = np.int32(0)
"""The step of all ops where there is one."""


@dataclass(frozen=True, eq=False, repr=False)
class OpTable:
    """An ordered table of ops as columns of equal length, rank after rank; what schedules write as ``Ops``."""

    kind: Annotated[Kinds, About("what the op does", "Kind")]
    stage: Annotated[Ints, About("the part of the model", "stage")]
    microbatch: Annotated[Ints, About("the part of the batch", "microbatch, from 0 in every step", "-1")]
    step: Annotated[Column, About("the optimizer step", "step")]
    group: Annotated[Column, About("shared by the two rows of a fused pair", "pair", "-1")]
    peer: Annotated[Column, About("where an activation moves to or comes from", "rank; -2: the host", "-1")]
    offsets: Longs
    """Rank r's rows are ``offsets[r]:offsets[r + 1]``; a table that says nothing of ranks is of one."""
    extent: Extent | None = None
    """How far stages and microbatches go; by default as far as they are listed."""

    @classmethod
    def of_one_rank(cls, kind: Kinds, stage: Ints, microbatch: Ints, group: Column, peer: Column) -> OpTable:
        """The ops of one rank in one step."""
        n = len(kind)
        return cls(kind, stage, microbatch, Constant(_FIRST, n), group, peer, np.array([0, n]))

    def __len__(self) -> int:
        return len(self.kind)

    @overload
    def __getitem__(self, key: int | np.integer) -> Op: ...
    @overload
    def __getitem__(self, key: slice | NDArray[np.generic]) -> OpTable: ...
    def __getitem__(self, key: int | np.integer | slice | NDArray[np.generic]) -> Op | OpTable:
        """The op of a row, or the table of some rows, as one rank's."""
        if isinstance(key, int | np.integer):
            step = int(self.step[key]) if self.extent is not None and self.extent.per_step is not None else 0
            numbers = int(self.stage[key]), int(self.microbatch[key]), step, int(self.peer[key])
            return Op(Kind(int(self.kind[key])), *numbers)
        kind, stage, microbatch, group = self.kind[key], self.stage[key], self.microbatch[key], self.group[key]
        peer = group if self.peer is self.group else self.peer[key]  # where neither says anything
        return OpTable.of_one_rank(kind, stage, microbatch, group, peer)

    def __iter__(self) -> Iterator[Op]:
        return (self[i] for i in range(len(self)))

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.offsets) - 1

    @cached_property
    def rank(self) -> Ints:
        """The rank of every row."""
        return np.repeat(np.arange(self.ranks, dtype=np.int32), np.diff(self.offsets))

    def rows(self, rank: int) -> range:
        """The rows of one rank."""
        return range(int(self.offsets[rank]), int(self.offsets[rank + 1]))

    @cached_property
    def index(self) -> Index:
        """Where each op is."""
        extent = self.extent or Extent(
            1 + int(self.stage.max(initial=NONE)), 1 + int(self.microbatch.max(initial=NONE))
        )
        unit: Ints = self.microbatch
        if extent.per_step is not None:
            first = np.asarray(self.step, narrowest(extent.microbatches)) * extent.per_step
            unit = np.where(unit == NONE, NONE, unit + first)
        return Index(self.kind, self.stage, unit, extent)

    @cached_property
    def names(self) -> list[str]:
        """The text of every row's op, as ``str(table[row])`` gives it."""
        kinds = [kind.name for kind in Kind]
        columns = zip(self.stage.tolist(), self.kind.tolist(), self.microbatch.tolist(), strict=True)
        names = [f"{stage}{kinds[kind]}{microbatch}" for stage, kind, microbatch in columns]
        for row in np.flatnonzero(self._says_more).tolist():
            names[row] = str(self[row])
        return names

    def named(self, rows: NDArray[np.integer], words: Sequence[str]) -> list[str]:
        """The names of some rows with another word for the kind of each."""
        columns = zip(self.stage[rows].tolist(), words, self.microbatch[rows].tolist(), strict=True)
        names = [f"{stage}{word}{microbatch}" for stage, word, microbatch in columns]
        for i in np.flatnonzero(self._says_more[rows]).tolist():
            row = int(rows[i])
            names[i] = self.names[row].replace(Kind(self.kind[row]).name, words[i], 1)
        return names

    @cached_property
    def _says_more(self) -> Flags:
        """Rows whose name says more than stage, kind and microbatch."""
        more = (self.microbatch == NONE) | (self.peer != NONE)
        if self.extent is not None and self.extent.per_step is not None:
            more |= self.step != 0
        return np.asarray(more)

    def cells(self) -> list[str]:
        """The table as cells of text, a fused pair in one."""
        out: list[str] = []
        position = 0
        while position < len(self):
            width = 2 if self.group[position] != NONE else 1
            out.append(cell([self[i] for i in range(position, position + width)]))
            position += width
        return out

    def __repr__(self) -> str:
        return f"OpTable({','.join(self[:40].cells())}{',…' if len(self) > 40 else ''})"
