"""Model parallelism without pipelining."""

from __future__ import annotations

from typing import Literal

from ppsim.ops import Ops, Orders, alternate
from ppsim.schedules import theory
from ppsim.schedules.base import Problem, Rank, Schedule


class Naive(Schedule):
    """One microbatch at a time goes up the stages and back down; one device is busy at any moment.

    Source: Huang et al. 2019 (GPipe), arXiv 1811.06965, figure 2b.
    """

    name: Literal["naive"] = "naive"

    def theory(self) -> theory.Form:
        """Utilisation 1/p."""
        return theory.ONE_AT_A_TIME

    def orders(self, problem: Problem) -> Orders:
        """F0, B0, F1, B1, … on every rank."""
        return problem.per_rank(self._rank)

    @staticmethod
    def _rank(rank: Rank) -> Ops:
        return alternate(rank.forwards(), rank.backwards())
