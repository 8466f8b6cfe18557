"""Breadth-first pipelining: all microbatches through one stage of a rank before the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field

from ppsim._model import Whole
from ppsim.errors import Notice
from ppsim.ops import Kind, Ops, Orders, concat
from ppsim.ops.placement import Placement, loop
from ppsim.schedules import theory
from ppsim.schedules.base import Problem, Rank, Schedule
from ppsim.schedules.one_f_one_b import fewer_microbatches_than_ranks


class LoopedBFS(Schedule):
    """GPipe over looped stages, breadth first: a rank runs all microbatches of a stage before those of its next stage.

    Every rank keeps all ``microbatches`` of all its stages in flight, and meets each stage once per pass, so that a
    stage's weights have to be gathered, and its gradients summed, only once.
    Source: Lamy-Poirier 2023 (Breadth-First Pipeline Parallelism), arXiv 2211.05953, figure 4d; the backwards descend
    as in PyTorch's ScheduleLoopedBFS.
    """

    name: Literal["looped_bfs"] = "looped_bfs"
    virtual_stages: Whole = Field(2, ge=1)
    """Stages per rank (v)."""

    def placement(self, ranks: int) -> Placement:
        """Stage s on rank s mod p."""
        return loop(ranks, self.virtual_stages)

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """M < p."""
        return fewer_microbatches_than_ranks(ranks, microbatches, self.virtual_stages)

    def theory(self) -> theory.Form:
        """(p-1)(F+B)/v of idle time."""
        return theory.BREADTH_FIRST

    @property
    def saves_memory(self) -> str:
        """Interleaved 1F1B doesn't hold all microbatches."""
        return "schedule: interleaved_1f1b, which doesn't hold all microbatches"

    def orders(self, problem: Problem) -> Orders:
        """The forwards of the first stage, of the second, …; then the backwards of the last stage, …, of the first."""
        return problem.per_rank(self._rank)

    def _rank(self, rank: Rank) -> Ops:
        chunks = range(self.virtual_stages)
        descending = np.arange(rank.microbatches)[::-1]
        return concat(
            *(rank.forwards(chunk) for chunk in chunks),
            *(rank.ops(Kind.B, chunk, descending) for chunk in reversed(chunks)),
        )
