"""ZB-H2: no bubble inside a rank's span, for twice 1F1B's memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ppsim.errors import Notice
from ppsim.ops import Orders
from ppsim.schedules.base import Problem, Schedule
from ppsim.schedules.one_f_one_b import fewer_microbatches_than_ranks
from ppsim.schedules.zb_h1 import in_turns


class ZBH2(Schedule):
    """ZB-H2: forwards fill the wait for the first gradient; with F = I = W no rank waits between its first and last op.

    A step with a barrier still takes as long as with ZB-H1: the ranks start one after the other. The gain needs several
    steps without one (``runtime.barrier: false``: the optimizer's checks come after its step, "post-validation").
    Every rank keeps up to ``2 · ranks - 1`` activations, or what W needs of them.
    Source: Qi et al. 2024 (Zero Bubble), arXiv 2401.10241, sections 2.3 and 4, figure 3 (bottom).
    """

    name: Literal["zb_h2"] = "zb_h2"

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """M < p."""
        return fewer_microbatches_than_ranks(ranks, microbatches)

    @property
    def saves_memory(self) -> str:
        """The searched order has a limit."""
        return "schedule: zb, whose schedule.memory_limit can be set"

    def orders(self, problem: Problem) -> Orders:
        """On rank r 2(p-r)-1 forwards before the first I, and W from the (2r+1)-th I on."""
        return problem.per_rank(lambda rank: in_turns(rank, pace=2))
