"""Where the ops of a table are: by kind, and by stage and microbatch."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ppsim.ops.column import Ints, Kinds, among, narrowest
from ppsim.ops.op import NONE, Kind


@dataclass(frozen=True)
class Extent:
    """How far the numbers of a table go: its stages, and the microbatches of all steps."""

    stages: int
    microbatches: int
    per_step: int | None = None
    """Microbatches of a step, where each step counts its own from 0; None where there is one step, or a stream."""


@dataclass(frozen=True, eq=False)
class Index:
    """Finds the rows of a table.

    ``unit`` is each row's microbatch, counted over all steps (-1: none). A *key* is ``stage * microbatches + unit``.
    """

    kind: Kinds
    stage: Ints
    unit: Ints
    extent: Extent
    _selected: dict[tuple[Kind, ...], Ints] = field(default_factory=dict, init=False, repr=False)
    _looked_up: dict[tuple[Kind, ...], Ints] = field(default_factory=dict, init=False, repr=False)

    @property
    def units(self) -> int:
        """How many microbatches all steps have."""
        return self.extent.microbatches

    @cached_property
    def number(self) -> type[np.signedinteger]:
        """The type of a row's number, and of a key."""
        return narrowest(max(len(self.kind), self.extent.stages * self.units))

    @cached_property
    def key(self) -> Ints:
        """``stage * microbatches + unit`` of every row."""
        key: Ints = self.stage.astype(self.number)
        key *= self.units
        key += self.unit
        return key

    def lookup(self, *kinds: Kind) -> Ints:
        """The row of the op of one of these kinds, by key; -1 where there is none."""
        if kinds not in self._looked_up:
            there = tuple(filter(self._present.__contains__, kinds))
            if not there:
                found: Ints = self._nowhere
            elif there != kinds:
                found = self.lookup(*there)
            else:
                found = self._nowhere.copy()
                rows = self.select(*there)
                found[self.key[rows]] = rows
            self._looked_up[kinds] = found
        return self._looked_up[kinds]

    @cached_property
    def _nowhere(self) -> Ints:
        """What is found, by key, where there is nothing."""
        return np.full(self.extent.stages * self.units, NONE, self.number)

    def has(self, *kinds: Kind) -> bool:
        """Whether there is a row of one of these kinds."""
        return not self._present.isdisjoint(kinds)

    @cached_property
    def _present(self) -> frozenset[int]:
        """The kinds of which there are rows."""
        top = int(self.kind.max(initial=NONE))
        return frozenset(kind for kind in range(top + 1) if (self.kind == kind).any())

    def select(self, *kinds: Kind) -> Ints:
        """The rows of these kinds, ascending."""
        if kinds not in self._selected:
            there = tuple(filter(self._present.__contains__, kinds))
            if not there:
                found: Ints = np.empty(0, self.number)
            elif there != kinds:
                found = self.select(*there)
            else:
                mask = self.kind == there[0] if len(there) == 1 else among(self.kind, there)
                found = np.flatnonzero(mask).astype(self.number)
            self._selected[kinds] = found
        return self._selected[kinds]
