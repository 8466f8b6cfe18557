"""ZB-V in its fixed form: two stages per rank in a V, the backward split in two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from ppsim.errors import Notice
from ppsim.ops import Kind, Ops, Orders, alternate, concat
from ppsim.ops.placement import Placement, v_shape
from ppsim.schedules import theory
from ppsim.schedules.base import Problem, Rank, Schedule
from ppsim.schedules.one_f_one_b import fewer_microbatches_than_ranks


class ZBV(Schedule):
    """ZB-V: F, I and W of a V's two stages in fixed turns; with F = I = W no rank waits inside its span.

    It holds as many activations as 1F1B does on its first rank.
    Source: Qi et al. 2024 (Zero Bubble), arXiv 2401.10241, section 6 and figure 4; the order is that of the authors'
    handcrafted schedule and of PyTorch's ScheduleZBVZeroBubble. For costs other than F = I = W see ``zbv_auto``.
    """

    name: Literal["zbv"] = "zbv"

    def placement(self, ranks: int) -> Placement:
        """Rank r holds stages r (going down) and 2p-1-r (coming back up)."""
        return v_shape(ranks)

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """M < p."""
        return fewer_microbatches_than_ranks(ranks, microbatches)

    def theory(self) -> theory.Form:
        """No idle time inside a rank's span: (p-1) F in a single step."""
        return theory.ZB_V

    @property
    def saves_memory(self) -> str:
        """The searched order has a limit."""
        return "schedule: zbv_auto, whose schedule.memory_limit can be set"

    def orders(self, problem: Problem) -> Orders:
        """Warm-up, turns of both stages, drain, for at least 2p-1 microbatches; those beyond m are then left out."""
        return problem.per_rank(self._rank)

    @staticmethod
    def _rank(rank: Rank) -> Ops:
        n = max(rank.microbatches, 2 * rank.ranks - 1)
        every = np.arange(n)
        down, up = 0, 1
        F, I, W = ((rank.ops(k, down, every), rank.ops(k, up, every)) for k in (Kind.F, Kind.I, Kind.W))  # noqa: E741
        r, after = rank.index, rank.ranks - rank.index
        p = rank.ranks
        lead = 2 * after - 1
        turns = n - p
        # From here on the first stage has no forwards left, for the last p-1-r turns.
        full = n - (lead + r)
        order = concat(
            F[down][:lead],
            alternate(F[up][:r], F[down][lead : lead + r]),
            alternate(F[up][r:p], I[up][:after], W[up][:after]),
            alternate(
                F[down][lead + r :], I[down][:full], W[down][:full],
                F[up][p : p + full], I[up][after : after + full], W[up][after : after + full],
            ),
            alternate(
                I[down][full:turns], W[down][full:turns],
                F[up][p + full :], I[up][after + full : n - r], W[up][after + full : n - r],
            ),
            alternate(I[down][turns : turns + r], I[up][n - r :]),
            alternate(I[down][turns + r :], W[down][turns : n - r]),
            W[up][n - r :],
            W[down][n - r :],
        )  # fmt: skip
        return order[order.microbatch < rank.microbatches]
