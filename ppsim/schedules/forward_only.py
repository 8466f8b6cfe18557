"""Forwards alone: a stream of items through the stages, as in inference."""

from __future__ import annotations

from typing import Literal

from ppsim.ops import Ops, Orders
from ppsim.schedules import theory
from ppsim.schedules.base import Problem, Rank, Schedule


class ForwardOnly(Schedule):
    """Forwards alone: items stream through the stages, each stage takes the next one as soon as it is free.

    In the steady state an item leaves every ``max(stage time)``, its latency is the sum of all stages' times, and the
    speed-up over one stage at a time comes near the number of ranks. Nothing is kept for a backward.
    Source: Hennessy and Patterson, Computer Architecture, appendix C: time per item and speed-up of a pipeline.
    """

    name: Literal["forward_only"] = "forward_only"

    @property
    def trains(self) -> bool:
        """There is no backward."""
        return False

    def theory(self) -> theory.Form:
        """(p-1)F of idle time to fill and to drain."""
        return theory.FORWARD_ONLY

    def orders(self, problem: Problem) -> Orders:
        """F0, F1, … on every rank."""
        return problem.per_rank(self._rank)

    @staticmethod
    def _rank(rank: Rank) -> Ops:
        return rank.forwards()
