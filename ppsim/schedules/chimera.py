"""Chimera: two pipelines in opposite directions over the same ranks fill each other's bubbles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ppsim import theory
from ppsim.errors import Notice
from ppsim.ops import Kind, Ops, Orders, alternate, concat, ops
from ppsim.placement import Placement, bidirectional
from ppsim.schedules.base import Problem, Schedule

Microbatches = NDArray[np.int64]


def unit(pairs: Sequence[tuple[int, int]], near: Microbatches, far: Microbatches, after: int) -> tuple[Ops, Ops, Ops]:
    """One rank's basic unit: its beginning, its middle and its end.

    ``pairs`` are the rank's stages, (near, far) of every turn: on the near ones microbatches arrive from the rank's own
    end of the pipeline, on the far ones from its middle, which is ``after`` ranks away (this one included).
    Each stage sees a run of ops. The first ``after`` microbatches of a near run are gone before the far run of the same
    turn comes back; the rest of it alternates with the far run, and what is left of that with the next turn.
    """
    first = min(after, len(near))
    rest = len(near) - first
    forwards = [ops(Kind.F, stage, run) for pair in pairs for stage, run in zip(pair, (near, far), strict=True)]
    backwards = [ops(Kind.B, stage, run) for pair in pairs for stage, run in zip(pair, (near, far), strict=True)]
    runs = forwards + backwards[::-1]
    middle = [
        alternate(run[rest:], following[:first]) if index % 2 else alternate(following[:rest], run[first:])
        for index, (run, following) in enumerate(pairwise(runs))
    ]
    return runs[0][:first], concat(*middle), runs[-1][rest:]


def joined(units: Sequence[tuple[Ops, Ops, Ops]]) -> Ops:
    """Units one after the other, a unit's last backwards alternating with the first forwards of the next."""
    order = [units[0][0], units[0][1]]
    for (_, _, end), (beginning, middle, _) in pairwise(units):
        both = min(len(end), len(beginning))
        order += [alternate(end[:both], beginning[:both]), end[both:], beginning[both:], middle]
    return concat(*order, units[-1][2])


class Chimera(Schedule):
    """Two 1F1B pipelines, one from either end, each with half of the microbatches: twice the weights, half the bubble.

    More than p microbatches go in basic units of p. Each rank holds two stages and keeps between p/2+1 and p
    microbatches in flight; the two copies of a stage sum their gradients at the end of a step.
    Source: Li and Hoefler 2021 (Chimera), arXiv 2107.06925, sections 3.1 and 3.5, figures 3 and 7 (direct
    concatenation).
    """

    name: Literal["chimera"] = "chimera"

    def placement(self, ranks: int) -> Placement:
        """Rank r holds stages r (direction 0) and p-1-r (direction 1)."""
        return bidirectional(ranks)

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """P and m even."""
        if ranks % 2:
            yield "pipeline.ranks", f"chimera needs an even number of ranks; {ranks} is odd, {ranks + 1} would do"
        if microbatches % 2:
            yield (
                "pipeline.microbatches",
                f"chimera needs an even number of microbatches, half for each direction; {microbatches} is odd, "
                f"{microbatches + 1} would do",
            )

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """A last unit that isn't full."""
        yield from unfilled_unit("chimera", ranks, microbatches)

    def theory(self) -> theory.Form:
        """(p-2) B of idle time for m = p."""
        return theory.CHIMERA

    def orders(self, problem: Problem) -> Orders:
        """Of every unit, the first half of its microbatches enters at rank 0, the second half at rank p-1."""
        p, m = problem.ranks, problem.microbatches
        starts = range(0, m, p)
        halves = [np.split(np.arange(start, min(start + p, m)), 2) for start in starts]
        per_rank = []
        for rank in range(p):
            before = min(rank, p - 1 - rank)
            mine, other = (0, 1) if rank < p // 2 else (1, 0)
            stages = [(before, p - 1 - before)]
            per_rank.append(joined([unit(stages, half[mine], half[other], p // 2 - before) for half in halves]))
        return Orders.of(per_rank)


def unfilled_unit(name: str, size: int, microbatches: int) -> Iterator[Notice]:
    """The warning that the last unit of ``size`` microbatches isn't full."""
    if left := microbatches % size:
        yield Notice(
            "unfilled_unit",
            "pipeline.microbatches",
            f"{name} runs units of {size} microbatches; the last of {microbatches} has {left}, and the ranks wait for "
            f"what it lacks; {microbatches - left + size} would fill it",
        )
