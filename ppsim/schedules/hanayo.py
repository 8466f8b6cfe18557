"""Hanayo: microbatches run up and down the ranks in waves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from ppsim._model import Whole
from ppsim.errors import Notice
from ppsim.ops import Ops, Orders
from ppsim.ops.placement import Placement, wave
from ppsim.schedules import theory
from ppsim.schedules.base import Problem, Rank, Schedule
from ppsim.schedules.chimera import in_units, unfilled_unit, unit


class Hanayo(Schedule):
    """Chimera folded into a V, so that weights exist once, and repeated: ``waves`` times up the ranks and back down.

    The bubble shrinks with every wave. Microbatches go in units of p, and between two units 2(p-1) times what a stage's
    B takes longer than its F is idle: with B = 2F one wave beats 1F1B below m = 2p alone. A rank holds 2 · waves stages
    and keeps between (2 · waves - 1) p + 1 and 2 · waves · p activations of a stage.
    Source: Liu et al. 2023 (Hanayo), arXiv 2308.15762, sections 3.1 to 3.3, figure 2.
    """

    name: Literal["hanayo"] = "hanayo"
    waves: Whole = Field(1, ge=1)
    """How often a microbatch goes up the ranks and back down (W)."""

    def placement(self, ranks: int) -> Placement:
        """Chunk c goes up the ranks where c is even, back down where it is odd."""
        return wave(ranks, self.waves)

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """A last unit that isn't full."""
        yield from unfilled_unit("hanayo", ranks, microbatches)

    def theory(self) -> theory.Form:
        """2(p-1) B of a stage are idle for m = p, and a stage is smaller with every wave."""
        return theory.HANAYO

    def orders(self, problem: Problem) -> Orders:
        """Units of p microbatches, the end of one alternating with the beginning of the next."""
        return problem.per_rank(self._rank)

    @staticmethod
    def _rank(rank: Rank) -> Ops:
        turns = list(zip(rank.stages[0::2], rank.stages[1::2], strict=True))
        return in_units(lambda mbs: unit(turns, mbs, mbs, rank.ranks - rank.index), rank.microbatches, rank.ranks)
