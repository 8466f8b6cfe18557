"""Chimera: two pipelines in opposite directions over the same ranks fill each other's bubbles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ppsim.errors import Notice
from ppsim.ops import Kind, Ops, Orders, alternate, concat, ops
from ppsim.ops.placement import Placement, bidirectional
from ppsim.schedules import theory
from ppsim.schedules.base import Problem, Rank, Schedule

Microbatches = NDArray[np.int64]
Unit = tuple[Ops, Ops, Ops]
"""Beginning, middle and end of a basic unit."""


def unit(pairs: Sequence[tuple[int, int]], near: Microbatches, far: Microbatches, after: int) -> Unit:
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


def in_units(unit_of: Callable[[Microbatches], Unit], microbatches: int, size: int) -> Ops:
    """Units of ``size`` microbatches one after the other, a unit's end alternating with the beginning of the next."""
    full, left = divmod(microbatches, size)
    beginning, middle, end = unit_of(np.arange(min(size, microbatches)))
    order = [beginning, middle]
    if full > 1:
        turn = concat(_alternately(end, _later(beginning, size)), _later(middle, size))
        order.append(_repeated(turn, full - 1, size))
        end = _later(end, (full - 1) * size)
    if full and left:
        beginning, middle, last = unit_of(np.arange(full * size, microbatches))
        order += [_alternately(end, beginning), middle]
        end = last
    return concat(*order, end)


def _alternately(end: Ops, beginning: Ops) -> Ops:
    both = min(len(end), len(beginning))
    return concat(alternate(end[:both], beginning[:both]), end[both:], beginning[both:])


def _later(table: Ops, microbatches: int) -> Ops:
    """The same ops for microbatches so many later."""
    return replace(table, microbatch=table.microbatch + np.int32(microbatches))


def _repeated(table: Ops, times: int, microbatches: int) -> Ops:
    """The table so many times, each for so many microbatches later."""
    repeated = table[np.tile(np.arange(len(table)), times)]
    later = np.repeat(np.arange(times, dtype=np.int32) * microbatches, len(table))
    return replace(repeated, microbatch=repeated.microbatch + later.astype(np.int32))


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
        p = problem.ranks

        def order(rank: Rank) -> Ops:
            before = min(rank.index, rank.distance_to_last)
            first_half_is_near = rank.index == before

            def one(microbatches: Microbatches) -> Unit:
                first, second = np.split(microbatches, 2)
                near, far = (first, second) if first_half_is_near else (second, first)
                return unit([(before, p - 1 - before)], near, far, p // 2 - before)

            return in_units(one, rank.microbatches, p)

        return problem.per_rank(order)


def unfilled_unit(name: str, size: int, microbatches: int) -> Iterator[Notice]:
    """The warning that the last unit of ``size`` microbatches isn't full."""
    if left := microbatches % size:
        yield Notice(
            "unfilled_unit",
            "pipeline.microbatches",
            f"{name} runs units of {size} microbatches; the last of {microbatches} has {left}, and the ranks wait for "
            f"what it lacks; {microbatches - left + size} would fill it",
        )
