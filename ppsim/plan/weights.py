"""Weights of microbatches: what a cost becomes for a longer or a shorter one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ppsim.costs.base import per_value, times
from ppsim.ops import NONE, Column, Constant, Longs, Numbers, OpTable
from ppsim.schedules.base import Slice
from ppsim.units import to_bytes


class Weights:
    """Weights of microbatches (or of their slices) as a few distinct values and which of them each has."""

    def __init__(self, given: tuple[Fraction, ...], slices: tuple[Slice, ...]) -> None:
        parts = len(slices)
        if len(given) == parts == 1:
            self.distinct, self._lengths = [times(given[0], slices[0].time)], [times(given[0], slices[0].length)]
            self._index = np.zeros(1, np.int64)
            return
        pairs = [(w * parts * s.time, w * parts * s.length) for w in given for s in slices]
        distinct = sorted(set(pairs))
        self.distinct = [time for time, _ in distinct]
        self._lengths = [length for _, length in distinct]
        place = {pair: index for index, pair in enumerate(distinct)}
        self._index = np.array([place[pair] for pair in pairs], np.int64)

    def index(self, microbatch: Numbers) -> Longs:
        """Which distinct weight each row has; rows without a microbatch have weight 1 or whatever comes first."""
        if len(self.distinct) == 1:
            return np.zeros(len(microbatch), np.int64)
        return self._index[np.where(microbatch == NONE, 0, microbatch % len(self._index))]

    def sizes(self, values: tuple[Fraction, ...], ops: OpTable, rows: Numbers, stage: Numbers | None = None) -> Column:
        """Bytes of each row's stage's value (or of another ``stage``'s), for its microbatch."""
        by_stage = per_value(values, lambda value: [to_bytes(times(value, length)) for length in self._lengths])
        if len(self.distinct) == 1 and by_stage.count(by_stage[0]) == len(by_stage):
            return Constant(np.int64(by_stage[0][0]), len(rows))
        stage = ops.stage[rows] if stage is None else stage
        table = np.array(by_stage)
        return table[stage, self.index(ops.microbatch[rows])] if len(self.distinct) > 1 else table[:, 0][stage]
