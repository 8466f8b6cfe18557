"""Where the ops of a table are: by kind, and by stage and microbatch."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ppsim.ops import Kind, among, present
from ppsim.plan.table import Ints, narrowest


@dataclass(frozen=True, eq=False)
class Index:
    """Finds the rows of a table; ``unit`` numbers the microbatches of all steps (-1: none), ``units`` of them."""

    kind: NDArray[np.int8]
    stage: Ints
    unit: Ints
    stages: int
    units: int
    _selected: dict[tuple[Kind, ...], Ints] = field(default_factory=dict, init=False, repr=False)
    _looked_up: dict[tuple[Kind, ...], Ints] = field(default_factory=dict, init=False, repr=False)

    @property
    def number(self) -> type[np.signedinteger]:
        """The type of a row's number, and of a key."""
        return narrowest(max(len(self.kind), self.stages * self.units))

    def lookup(self, *kinds: Kind) -> Ints:
        """Row of the op of one of these kinds, by ``stage * units + unit``; -1 where there is none."""
        if kinds not in self._looked_up:
            found: Ints = np.broadcast_to(self.number(-1), self.stages * self.units)
            if there := [kind for kind in kinds if self.has(kind)]:
                if len(there) == 1 < len(kinds):
                    found = self.lookup(*there)
                else:
                    found, rows = found.copy(), self.select(*kinds)
                    found[self.key[rows]] = rows
            self._looked_up[kinds] = found
        return self._looked_up[kinds]

    @cached_property
    def key(self) -> Ints:
        """``stage * units + unit`` of every row."""
        key: Ints = self.stage.astype(self.number)
        key *= self.units
        key += self.unit
        return key

    def has(self, *kinds: Kind) -> bool:
        """Whether there is a row of one of these kinds."""
        return any(self._kinds[kind] for kind in kinds)

    @cached_property
    def _kinds(self) -> list[bool]:
        return present(self.kind)

    def select(self, *kinds: Kind) -> Ints:
        """The rows of these kinds."""
        if kinds not in self._selected:
            there = [kind for kind in kinds if self._kinds[kind]]
            if not there:
                self._selected[kinds] = np.empty(0, self.number)
            elif len(there) == 1 < len(kinds):
                self._selected[kinds] = self.select(*there)
            else:
                mask = self.kind == there[0] if len(there) == 1 else among(self.kind, there)
                self._selected[kinds] = np.flatnonzero(mask).astype(self.number)
        return self._selected[kinds]
