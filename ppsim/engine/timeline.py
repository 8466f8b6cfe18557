"""The executed table: when every op and every transfer of a Plan began and ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppsim.network import Moments, rule_of
from ppsim.network.turns import taken
from ppsim.ops import COMMUNICATION, MOVES, About, Kind, Longs
from ppsim.plan.table import Plan

Column = NDArray[Any] | Sequence[Any]
"""A column of a table that people read."""
NEVER = -1
PER_SECOND = 10**9
"""Nanoseconds in a second."""
SENDS_AND_MOVES = (*COMMUNICATION, *MOVES, Kind.REDUCE_GRAD, Kind.UNSHARD, Kind.RESHARD)
"""Kinds whose own time is a wait."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """When everything in a plan began and ended. Both rows of an atomic pair span the pair."""

    plan: Plan
    start: Annotated[Longs, About("when each op began", "ns")]
    end: Annotated[Longs, About("when each op ended", "ns")]
    ready: Annotated[Longs, About("when each transfer had all that it waits for", "ns")]
    transfer_start: Annotated[Longs, About("when each transfer took its ports", "ns")]
    transfer_left: Longs | None = None
    """When each transfer left, as recorded; None: its occupancy after it started."""
    compiled: bool = False
    """Whether the compiled engine made it, so that Numba is there to compile what goes through all events, too."""
    room: Longs | None = None
    """Room for the time of every event, where start, end and transfer_start lie already; the rest isn't filled in."""

    @cached_property
    def left(self) -> Longs:
        """When each transfer freed its ports."""
        if self.transfer_left is not None:
            return self.transfer_left
        return self._later(self.transfer_start, self.plan.routes.occupancy, self._part(1))

    @cached_property
    def arrive(self) -> Longs:
        """When each transfer was there."""
        return self._later(self.left, self.plan.routes.latency, self._part(2))

    def _later(self, since: Longs, by_route: Longs, room: Longs | None) -> Longs:
        return np.add(since, by_route[self.plan.transfers.route], out=room) if np.any(by_route) else since

    @cached_property
    def _own_room(self) -> Longs | None:
        """The room, unless this is a changed copy, whose times lie elsewhere."""
        mine = (self.start, self.end, self.transfer_start)
        there = self.room is not None and all(np.may_share_memory(self.room, part) for part in mine if len(part))
        return self.room if there else None

    def _part(self, number: int) -> Longs | None:
        """The room for when transfers start (0), leave (1), or arrive (2)."""
        if self._own_room is None:
            return None
        first, count = 2 * len(self.start), len(self.ready)
        return self._own_room[first + number * count : first + (number + 1) * count]

    @property
    def carried(self) -> Moments:
        """When each transfer was ready, started and left."""
        return Moments(self.ready, self.transfer_start, self.left)

    @cached_property
    def times(self) -> Longs:
        """The time of every event of the plan, by its number."""
        if self._own_room is None:
            return np.concatenate([self.start, self.end, self.transfer_start, self.left, self.arrive])
        for number, moments in enumerate((self.left, self.arrive), start=1):
            part = self._part(number)
            if part is not None and not np.may_share_memory(part, moments):
                part[:] = moments
        return self._own_room

    @cached_property
    def makespan(self) -> int:
        """When the last op has ended and the last transfer has arrived."""
        return int(max(self.end.max(initial=0), self.arrive.max(initial=0)))

    def tasks(self) -> dict[str, Column]:
        """A row per op, as columns: rank, step, stage, microbatch, kind, op, start_s, end_s."""
        plan = self.plan
        return {
            "rank": plan.ops.rank,
            "step": np.asarray(plan.ops.step),
            "stage": plan.ops.stage,
            "microbatch": plan.ops.microbatch,
            "kind": np.array([kind.name for kind in Kind], dtype=object)[plan.ops.kind],
            "op": plan.ops.names,
            "start_s": self.start / PER_SECOND,
            "end_s": self.end / PER_SECOND,
        }

    def transfers(self) -> dict[str, Column]:
        """A row per transfer, as columns: op, src, dst, bytes, ready_s, start_s, left_s, arrive_s, egress, ingress."""
        plan, transfers, routes = self.plan, self.plan.transfers, self.plan.routes
        names = np.array([*plan.ports, ""], dtype=object)
        return {
            "op": np.array(plan.ops.names, dtype=object)[transfers.producer],
            "src": routes.src[transfers.route],
            "dst": routes.dst[transfers.route],
            "bytes": routes.bytes[transfers.route],
            "ready_s": self.ready / PER_SECOND,
            "start_s": self.transfer_start / PER_SECOND,
            "left_s": self.left / PER_SECOND,
            "arrive_s": self.arrive / PER_SECOND,
            "egress": names[routes.egress[transfers.route]],
            "ingress": names[routes.ingress[transfers.route]],
        }

    def violations(self) -> Iterator[str]:
        """What contradicts the semantics: nothing, or there is a bug in the engine."""
        plan = self.plan
        if np.any(self.start < 0) or np.any(self.end < self.start):
            yield "an op never ran, or ended before it began"
        same = plan.ops.rank[1:] == plan.ops.rank[:-1]
        early = same & (self.start[1:] < self.end[:-1]) & ~plan.tail[1:]
        if np.any(early):
            yield f"{plan.ops[int(np.flatnonzero(early)[0]) + 1]} began before the op before it on its rank had ended"
        for needs, moment, what in (
            (plan.start_needs, self.start, "an op began"),
            (plan.end_needs, self.end, "an op ended"),
            (plan.transfers.needs, self.ready, "a transfer was ready"),
        ):
            late = self.times[needs.event] > moment[needs.owner]
            if np.any(late):
                yield f"{what} before what it needs: number {int(needs.owner[np.flatnonzero(late)[0]])}"
        yield from rule_of(plan).violations(plan, self.carried)
        if np.any(self.transfer_start < self.ready):
            yield "a transfer started before it was ready"


class Recorded(NamedTuple):
    """What an engine saw: start and end of every op; of every transfer, when it was ready, started and left."""

    start: Longs
    end: Longs
    ready: Longs
    transfer_start: Longs
    left: Longs | None = None
    """None: its occupancy after it started."""


def finished(plan: Plan, times: Recorded, compiled: bool = False, room: Longs | None = None) -> Timeline:
    """A Timeline from what an engine recorded; the second row of an atomic pair gets the start of its first.

    Its plan says whose turn it was, where messages took turns.
    """
    if plan.atomic:
        tail = np.flatnonzero(plan.tail)
        times.start[tail] = times.start[tail - 1]
    return Timeline(taken(plan, times.end), *times, compiled, room)
