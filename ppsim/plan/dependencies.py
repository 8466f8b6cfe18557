"""Dependencies: the events that each of a number of things waits for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ppsim.ops import Ints, Numbers, narrowest


@dataclass(frozen=True, eq=False)
class Dependencies:
    """What each of a number of things waits for: thing i for the events ``event[ptr[i]:ptr[i + 1]]``."""

    ptr: Ints
    event: Ints

    @classmethod
    def none(cls, things: int) -> Dependencies:
        """Nothing waits for anything."""
        return cls(np.zeros(things + 1, np.int32), np.empty(0, np.int32))

    @property
    def counts(self) -> Ints:
        """How many events each thing waits for."""
        return np.diff(self.ptr)

    @cached_property
    def owner(self) -> Ints:
        """The thing that each entry of ``event`` belongs to."""
        return np.repeat(np.arange(len(self.ptr) - 1, dtype=self.ptr.dtype), self.counts)

    def joined(self, things: Numbers, events: Numbers) -> Dependencies:
        """These, and for the i-th of ``things`` the i-th of ``events``, behind what it waits for already."""
        if not len(things):
            return self
        owner = np.concatenate([self.owner, things])
        event = np.concatenate([self.event, events])[np.argsort(owner, kind="stable")]
        count = np.bincount(owner, minlength=len(self.ptr) - 1)
        ptr = np.zeros(len(self.ptr), narrowest(len(event)))
        np.cumsum(count, out=ptr[1:])
        return Dependencies(ptr, event)

    def of(self, thing: int) -> list[int]:
        """The events that one thing waits for."""
        events: list[int] = self.event[int(self.ptr[thing]) : int(self.ptr[thing + 1])].tolist()
        return events


class Gathering:
    """Dependencies while they are being gathered, in bulk: pairs of a thing and an event."""

    def __init__(self, things: int) -> None:
        self._things = things
        self._parts: list[tuple[Numbers, Ints]] = []

    def add(self, things: Numbers, events: Ints) -> None:
        """The i-th of these things waits for the i-th event."""
        if len(things):
            self._parts.append((things, events))

    def finish(self) -> Dependencies:
        """All of them, sorted by thing; of one thing in the order in which they came."""
        if not self._parts:
            return Dependencies.none(self._things)
        if len(self._parts) == 1:
            things, events = self._parts[0]
        else:
            things = np.concatenate([part[0] for part in self._parts])
            events = np.concatenate([part[1] for part in self._parts])
        if len(things) == self._things and (things[1:] > things[:-1]).all():  # one each, in their order
            return Dependencies(np.arange(self._things + 1, dtype=narrowest(len(events))), events)
        ptr = np.zeros(self._things + 1, narrowest(len(events)))
        ptr[1:][things] = 1
        single = np.count_nonzero(ptr) == len(things)  # each waits for one event
        np.cumsum(ptr if single else np.append(0, np.bincount(things, minlength=self._things)), out=ptr)
        if (things[1:] >= things[:-1]).all():  # the common cases need no sort
            return Dependencies(ptr, events)
        if single:
            packed = np.empty_like(events)
            packed[ptr[things]] = events
            return Dependencies(ptr, packed)
        return Dependencies(ptr, events[np.argsort(things, kind="stable")])
