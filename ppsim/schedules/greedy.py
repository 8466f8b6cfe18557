"""Greedy: list scheduling by priority under a limit of memory, so that a user's own costs give an order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from ppsim._model import Flag, Whole
from ppsim.ops import Orders
from ppsim.ops.placement import Placement, loop, wave
from ppsim.schedules.base import Problem
from ppsim.schedules.search.instance import Instance
from ppsim.schedules.search.listing import Policy, list_schedule
from ppsim.schedules.search.portfolio import as_sequence, best_of, plain
from ppsim.schedules.search.schedule import Limited
from ppsim.schedules.zb_h1 import ZBH1

LARGE = 5_000
"""Ops from which playing a handful of orders takes longer than loading Numba."""


class Greedy(Limited):
    """Every rank, when it is free, takes the best of its ops that are ready and fit its memory; W fills gaps.

    A forward leaves room for an activation of each later stage of its rank, so that no order gets stuck. It is never
    slower than 1F1B (interleaved, with more stages per rank of a loop) or ZB-H1 where its memory allows these.
    Source: Graham 1966, Bounds for certain multiprocessing anomalies (list scheduling).
    """

    name: Literal["greedy"] = "greedy"
    shape: Literal["loop", "v", "wave"] = "loop"
    """Where the stages are: stage s on rank s mod p; two chunks up and down a V; or several turns of it."""
    virtual_stages: Whole | None = Field(None, ge=1)
    """Stages per rank of a loop (default: 1) or of a wave (default: 4)."""
    priority: Literal["backward", "forward"] = "backward"
    """Which goes first where both are ready; of several stages, the microbatch that came first."""
    hold_for_first_gradient: Flag = False
    """No forward that would delay the first microbatch's gradient on its way back."""
    share_memory: Flag = False
    """Each stage has a share of its rank's memory, in proportion to its distance from the end of the model."""
    split_backward: Flag = True
    """I and W, or B as a whole."""

    @property
    def stages_per_rank(self) -> int:
        """How many stages a rank holds."""
        return self.virtual_stages or {"loop": 1, "v": 2, "wave": 4}[self.shape]

    def placement(self, ranks: int) -> Placement:
        """A loop, a V or a wave."""
        v = self.stages_per_rank
        return loop(ranks, v) if self.shape == "loop" else wave(ranks, v // 2)

    def default_limit(self, ranks: int) -> int:
        """As many activations as 1F1B's first rank holds, of each chunk."""
        return ranks * self.stages_per_rank

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """A V has two stages per rank, each turn of a wave two more."""
        v = self.stages_per_rank
        if (self.shape == "v" and v != 2) or (self.shape == "wave" and v % 2):
            works = 2 if self.shape == "v" else v + 1
            yield "schedule.virtual_stages", f"{v} stages per rank make no {self.shape}; {works} works"
            return
        yield from super().problems(ranks, microbatches)

    def orders(self, problem: Problem) -> Orders:
        """What list scheduling gives for these costs, speeds and links; 1F1B or ZB-H1 where these are faster."""
        instance = Instance.of(problem, self.memory(problem), LARGE)
        if not self.split_backward:
            instance = instance.whole(problem)
        policy = Policy(self.priority, self.share_memory, self.hold_for_first_gradient)
        candidates = [(instance, list_schedule(instance, policy)), *plain(problem, instance)]
        if instance.split and problem.stages == problem.ranks:
            candidates.append((instance, as_sequence(instance, ZBH1().orders(problem))))
        return best_of(candidates)
