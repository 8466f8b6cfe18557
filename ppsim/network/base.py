"""What the engines and the metrics ask of a rule, and what a transport is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Protocol

from ppsim.ops import Constant, Longs
from ppsim.plan import Plan, Sending

Time = int | float
"""A moment in ns, a whole number: what SimPy's clock shows."""


class Traffic(Protocol):
    """The messages of one run that are on ports or wait for them. Transfers by number, times in ns.

    Within an instant the engine first calls ``leave``, then ``ready`` in any order, and ``settle`` when nothing else
    happens; what that brings about may begin the instant again.
    """

    unsettled: bool
    """Whether ``settle`` may let anything start."""

    def ready(self, transfer: int, now: Time) -> None:
        """A transfer that uses ports has all that it waits for."""

    def settle(self, now: Time) -> Iterable[int]:
        """Close the instant: the transfers that start now, in their order."""

    def next_leaves(self) -> Time | None:
        """When the next transfer frees its ports, as things stand; None where none is on its way."""

    def leave(self, now: Time) -> Iterable[int]:
        """The transfers that free their ports now."""


class Moments(NamedTuple):
    """When each transfer was ready, when it started and when it left."""

    ready: Longs
    start: Longs
    left: Longs


class Load(NamedTuple):
    """What a port has to carry: the time that it takes alone, in seconds, over a link of that bandwidth (None: any)."""

    seconds: Fraction
    bandwidth: Fraction | None


class Rule(Protocol):
    """How messages share ports, links and switches."""

    not_compiled: str | None
    """Why the compiled engine can't play it; None where it does."""

    def traffic(self, plan: Plan) -> Traffic:
        """The state of a new run."""

    def freed_by(self, plan: Plan, moments: Moments) -> tuple[Longs | Constant, Longs | Constant]:
        """For each transfer that waited for a port the one whose leaving let it start, and their port; else -1."""

    def delayed(self, plan: Plan, moments: Moments) -> Longs:
        """How long each transfer took longer for others on its way, ns."""

    def busy(self, plan: Plan, moments: Moments) -> Longs:
        """How long each port has messages on it, ns."""

    def least(self, loads: Iterable[Load]) -> Fraction:
        """Seconds in which a port can't have carried all of that."""

    def violations(self, plan: Plan, moments: Moments) -> Iterator[str]:
        """What contradicts the rule: nothing, or there is a bug in the engine."""


@dataclass(frozen=True)
class Transport:
    """What a framework's sends and receives wait for."""

    wire: Callable[[Plan, Sending], Plan]
    """Adds it to a finished plan."""
    reasons: dict[str, str]
    """What it does, and what in the framework or below it does so."""
