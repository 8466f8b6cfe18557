"""PipeDream: asynchronous 1F1B, without a flush and with stages on several ranks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from ppsim._model import Flag, Whole
from ppsim.errors import ScheduleError
from ppsim.ops import Grid, Kind, Ops, Orders
from ppsim.ops.placement import Placement, loop
from ppsim.schedules.base import Problem, Schedule


class PipeDream(Schedule):
    """1F1B without a flush: every backward is followed by its own update, so that the pipeline never runs dry.

    A minibatch's backward uses the weights that its forward used, which are stashed until then. A stage may be on
    several ranks: they take minibatches in turn and sum their gradients after every round of one minibatch each.
    ``replicas: [p]`` is data parallelism alone; ``in_flight: 1`` is model parallelism without pipelining.
    Source: Narayanan et al. 2019 (PipeDream), SOSP'19, sections 3.2 (1F1B-RR, NOAM) and 3.3 (stashing, vertical sync).
    """

    name: Literal["pipedream"] = "pipedream"
    asynchronous: ClassVar[bool] = True
    replicas: list[Whole] | None = Field(None, min_length=1)
    """Ranks of each stage, first stage first, such as [3, 1] (default: one rank per stage)."""
    in_flight: Whole | None = Field(None, ge=1)
    """Minibatches in flight per rank of the first stage (default: NOAM = ceil(ranks / ranks of the first stage))."""
    vertical_sync: Flag = False
    """A minibatch uses on every stage the version that was the first stage's when it entered."""

    def copies(self, ranks: int) -> list[int]:
        """Ranks of each stage."""
        return list(self.replicas) if self.replicas is not None else [1] * ranks

    def placement(self, ranks: int) -> Placement:
        """The first stage on the first ranks, the next stage on those after them."""
        if self.replicas is None:
            return loop(ranks)
        if sum(self.replicas) != ranks:
            raise ScheduleError(f"replicas on {sum(self.replicas)} ranks, the pipeline has {ranks}")
        return Placement("replicated", tuple((stage,) for stage, n in enumerate(self.replicas) for _ in range(n)))

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """The stages' ranks are the pipeline's; no more in flight than NOAM."""
        copies = self.copies(ranks)
        if wrong := [stage for stage, n in enumerate(copies) if n < 1]:
            yield f"schedule.replicas.{wrong[0]}", f"stage {wrong[0]} is on {copies[wrong[0]]} ranks; at least 1"
            return
        if sum(copies) != ranks:
            yield (
                "schedule.replicas",
                f"{' + '.join(map(str, copies)) or 'no stages'} = {sum(copies)} ranks, the pipeline has {ranks}",
            )
            return
        most = noam(copies)[0]
        if self.in_flight is not None and self.in_flight > most:
            yield (
                "schedule.in_flight",
                f"{self.in_flight} is more than the {most} minibatches per rank of the first stage that keep "
                f"{ranks} ranks busy (NOAM); at most {most}",
            )

    @property
    def saves_memory(self) -> str:
        """Fewer minibatches in flight."""
        return "a smaller schedule.in_flight"

    @property
    def uses_first_stage_version(self) -> bool:
        """Vertical sync."""
        return self.vertical_sync

    def orders(self, problem: Problem) -> Orders:
        """On each rank its share of the minibatches as 1F1B; on a stage, rank i of n takes i, i + n, i + 2n, …"""
        total = problem.microbatches * problem.steps
        copies = self.copies(problem.ranks)
        before = noam(copies)
        if self.in_flight is not None:
            before[0] = self.in_flight
            for stage in range(1, len(copies)):
                # What waits here for its first backward has to be in flight on the stage before: its copies sync every
                # round, so that a forward there may need all backwards of the rounds before.
                ahead = (before[stage - 1] - 1) * copies[stage - 1]
                before[stage] = min(before[stage], ahead // copies[stage] + 1)

        def order(stage: int, copy: int) -> Ops:
            minibatches, held = np.arange(copy, total, copies[stage], dtype=np.int32), np.array([[stage]], np.int32)
            forwards, backwards = (Grid(kind, held, minibatches) for kind in (Kind.F, Kind.B))
            return Orders.in_turn(forwards, backwards, [min(before[stage] - 1, len(minibatches))]).table

        return Orders.of([order(stage, copy) for stage, n in enumerate(copies) for copy in range(n)])


def noam(copies: list[int]) -> list[int]:
    """Forwards before the first backward on each rank of stage s: ceil(ranks from s on / ranks of s).

    For the first stage this is PipeDream's NUM_OPT_ACTIVE_MINIBATCHES.
    """
    from_here = list(accumulate(reversed(copies)))[::-1]
    return [-(-ranks // n) for ranks, n in zip(from_here, copies, strict=True)]
