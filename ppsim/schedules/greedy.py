"""List scheduling: a user's own costs give an order."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ppsim.errors import ScheduleError
from ppsim.model import Whole
from ppsim.ops import Orders
from ppsim.placement import Placement, loop, v_shape
from ppsim.schedules.base import Problem
from ppsim.schedules.search.instance import Instance
from ppsim.schedules.search.listing import Policy, list_schedule
from ppsim.schedules.search.portfolio import as_orders
from ppsim.schedules.zb import Searched


class Greedy(Searched):
    """Every free rank takes the best of its ops that are ready and fit its memory; W fills the gaps.

    Source: Graham 1966, Bounds for certain multiprocessing anomalies (list scheduling).
    """

    name: Literal["greedy"] = "greedy"
    shape: Literal["loop", "v"] = "loop"
    """Where the stages are: stage s on rank s mod p, or two chunks up and down a V."""
    virtual_stages: Whole = Field(1, ge=1)
    """Stages per rank of a loop."""
    priority: Literal["backward", "forward"] = "backward"
    """Which goes first where both are ready."""

    def placement(self, ranks: int) -> Placement:
        """A loop or a V."""
        return v_shape(ranks) if self.shape == "v" else loop(ranks, self.virtual_stages)

    def default_limit(self, ranks: int) -> int:
        """As many activations as 1F1B's first rank holds, of each chunk."""
        return ranks * (2 if self.shape == "v" else self.virtual_stages)

    def orders(self, problem: Problem) -> Orders:
        """What list scheduling gives."""
        instance = Instance.of(problem, self.memory(problem))
        for policy in (Policy(self.priority), Policy("forward", shares=True)):
            sequence = list_schedule(instance, policy)
            if sequence is not None:
                return as_orders(instance, sequence)
        raise ScheduleError("schedule: list scheduling gets stuck in this memory; allow more")
