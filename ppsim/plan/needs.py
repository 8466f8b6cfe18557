"""Collects who waits for what, and packs it."""

from __future__ import annotations

import numpy as np

from ppsim.ops import Ints, Numbers, narrowest
from ppsim.plan.table import Needs


class NeedsBuilder:
    """Gathers (thing, event) pairs in bulk; ``pack`` sorts them by thing, keeping the order in which they came."""

    def __init__(self, things: int) -> None:
        self._things = things
        self._parts: list[tuple[Numbers, Ints]] = []

    def add(self, things: Numbers, events: Ints) -> None:
        """Thing i waits for event i."""
        if len(things):
            self._parts.append((things, events))

    def pack(self) -> Needs:
        """The finished table."""
        if not self._parts:
            return Needs.none(self._things)
        if len(self._parts) == 1:
            things, events = self._parts[0]
        else:
            things = np.concatenate([part[0] for part in self._parts])
            events = np.concatenate([part[1] for part in self._parts])
        ptr = np.zeros(self._things + 1, narrowest(len(events)))
        ptr[1:][things] = 1
        single = np.count_nonzero(ptr) == len(things)  # each waits for one event
        np.cumsum(ptr if single else np.append(0, np.bincount(things, minlength=self._things)), out=ptr)
        if np.all(things[1:] >= things[:-1]):  # the common cases need no sort
            return Needs(ptr, events)
        if single:
            packed = np.empty_like(events)
            packed[ptr[things]] = events
            return Needs(ptr, packed)
        return Needs(ptr, events[np.argsort(things, kind="stable")])
