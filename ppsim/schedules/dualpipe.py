"""DualPipe: microbatches enter at both ends of the pipeline and run past each other in fused pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from ppsim.ops import Kind, Ops, Orders, alternate, concat, fuse, ops
from ppsim.ops.placement import Placement, bidirectional
from ppsim.schedules import theory
from ppsim.schedules.base import Problem, Schedule


class Stream:
    """The microbatches that pass one stage, handed out as ops in their order."""

    def __init__(self, stage: int, first: int = 0) -> None:
        self._stage = stage
        self._forward = self._backward = first

    def forwards(self, count: int) -> Ops:
        """The next forwards."""
        self._forward += count
        return ops(Kind.F, self._stage, np.arange(self._forward - count, self._forward))

    def backwards(self, count: int, kind: Kind = Kind.B) -> Ops:
        """The next backwards, full or (``Kind.I``) their input half."""
        self._backward += count
        return ops(kind, self._stage, np.arange(self._backward - count, self._backward))


def weights_of(inputs: Ops) -> Ops:
    """The weight halves of these input halves."""
    return ops(Kind.W, inputs.stage, inputs.microbatch)


def meeting(near: Stream, far: Stream, microbatches: int, before: int, after: int) -> Ops:
    """One rank's order where two streams of so many ``microbatches`` meet.

    The near stream passes ``before`` ranks on its way here; there are ``after`` ranks between here and the turning
    point, where the far stream comes from. Each paragraph is a step of the authors' program, in its order.
    Source: deepseek-ai/DualPipe, dualpipe.py and dualpipev.py; DeepSeek-V3, arXiv 2412.19437, figure 5.
    """
    here = before + 1
    order = [near.forwards(2 * after)]

    order.append(alternate(near.forwards(here), far.forwards(here)))

    inputs = far.backwards(after, Kind.I)
    order.append(alternate(inputs, weights_of(inputs), far.forwards(after)))

    turns = microbatches - 2 * (here + after) + here
    forwards = alternate(near.forwards(turns), far.forwards(turns))
    backwards = alternate(far.backwards(turns), near.backwards(turns))
    # At the turning point the first two are kept apart: the near forward need not wait for the far backward.
    apart = 1 if after == 0 and turns else 0
    order.append(concat(forwards[:apart], backwards[:apart], fuse(forwards[apart:], backwards[apart:])))

    order += [concat(far.backwards(1), fuse(far.forwards(1), near.backwards(1))) for _ in range(after)]

    last = alternate(far.backwards(here), near.backwards(here))
    late = ops(Kind.I, last.stage[here:], last.microbatch[here:])
    order += [last[:here], late]

    inputs = near.backwards(after, Kind.I)
    weights = weights_of(concat(late, inputs))
    order += [alternate(weights[:after], inputs), weights[after:]]
    return concat(*order)


class DualPipe(Schedule):
    """Two streams of m/2 microbatches enter at both ends, forwards of one fused with backwards of the other.

    Each rank holds a stage of either direction, so that all weights exist twice, and keeps at most p+1 microbatches in
    flight.
    Source: DeepSeek-V3, arXiv 2412.19437, section 3.2.1 and figure 5; deepseek-ai/DualPipe.
    """

    name: Literal["dualpipe"] = "dualpipe"

    def placement(self, ranks: int) -> Placement:
        """Rank r holds stages r (direction 0) and p-1-r (direction 1)."""
        return bidirectional(ranks)

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """P and m even, m >= 2p."""
        even = ranks + ranks % 2
        least = 2 * even
        if ranks % 2:
            yield "pipeline.ranks", f"dualpipe needs an even number of ranks; {ranks} is odd, {even} would do"
        if microbatches < least:
            rule = f"2 · {'ranks' if even == ranks else even} = {least} microbatches or more"
            yield "pipeline.microbatches", f"dualpipe needs {rule}; {microbatches} is too few, {least} would do"
        if microbatches % 2:
            yield (
                "pipeline.microbatches",
                f"dualpipe needs an even number of microbatches, half for each direction; {microbatches} is odd, "
                f"{max(microbatches + 1, least)} would do",
            )

    def theory(self) -> theory.Form:
        """(p/2-1)(F&B + B - 3W) of idle time."""
        return theory.DUALPIPE

    def orders(self, problem: Problem) -> Orders:
        """The first half of the microbatches enters at rank 0, the second half at rank p-1; ranks mirror each other."""
        p, half = problem.ranks, problem.microbatches // 2
        per_rank = []
        for rank in range(p):
            before = min(rank, p - 1 - rank)
            first = (0, half) if rank < p // 2 else (half, 0)
            near, far = Stream(before, first[0]), Stream(p - 1 - before, first[1])
            per_rank.append(meeting(near, far, half, before, p // 2 - 1 - before))
        return Orders.of(per_rank)
