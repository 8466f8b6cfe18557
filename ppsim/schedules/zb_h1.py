"""ZB-H1: 1F1B with its backwards split, the weight halves in the bubble, at 1F1B's memory."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Literal

import numpy as np

from ppsim.errors import Notice
from ppsim.ops import Kind, Ops, Orders, concat
from ppsim.schedules import theory
from ppsim.schedules.base import Problem, Rank, Schedule
from ppsim.schedules.one_f_one_b import fewer_microbatches_than_ranks


def in_turns(rank: Rank, pace: Fraction | int) -> Ops:
    """So many forwards; then I, W, F in turn, each W of an earlier turn's I; then what is left.

    ``pace`` is by how many forwards a rank is ahead of the next one before its first I, and by how many turns more the
    next one puts off its W.
    """
    F, I, W = (rank.ops(kind) for kind in (Kind.F, Kind.I, Kind.W))  # noqa: E741
    before_first_backward, deferred = int(pace * rank.distance_to_last) + 1, int(pace * rank.index)
    turn = np.arange(rank.microbatches)
    place = np.concatenate([3 * (turn - before_first_backward) + 2, 3 * turn, 3 * (turn + deferred) + 1])
    return concat(F, I, W)[np.argsort(place)]


class ZBH1(Schedule):
    """ZB-H1: rank r starts as 1F1B does and puts its weight gradients off by r backwards, so that all end together.

    A third of 1F1B's bubble where F = I = W; every rank keeps up to ``ranks`` activations, or what W needs of them.
    Source: Qi et al. 2024 (Zero Bubble), arXiv 2401.10241, section 2.3 and figure 3 (top).
    """

    name: Literal["zb_h1"] = "zb_h1"

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """M < p."""
        return fewer_microbatches_than_ranks(ranks, microbatches)

    def theory(self) -> theory.Form:
        """(p-1)(F+I-W) of idle time."""
        return theory.ZB_1P

    @property
    def saves_memory(self) -> str:
        """The searched order has a limit."""
        return "schedule: zb, whose schedule.memory_limit can be set"

    def orders(self, problem: Problem) -> Orders:
        """On rank r p-r forwards before the first I, and W from the (r+1)-th I on."""
        return problem.per_rank(lambda rank: in_turns(rank, pace=1))
