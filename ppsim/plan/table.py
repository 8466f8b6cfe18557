"""The Plan: one row per op, rank after rank in listed order, and one row per transfer, in the order of their producers.

Whatever can happen is an *event* with a number, so that a dependency is one integer. With n ops and t transfers:

| event | number | when |
|---|---|---|
| op i begins | i | its rank is free and its needs are met |
| op i ends | n + i | its duration later, and once its end's needs are met |
| transfer j starts | 2n + j | it takes its ports |
| transfer j leaves | 2n + t + j | it frees them, ``occupancy`` later |
| transfer j arrives | 2n + 2t + j | ``latency`` after that |

An atomic fused pair is two rows: the first carries the needs and the time of both, the second follows in no time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from ppsim.errors import Notice
from ppsim.ops import NONE, About, Column, Flags, Ints, Longs, OpTable, narrowest
from ppsim.ops.placement import Placement
from ppsim.plan.dependencies import Dependencies


class Category(IntEnum):
    """What memory is held for."""

    WEIGHTS = 0
    GRADIENTS = 1
    OPTIMIZER = 2
    STASH = 3
    ACTIVATIONS = 4
    MESSAGES = 5
    TRANSIENT = 6


CATEGORIES = tuple(category.name.lower() for category in Category)


@dataclass(frozen=True)
class Events:
    """The numbering of events for n ops and t transfers."""

    ops: int
    transfers: int

    def begin(self, op: NDArray[np.signedinteger] | int) -> Ints:
        """Op begins."""
        return self._numbers(op, 0)

    def end(self, op: NDArray[np.signedinteger] | int) -> Ints:
        """Op ends."""
        return self._numbers(op, self.ops)

    def start(self, transfer: NDArray[np.signedinteger] | int) -> Ints:
        """Transfer takes its ports."""
        return self._numbers(transfer, 2 * self.ops)

    def left(self, transfer: NDArray[np.signedinteger] | int) -> Ints:
        """Transfer frees its ports."""
        return self._numbers(transfer, 2 * self.ops + self.transfers)

    def arrive(self, transfer: NDArray[np.signedinteger] | int) -> Ints:
        """Transfer is there."""
        return self._numbers(transfer, 2 * self.ops + 2 * self.transfers)

    def _numbers(self, places: NDArray[np.signedinteger] | int, first: int) -> Ints:
        numbers: Ints = np.add(places, first, dtype=narrowest(self.count), casting="same_kind")
        return numbers

    @property
    def count(self) -> int:
        """How many events there are."""
        return 2 * self.ops + 3 * self.transfers


@dataclass(frozen=True, eq=False)
class Routes:
    """The ways of messages: one row per (source, destination, bytes)."""

    src: Annotated[Ints, About("the sender", "rank")]
    dst: Annotated[Ints, About("the receiver; the sender itself: its copy in another pipeline", "rank")]
    bytes: Annotated[Longs, About("size of the message", "B")]
    occupancy: Annotated[Longs, About("how long it holds its ports", "ns")]
    latency: Annotated[Longs, About("its flight after that", "ns")]
    egress: Annotated[Ints, About("the port that it leaves by", "place in Plan.ports", "-1")]
    ingress: Annotated[Ints, About("the port that it comes in by", "place in Plan.ports", "-1")]


@dataclass(frozen=True, eq=False)
class Lines:
    """What messages go over and may share, where they don't queue for ports: ports, by number, then links and switches.

    Exact; a line carries ``capacity`` bytes per second. Each route has ``work`` bytes (its overhead among them) to
    carry over its ``lines``.
    """

    capacity: tuple[Fraction, ...]
    work: tuple[Fraction, ...]
    lines: tuple[tuple[int, ...], ...]

    def alone(self, route: int) -> Fraction:
        """Seconds that a message takes with nothing else on its way."""
        return self.work[route] / min(self.capacity[line] for line in self.lines[route])


@dataclass(frozen=True, eq=False)
class Transfers:
    """Messages, moves and gradient buckets, in the order of the rows that issue them."""

    route: Annotated[Ints, About("its way", "row of Routes")]
    producer: Annotated[Ints, About("the op whose output it carries")]
    issuer: Annotated[Ints, About("the op whose place in its rank's list orders it at a port")]
    consumer: Annotated[Ints, About("the op that takes what it carries", "row", "-1")]
    needs: Dependencies
    """What each waits for until it is ready."""

    def __len__(self) -> int:
        return len(self.route)


@dataclass(frozen=True, eq=False)
class Turns:
    """Messages that two ranks exchange in a batch, where those of the rank that starts it later go first.

    By transfer; ``rivals`` are those that go the other way, ``rivals.event`` their numbers.
    """

    mine: Annotated[Longs, About("the op whose end starts the sender's batch", "row", "-1")]
    theirs: Annotated[Longs, About("the op whose end starts the receiver's batch", "row", "-1")]
    rivals: Dependencies
    ties: bool = True
    """Whether of two ranks that start at the same instant the lower one's messages go first; else neither waits."""


