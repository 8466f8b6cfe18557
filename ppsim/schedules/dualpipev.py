"""DualPipeV: DualPipe cut in half and folded into a V, so that the weights exist once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ppsim.ops import Ops, Orders
from ppsim.ops.placement import Placement, v_shape
from ppsim.schedules import theory
from ppsim.schedules.base import Problem, Rank, Schedule
from ppsim.schedules.dualpipe import Stream, meeting


class DualPipeV(Schedule):
    """DualPipe on half the ranks: the far stream is the near one on its way back, so that no weights exist twice.

    Source: deepseek-ai/DualPipe, dualpipev.py and README (after Sea AI Lab's "cut-in-half");
    PyTorch's ScheduleDualPipeV runs it, too.
    """

    name: Literal["dualpipev"] = "dualpipev"

    def placement(self, ranks: int) -> Placement:
        """Rank r holds stages r (going down) and 2p-1-r (coming back up)."""
        return v_shape(ranks)

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """M >= 2p."""
        if microbatches < 2 * ranks:
            yield (
                "pipeline.microbatches",
                f"dualpipev needs 2 · ranks = {2 * ranks} microbatches or more; {microbatches} is too few, {2 * ranks} "
                "would do",
            )

    def theory(self) -> theory.Form:
        """(p-1)(F&B + B - 3W) of idle time."""
        return theory.DUALPIPE_V

    def orders(self, problem: Problem) -> Orders:
        """Both streams are the same microbatches: near on their way down, far on their way back up."""
        return problem.per_rank(self._rank)

    @staticmethod
    def _rank(rank: Rank) -> Ops:
        down, up = rank.stages
        return meeting(Stream(down), Stream(up), rank.microbatches, rank.index, rank.distance_to_last)
