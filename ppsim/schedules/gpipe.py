"""GPipe: all forwards, then all backwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from ppsim.errors import Notice
from ppsim.ops import Kind, Orders
from ppsim.schedules import theory
from ppsim.schedules.base import Problem, Schedule
from ppsim.schedules.one_f_one_b import fewer_microbatches_than_ranks


class GPipe(Schedule):
    """All forwards of a step, then all backwards.

    Every rank keeps all ``microbatches`` in flight.
    Source: Huang et al. 2019 (GPipe), arXiv 1811.06965, figure 2c.
    """

    name: Literal["gpipe"] = "gpipe"
    backward: Literal["ascending", "descending"] = "ascending"
    """Order of the backwards: ascending as PyTorch runs it, descending as torchgpipe does."""

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """M < p."""
        return fewer_microbatches_than_ranks(ranks, microbatches, chunks=1)

    def theory(self) -> theory.Form:
        """(p-1)(F+B) of idle time."""
        return theory.GPIPE

    @property
    def saves_memory(self) -> str:
        """1F1B holds at most p microbatches, not all."""
        return "schedule: 1f1b, which holds at most p microbatches on a rank"

    def orders(self, problem: Problem) -> Orders:
        """F0…Fm-1, then B0…Bm-1 (or Bm-1…B0)."""
        m = problem.microbatches
        backward = np.arange(m) if self.backward == "ascending" else np.arange(m)[::-1]
        return Orders.in_turn(problem.every(Kind.F), problem.every(Kind.B, backward), [m] * problem.ranks)
