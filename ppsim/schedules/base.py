"""What a schedule is: a frozen config that turns a Problem into Orders."""

from __future__ import annotations

from ppsim.ops import Orders
from ppsim.ops.placement import Placement, loop
from ppsim.schedules.parts import Batched, Parts
from ppsim.schedules.problem import Problem, Rank, Slice

__all__ = ["Batched", "Problem", "Rank", "Schedule", "Slice"]


class Schedule(Parts):
    """A pipeline schedule: its settings are its fields, ``orders`` is its rule.

    A subclass declares ``name`` (a Literal), its settings, and ``orders``; where ranks hold more than one stage, also
    ``placement``. All else that it may say is in ``Parts``. One file in this folder, or an entry point in the group
    ``ppsim.schedules``, is all it takes.
    """

    name: str

    def placement(self, ranks: int) -> Placement:
        """Which stages each rank holds."""
        return loop(ranks)

    def orders(self, problem: Problem) -> Orders:
        """The order of ops of every rank, for one step (for all of them where asynchronous)."""
        raise NotImplementedError(f"{type(self).__name__} defines no orders")
