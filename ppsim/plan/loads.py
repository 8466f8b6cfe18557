"""Loads: what ops take and what they and messages hold, whatever links these go over."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ppsim.ops import Constant
from ppsim.plan.durations import durations
from ppsim.plan.holdings import static
from ppsim.plan.sizes import Sizes, message_sizes
from ppsim.plan.spec import PlanSpec
from ppsim.plan.table import Holdings

if TYPE_CHECKING:
    from ppsim.plan.structure import Structure


class Held(NamedTuple):
    """What is held, and about how many bytes that is together with what is held throughout."""

    holdings: Holdings
    bytes: float


class Loads:
    """The durations and sizes of a structure under one spec's costs; what links decide is asked for with it."""

    def __init__(self, structure: Structure, spec: PlanSpec) -> None:
        self.spec, self._ops, self._lifetimes = spec, structure.ops, structure.lifetimes
        self.duration = durations(structure.ops, structure.pairs, spec)
        self.messages = message_sizes(structure.messages, structure.ops, spec)
        self.static = static(spec.problem)
        self.busy_ns = float(self.duration.sum(dtype=float))
        """About what all ops take together."""
        self._held: dict[bool, Held] = {}

    def held(self, at_once: bool) -> Held:
        """What is held; ``at_once``: a message has left when its producer ends, so that its sender never holds it."""
        if at_once not in self._held:
            found = self._lifetimes.holdings(Sizes(self._ops, self.spec, self.messages, at_once))
            size = found.bytes
            ever = float(size.value) * len(size) if isinstance(size, Constant) else float(size.sum(dtype=float))
            self._held[at_once] = Held(found, ever + float(self.static.sum(dtype=float)))
        return self._held[at_once]
