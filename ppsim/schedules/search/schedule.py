"""What schedules share whose order fits a memory limit, and those whose order is searched for."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from ppsim._model import Whole
from ppsim.errors import Notice
from ppsim.ops import Orders
from ppsim.ops.placement import Placement, v_shape
from ppsim.schedules.base import Problem, Schedule
from ppsim.schedules.one_f_one_b import fewer_microbatches_than_ranks
from ppsim.schedules.search.instance import Memory
from ppsim.schedules.search.portfolio import Objective, search
from ppsim.units import Size


class Limited(Schedule):
    """What schedules share whose order fits a memory limit."""

    max_in_flight: Whole | None = Field(None, ge=1)
    """Activations of a stage and microbatch that a rank may hold at once, what W needs of one counting in part."""
    memory_limit: Size | None = None
    """Bytes of activations that a rank may hold at once, in place of ``max_in_flight``."""

    def default_limit(self, ranks: int) -> int:
        """Activations that a rank may hold where no limit is given."""
        return ranks

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """One limit, and room for an activation of each stage."""
        if self.max_in_flight is not None and self.memory_limit is not None:
            yield "schedule.memory_limit", "max_in_flight is given, too; leave one of them out"
        least = max(len(held) for held in self.placement(ranks).stages_of)
        if self.max_in_flight is not None and self.max_in_flight < least:
            few = self.max_in_flight
            yield "schedule.max_in_flight", f"a rank holds {least} stages; {few} is too few, {least} works"

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """M < p."""
        return fewer_microbatches_than_ranks(ranks, microbatches)

    def memory(self, problem: Problem) -> Memory:
        """The limit, in activations or in bytes."""
        if self.memory_limit is not None:
            return Memory.in_bytes(problem, self.memory_limit)
        return Memory.in_activations(problem, self.max_in_flight or self.default_limit(problem.ranks))


class Searched(Limited):
    """What schedules share whose order is searched for under a memory limit."""

    objective: Objective = "makespan"
    """What is to be short: the step, or the longest of the ranks' spans (for several steps without a barrier)."""

    def orders(self, problem: Problem) -> Orders:
        """The best order found."""
        return search(problem, self.memory(problem), self.objective)


class SearchedV(Searched):
    """The same over two chunks per rank, up and down a V."""

    def placement(self, ranks: int) -> Placement:
        """Rank r holds stages r and 2p-1-r."""
        return v_shape(ranks)
