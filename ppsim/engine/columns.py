"""The Plan's columns as the compiled loops read them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppsim.ops import Flags, Ints, Longs

Unsigned = NDArray[np.uint32]
"""Unsigned, so that no code is made for indices below zero: a tenth of the time."""

Records = NDArray[np.void]
"""All that is known of one thing in one place: what runs at the same time on many ranks lies in many."""


class Work(NamedTuple):
    """The Plan as the loops read it: ranks and ops, what each thing waits for, and the routes of the transfers."""

    offsets: Longs
    rank: Unsigned
    duration: Longs
    ptr: Unsigned
    event: Unsigned
    route: Unsigned
    occupancy: Longs
    latency: Longs


class Lanes(NamedTuple):
    """Pairs of ports: the lane of each route (-1: no ports), the ports of each lane, and the lanes at each port."""

    of_route: Ints
    ports: Unsigned
    at_ptr: Unsigned
    at: Unsigned


class Order(NamedTuple):
    """Turns: of each transfer the rows whose ends start its batch on both ranks, and those that go the other way."""

    mine: Longs
    theirs: Longs
    ptr: Unsigned
    rivals: Unsigned
    ties: bool
    """Whether of two that start at the same instant the lower rank's go first."""
    waits: Flags
    """Which waits for its turn; none yet."""
    left: Flags
    """Which has left; none yet."""
