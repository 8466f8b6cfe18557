"""1F1B with a flush, and its eager form with twice the warm-up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ppsim._model import Whole
from ppsim.errors import Notice
from ppsim.ops import Kind, Orders
from ppsim.schedules import theory
from ppsim.schedules.base import Batched, Problem, Schedule

Numbers = NDArray[np.int64]


def warm_up_and_alternate(
    problem: Problem,
    before_first_backward: Callable[[int], int],
    forwards: Numbers | None = None,
    backwards: Numbers | None = None,
) -> Orders:
    """On every rank so many forwards, then one backward and one forward in turn, then what is left.

    ``before_first_backward`` says for each rank how many forwards are done by then; ``forwards`` and ``backwards`` are
    the microbatches in their orders (default: ascending).
    """
    first, second = problem.every(Kind.F, forwards), problem.every(Kind.B, backwards)
    most = len(first.microbatch)
    return Orders.in_turn(first, second, [min(before_first_backward(r) - 1, most) for r in range(problem.ranks)])


def fewer_microbatches_than_ranks(
    ranks: int, microbatches: int, chunks: int | None = None, name: str = "m"
) -> Iterator[Notice]:
    """The warning that most of the pipeline stays empty.

    ``chunks`` is how many stages a rank has in a loop, whose backwards aren't split. Then the first microbatch
    passes all p·chunks stages and each further one takes the last stage once more, so that a rank idles for at least
    1 - m·chunks / (p·chunks + m - 1) of the time. For other schedules 1F1B's bubble is named.
    """
    if microbatches < ranks:
        v, many = chunks or 1, 4 * ranks
        bubble, less = 1 - microbatches * v / (ranks * v + microbatches - 1), (ranks - 1) / (many * v + ranks - 1)
        whose = "1F1B's bubble would be" if chunks is None else "the bubble is at least"
        yield Notice(
            "few_microbatches",
            "pipeline.microbatches",
            f"{name} < p: {name} = {microbatches} can't fill {ranks} ranks; {whose} {bubble:.1%} of the time with "
            f"equal stages; {name} = {many} would cost {less:.1%}",
        )


class OneFOneB(Schedule, Batched):
    """1F1B with a flush: warm up, then one forward, one backward, then drain.

    Rank r keeps at most ``ranks - r`` microbatches in flight.
    Source: Narayanan et al. 2021 (PipeDream-Flush), arXiv 2006.09503, figure 2; Megatron-LM SC'21, section 2.2.
    """

    name: Literal["1f1b"] = "1f1b"
    warmup: Whole | None = Field(None, ge=1)
    """Forwards before the first backward on rank 0 (default: ranks); rank r does r fewer, but at least one."""

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """M < p."""
        return fewer_microbatches_than_ranks(ranks, microbatches, chunks=1)

    def theory(self) -> theory.Form | None:
        """(p-1)(F+B) of idle time, with the default warm-up."""
        return theory.ONE_F_ONE_B if self.warmup is None else None

    @property
    def saves_memory(self) -> str:
        """A shorter warm-up, at the cost of time."""
        return "a shorter schedule.warmup"

    def orders(self, problem: Problem) -> Orders:
        """Warm-up forwards, pairs of forward and backward, the remaining backwards."""
        return warm_up_and_alternate(problem, lambda rank: max(1, (self.warmup or problem.ranks) - rank))

    def fused_warmup(self, ranks: int, microbatches: int, rank: int) -> int | None:
        """All forwards before the first backward, but one."""
        return min(max(1, (self.warmup or ranks) - rank) - 1, microbatches)


class Eager1F1B(Schedule):
    """1F1B with 2(p-r)-1 forwards before the first backward, so that slow links are hidden, for twice the memory.

    Source: Zhuang et al. 2023 (On optimizing the communication of model parallelism, Alpa), arXiv 2211.05322.
    """

    name: Literal["eager_1f1b"] = "eager_1f1b"

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """M < p."""
        return fewer_microbatches_than_ranks(ranks, microbatches, chunks=1)

    def theory(self) -> theory.Form:
        """As 1F1B."""
        return theory.EAGER

    @property
    def saves_memory(self) -> str:
        """Plain 1F1B's warm-up is half as long."""
        return "schedule: 1f1b, which holds half as much"

    def orders(self, problem: Problem) -> Orders:
        """As 1F1B, with a longer warm-up."""
        return warm_up_and_alternate(problem, lambda rank: 2 * (problem.ranks - 1 - rank) + 1)
