"""Interleaved zero bubble: interleaved 1F1B with its backwards split, the weight halves deferred."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from ppsim._model import Whole
from ppsim.ops import Kind, Ops, Orders, alternate, concat, ops
from ppsim.schedules import theory
from ppsim.schedules.base import Problem, Rank
from ppsim.schedules.interleaved_1f1b import Grouped, group_table


class InterleavedZB(Grouped):
    """Interleaved 1F1B with I in place of B, each followed by a W that rank r has put off by r backwards.

    The rank before doesn't wait for weight gradients. With one stage per rank it is ZB1P.
    Source: Qi et al. 2024 (Zero Bubble), arXiv 2401.10241; the order is that of PyTorch's
    ScheduleInterleavedZeroBubble.
    """

    name: Literal["interleaved_zb"] = "interleaved_zb"
    virtual_stages: Whole = Field(2, ge=1)
    """Stages per rank (v); 1 is ZB1P."""

    def theory(self) -> theory.Form | None:
        """(p-1)(F+I-W)/v of idle time, where every group has at least p microbatches."""
        return theory.ZB_1P if self.group is None else None

    def orders(self, problem: Problem) -> Orders:
        """Warm-up forwards; F, I and a deferred W in turn; the remaining I, each with a W; the remaining W."""
        v = self.virtual_stages
        group = self.group_of(problem.ranks, problem.microbatches)
        chunk, microbatch = group_table(problem.microbatches, v, group)

        def order(rank: Rank) -> Ops:
            stages = np.array(rank.stages)
            F = ops(Kind.F, stages[chunk], microbatch)
            I = ops(Kind.I, stages[v - 1 - chunk], microbatch)  # noqa: E741
            W = ops(Kind.W, stages[v - 1 - chunk], microbatch)
            warm = min((v - 1) * group + rank.distance_to_last, len(F))
            steady = len(F) - warm
            deferred = min(rank.index, len(W))
            alone = min(deferred, steady)
            paired = max(deferred, steady)
            return concat(
                F[:warm],
                alternate(F[warm : warm + alone], I[:alone]),
                alternate(F[warm + alone :], I[alone:steady], W[: steady - alone]),
                I[steady:deferred],
                alternate(I[paired:], W[paired - deferred : len(W) - deferred]),
                W[len(W) - deferred :],
            )

        return problem.per_rank(order)
