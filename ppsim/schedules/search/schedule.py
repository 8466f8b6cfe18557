"""What schedules share whose order fits a memory limit, and those whose order is searched for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, Self

from pydantic import Field

from ppsim._model import OneOrMore, Whole
from ppsim.errors import Notice
from ppsim.ops import Orders
from ppsim.ops.placement import Placement, v_shape
from ppsim.schedules.base import Problem, Schedule
from ppsim.schedules.one_f_one_b import fewer_microbatches_than_ranks
from ppsim.schedules.search.instance import Memory
from ppsim.schedules.search.portfolio import Objective, search
from ppsim.units import Size, show


class Limited(Schedule):
    """What schedules share whose order fits a memory limit."""

    max_in_flight: Whole | None = Field(None, ge=1)
    """Activations of a stage and microbatch that a rank may hold at once, what W needs of one counting in part."""
    memory_limit: OneOrMore[Size] | None = None
    """Bytes that a rank may hold at once, or a list with each rank's, in place of ``max_in_flight`` (default of the
    two, where ``cluster.device.memory`` and the activations are known: what the device has left)."""
    limit_counts: Literal["activations", "all"] = "activations"
    """What ``memory_limit`` counts: activations alone, or weights, gradients and optimizer state, too."""

    own_limit: ClassVar[bool] = False
    """The default limit is what the schedule is about; a device may have less, not more."""

    def default_limit(self, ranks: int) -> int:
        """Activations that a rank may hold where no limit is given and the device's memory isn't known."""
        return ranks

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """One limit, of as many ranks as there are, and room for an activation of each stage."""
        limit = self.memory_limit
        if self.max_in_flight is not None and limit is not None:
            yield "schedule.memory_limit", "max_in_flight is given, too; leave one of them out"
        if isinstance(limit, list) and len(limit) != ranks:
            yield "schedule.memory_limit", f"the list has {len(limit)} values, there are {ranks} ranks"
        if limit is None and self.limit_counts == "all":
            yield "schedule.limit_counts", "there is no memory_limit whose bytes it could be about; give one"
        least = max(len(held) for held in self.placement(ranks).stages_of)
        if self.max_in_flight is not None and self.max_in_flight < least:
            few = self.max_in_flight
            yield "schedule.max_in_flight", f"a rank holds {least} stages; {few} is too few, {least} works"

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """M < p."""
        return fewer_microbatches_than_ranks(ranks, microbatches)

    def memory(self, problem: Problem) -> Memory:
        """The limit: as given, or what the devices have left, or in activations."""
        if self.memory_limit is not None:
            given = self.memory_limit
            limit = given if isinstance(given, list) else [given] * problem.ranks
            if self.limit_counts == "all":
                limit = [most - problem.held_throughout(rank) for rank, most in enumerate(limit)]
            return Memory.in_bytes(problem, limit)
        usual = Memory.in_activations(problem, self.max_in_flight or self.default_limit(problem.ranks))
        if self.max_in_flight is not None or problem.room is None or not any(problem.costs.activation):
            return usual
        return Memory.of_devices(problem, problem.room, self.default_limit(problem.ranks) if self.own_limit else None)

    def unlimited(self, problem: Problem) -> Self:
        """The same with memory for all microbatches."""
        stages = max(len(held) for held in problem.placement.stages_of)
        no_limit = {"memory_limit": None, "limit_counts": "activations"}
        return self.model_copy(update={**no_limit, "max_in_flight": stages * problem.microbatches})

    def limit_words(self, problem: Problem) -> str:
        """The limit, for a message: 'schedule.max_in_flight (4)'."""
        if self.memory_limit is not None:
            given = self.memory_limit if isinstance(self.memory_limit, list) else [self.memory_limit]
            sizes = ", ".join([*(show(size, "size") for size in given[:4]), *(["…"] if len(given) > 4 else [])])
            return f"schedule.memory_limit ({sizes})"
        if self.max_in_flight is not None or problem.room is None or not any(problem.costs.activation):
            stated = "" if self.max_in_flight is not None else ", its default"
            return f"schedule.max_in_flight ({self.max_in_flight or self.default_limit(problem.ranks)}{stated})"
        return f"the device's memory ({show(problem.room, 'size')})"

    @property
    def saves_memory(self) -> str:
        """The limit."""
        return "schedule.memory_limit or schedule.max_in_flight"


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
