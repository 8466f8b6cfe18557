"""PipeDream-2BW: 1F1B without a flush, with one update per step and two versions of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np

from ppsim.ops import Orders
from ppsim.schedules.base import Problem, Schedule
from ppsim.schedules.one_f_one_b import warm_up_and_alternate


class PipeDream2BW(Schedule):
    """1F1B without a flush, with an update per step of ``microbatches`` and two versions of the weights.

    On every stage a step's microbatches use the weights that the step before its predecessor left: a delay of one
    update, the same everywhere, for which two versions are enough.
    Source: Narayanan et al. 2021 (PipeDream-2BW), arXiv 2006.09503, section 3.1 and figure 3.
    """

    name: Literal["pipedream_2bw"] = "pipedream_2bw"
    asynchronous: ClassVar[bool] = True
    double_buffered: ClassVar[bool] = True

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """M >= p, so that the step before the last one is done when a step enters."""
        if microbatches < ranks:
            yield (
                "pipeline.microbatches",
                f"pipedream_2bw needs at least as many microbatches per update as ranks, so that two versions are "
                f"enough; {microbatches} is less than {ranks}, {ranks} would do",
            )

    def orders(self, problem: Problem) -> Orders:
        """On every rank the whole stream as 1F1B."""
        total = np.arange(problem.microbatches * problem.steps)
        return warm_up_and_alternate(problem, lambda rank: problem.ranks - rank, total, total)
