"""What a schedule may say beside its orders. Each part has a default that says nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from ppsim._model import Model
from ppsim.errors import Notice
from ppsim.schedules import theory
from ppsim.schedules.problem import Problem, Slice

if TYPE_CHECKING:
    from ppsim.schedules.base import Schedule


class Parts(Model):
    """The optional parts of every schedule: what it is for, what is told of it, how it differs from the usual."""

    name: str

    # What it is legal for, and what of that is costly.

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """What makes these sizes illegal: (key, message with the rule, the value and the nearest legal one)."""
        return iter(())

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """What is legal but costs something."""
        return iter(())

    def alternative(self, ranks: int, microbatches: int) -> tuple[str, Schedule] | None:
        """The nearest settings that avoid what a notice warns of, and what to call them; None where there are none."""
        return None

    def deadlock_hint(self, problem: Problem) -> str | None:
        """What, among the schedule's settings, is known to make its order deadlock for these sizes."""
        return None

    @property
    def saves_memory(self) -> str | None:
        """The setting that makes the schedule hold less, or the schedule that does; None where there is none."""
        return None

    def theory(self) -> theory.Form | None:
        """The closed form that holds for this schedule with equal stages, or None."""
        return None

    # What differs from one step with a flush, whole microbatches and a backward.

    asynchronous: ClassVar[bool] = False
    """No flush: the orders hold the whole stream of ``steps * microbatches`` minibatches, each with its own update."""
    double_buffered: ClassVar[bool] = False
    """Asynchronous, but one update per step: its minibatches use the version before the newest there could be."""

    @property
    def uses_first_stage_version(self) -> bool:
        """A minibatch uses on every stage the weights that were the first stage's when it entered (vertical sync)."""
        return False

    @property
    def trains(self) -> bool:
        """Whether there are backwards; where there are none, nothing is held for gradients and optimizer."""
        return True

    def cut(self) -> tuple[Slice, ...]:
        """What each microbatch is cut into; an op's number is then microbatch * slices + slice."""
        return (Slice(),)

    # How messages speak of its order.

    @property
    def label(self) -> str:
        """What messages call the order."""
        return self.name

    def place(self, rank: int, cell: int) -> str:
        """Where the order lists a rank's op (a fused pair is one); both count from 0."""
        return f"row {rank + 1}, column {cell + 1}"


class Batched:
    """A schedule whose sends and receives some framework runs in batches (``runtime.p2p: fused``)."""

    @abstractmethod
    def fused_warmup(self, ranks: int, microbatches: int, rank: int) -> int | None:
        """Forwards of a rank before its pairs of one forward and one backward; None where this form has no pairs."""

    def fused_problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """What makes these sizes illegal under fused batches alone: (key, message), as in ``problems``."""
        return iter(())