@dataclass(frozen=True, eq=False)
class Holdings:
    """Memory that is held from one event to another."""

    rank: Annotated[Ints, About("where", "rank")]
    category: Annotated[Column, About("what for", "Category")]
    bytes: Annotated[Column, About("how much", "B")]
    since: Annotated[Ints, About("from when on", "event")]
    until: Annotated[Ints, About("until when", "event")]

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True, eq=False)
class Versions:
    """Weight versions where updates come without a flush: 0 is the first, the u-th update of a rank makes version u."""

    used: Annotated[Longs, About("the version that a forward and its backward use", "version", "-1")]
    updates: Longs
    """The rows whose ends are updates, ascending."""
    stashed: Holdings
    """From when a version is no longer the current one to the end of the last backward that uses it; a byte each."""


@dataclass(frozen=True, eq=False)
class Plan:
    """All that the engine needs, and all that the metrics need to explain its answer."""

    ops: OpTable
    duration: Annotated[Longs, About("of every op by itself; of an atomic pair on its first row", "ns")]
    atomic: bool
    """Fused pairs hand on both outputs at their end."""
    start_needs: Dependencies
    """What each op waits for before it begins, beside the op before it on its rank."""
    end_needs: Dependencies
    """What each op waits for before it ends, beside its duration."""
    transfers: Transfers
    routes: Routes
    ports: tuple[str, ...]
    """Their names."""
    holdings: Holdings
    in_flight: Holdings
    """Activations by number, a byte each."""
    static: Longs
    """Bytes held throughout, shape (categories, ranks)."""
    capacity: int | None
    """Bytes of a device's memory."""
    placement: Placement
    microbatches: int
    """Per step; where they are cut into slices, a row's microbatch counts the slices of all."""
    steps: int
    barrier: bool
    asynchronous: bool = False
    versions: Versions | None = None
    """Of an asynchronous schedule."""
    sharing: str = "queueing"
    """The rule by which messages share what they go over: a module of ``network.sharing``."""
    lines: Lines | None = None
    """What messages share; None where they queue for ports, which carry one at a time."""
    turns: Turns | None = None
    """Of messages that are exchanged in turns; None once a run has shown whose turn was when."""
    notices: tuple[Notice, ...] = ()

    @cached_property
    def events(self) -> Events:
        """The numbering of this plan's events."""
        return Events(len(self.ops), len(self.transfers))

    @cached_property
    def passes(self) -> Longs:
        """How many messages go each route."""
        return np.bincount(self.transfers.route, minlength=len(self.routes.src))

    @cached_property
    def tail(self) -> Flags:
        """Rows that are the second of an atomic fused pair."""
        tail = np.zeros(len(self.ops), bool)
        if self.atomic:
            group = np.asarray(self.ops.group)
            tail[1:] = (group[1:] != NONE) & (group[1:] == group[:-1])
        return tail
