"""Static checks of Orders: what is wrong is named before anything runs, all of it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from ppsim.errors import ScheduleError
from ppsim.ops import (
    COMMUNICATION,
    COMPUTE,
    HOST,
    MOVES,
    NONE,
    WITHOUT_MICROBATCH,
    Extent,
    Ints,
    Kind,
    Numbers,
    OpTable,
    Orders,
    among,
)
from ppsim.schedules.base import Problem

SHOWN = 20
_ONCE = (*COMPUTE, *COMMUNICATION, *MOVES)
"""Kinds of which there is at most one op for each stage and microbatch."""
_LATER = {
    Kind.B: Kind.F, Kind.I: Kind.F, Kind.W: Kind.I, Kind.R: Kind.F, Kind.EVICT: Kind.F, Kind.LOAD: Kind.EVICT,
}  # fmt: skip
"""By kind the one that stands before it."""


class CheckedOrders(Orders):
    """Orders that ``check`` has found legal: on every rank each op stands after those of that rank that it needs."""


def _row_and_column(rank: int, cell: int) -> str:
    return f"row {rank + 1}, column {cell + 1}"


def check(
    orders: Orders, problem: Problem, label: str = "schedule", place: Callable[[int, int], str] = _row_and_column
) -> CheckedOrders:
    """The orders as checked ones. Raises ScheduleError unless they are legal; deadlocks are the engine's business.

    ``place`` says where the schedule lists a rank's op (a fused pair is one), both counted from 0.
    """
    checker = _Checker(orders, problem, place)
    found = list(checker.mistakes())
    if found:
        more = [f"{label}: and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        raise ScheduleError("\n".join([*(f"{label}: {mistake}" for mistake in found[:SHOWN]), *more]))
    return CheckedOrders(checker.table, orders.after)


def _without(lists: Sequence[Sequence[int]]) -> list[int]:
    """Numbers of the empty ones."""
    return [number for number, found in enumerate(lists) if not found]


def _below(numbers: Ints, end: int) -> bool:
    """Whether all are from 0 to below the end, seen in one go: as unsigned ones, those below 0 are very large."""
    return bool(numbers.view(np.uint32).max(initial=0) < end)


class _Checker:
    """The orders as columns, with a place to look ops up."""

    def __init__(self, orders: Orders, problem: Problem, place: Callable[[int, int], str]) -> None:
        self.problem, self.place = problem, place
        self.m = problem.microbatches * (problem.steps if problem.stream else 1)
        listed, extent = orders.table, Extent(problem.stages, self.m)
        # Written out: dataclasses.replace takes a tenth of all checks of a small order.
        self.table = OpTable(
            listed.kind, listed.stage, listed.microbatch, listed.step, listed.group, listed.peer, listed.offsets, extent
        )
        self.rank, self.index = self.table.rank, self.table.index

    def where(self, row: int) -> str:
        """The place of a row: its rank, and its cell (a fused pair is one) in that rank's list."""
        rank = int(self.rank[row])
        first = int(self.table.offsets[rank])
        before = self.table.group[first : row + 1]
        pairs = int(np.sum((before[1:] == before[:-1]) & (before[1:] != NONE)))
        return f"{self.place(rank, row - first - pairs)} (rank {rank})"

    def name(self, row: int) -> str:
        """The op of a row, as text."""
        return str(self.table[row])

    def said(self, rows: Numbers, why: str | Callable[..., str], *beside: Numbers) -> Iterator[str]:
        """Of the first of these rows: where it is, its op, and why it is wrong, given what stands beside the rows."""
        if not len(rows):
            return
        for row, *others in zip(*(column[: SHOWN + 1].tolist() for column in (rows, *beside)), strict=True):
            yield f"{self.where(row)}: {self.name(row)}{why if isinstance(why, str) else why(row, *others)}"

    def mistakes(self) -> Iterator[str]:
        """Every mistake; later checks run only where earlier ones found nothing, since they build on them."""
        for step in (self._sizes, self._each_once, self._complete, self._in_order, self._messages, self._step_end):
            found = list(step())
            yield from found
            if found:
                return

    def _sizes(self) -> Iterator[str]:
        p, stages = self.problem.ranks, self.problem.stages
        if self.table.ranks != p:
            yield f"orders for {self.table.ranks} ranks, the pipeline has {p}"
            return
        table, placement = self.table, self.problem.placement
        yield from (f"rank {rank} holds no stage; every rank needs one" for rank in _without(placement.stages_of))
        yield from (f"stage {stage} is on no rank" for stage in _without(placement.ranks_of))
        first = np.array([ranks[0] if ranks else NONE for ranks in placement.ranks_of] + [NONE], np.int32)
        stage = table.stage if _below(table.stage, stages) else np.clip(table.stage, -1, stages)
        strange = np.flatnonzero(first[stage] != self.rank)
        if len(strange):  # perhaps it is one of several ranks that hold the stage
            held = [rank * (stages + 2) + s for rank, mine in enumerate(placement.stages_of) for s in mine]
            place = self.rank[strange].astype(np.int64) * (stages + 2) + stage[strange]
            strange = strange[~np.isin(place, held)]
        yield from self.said(strange, lambda row: f": stage {table.stage[row]} is not on rank {self.rank[row]}")
        if self.index.has(*MOVES):
            moves = self.index.select(*MOVES)
            peer = table.peer[moves]
            yield from self.said(moves[peer == HOST], ": moves to the host aren't simulated; name a rank")
            wrong = (peer >= p) | (peer == self.rank[moves])
            why = {True: "is its own", False: "is unknown"}
            told = f"; the ranks are 0 to {p - 1}"
            yield from self.said(moves[wrong], lambda _, rank: f": rank {rank} {why[rank < p]}{told}", peer[wrong])
        if not _below(table.microbatch, self.m):
            needs = ~among(table.kind, WITHOUT_MICROBATCH)
            outside = needs & ((table.microbatch < 0) | (table.microbatch >= self.m))
            yield from self.said(np.flatnonzero(outside), f": the microbatches are 0 to {self.m - 1}")

    def _each_once(self) -> Iterator[str]:
        for kind in filter(self.index.has, _ONCE):
            rows = self.index.select(kind)
            if len(rows) == np.count_nonzero(self.index.lookup(kind) >= 0):
                continue
            keys = self.index.key[rows]
            for key in np.unique(keys[self.index.lookup(kind)[keys] != rows])[: SHOWN + 1].tolist():
                first, second = rows[self.index.key[rows] == key][:2].tolist()
                yield f"{self.where(second)}: {self.name(second)} stands at {self.where(first)}, too"
        if self.index.has(Kind.I):
            full, half = self.index.lookup(Kind.B), self.index.lookup(Kind.I)
            both = full[(full >= 0) & (half >= 0)]
            yield from self.said(both, ": its input-gradient half stands in the order, too")

    def _complete(self) -> Iterator[str]:
        forward, backward = self.index.lookup(Kind.F), self.index.lookup(Kind.B, Kind.I)
        if len(self.index.select(Kind.F)) < len(forward):  # each stands once, so that as many as are due are all
            for key in np.flatnonzero(forward < 0)[: SHOWN + 1].tolist():
                yield f"{key // self.m}F{key % self.m} is missing"
        if 0 < len(self.index.select(Kind.B, Kind.I)) < len(backward):
            for key in np.flatnonzero(backward < 0)[: SHOWN + 1].tolist():
                yield f"{key // self.m}B{key % self.m} is missing (there is neither B nor I)"
        if not self.index.has(Kind.I, Kind.W, *MOVES):
            return
        half, weight = self.index.lookup(Kind.I), self.index.lookup(Kind.W)
        yield from self.said(weight[(weight >= 0) & (half < 0)], " without its I")
        yield from self.said(half[(half >= 0) & (weight < 0)], " without its W")
        evict, load = self.index.lookup(Kind.EVICT), self.index.lookup(Kind.LOAD)
        alone = np.concatenate([evict[(evict >= 0) & (load < 0)], load[(load >= 0) & (evict < 0)]])
        yield from self.said(alone, ": an activation that is evicted is loaded again, once")

    def _in_order(self) -> Iterator[str]:
        for kind, before in _LATER.items():
            if self.index.has(kind):
                rows = self.index.select(kind)
                first = self.index.lookup(before)[self.index.key[rows]]
                wrong = (first > rows) | (first < 0)
                if self.problem.placement.replicated:  # else a stage's ops are all on its one rank
                    wrong |= self.rank[first] != self.rank[rows]
                yield from self.said(rows[wrong], partial(self._before, before), first[wrong])
        if self.index.has(Kind.R):
            recompute = self.index.select(Kind.R)
            backward = self.index.lookup(Kind.B, Kind.I)[self.index.key[recompute]]
            yield from self.said(recompute[backward < recompute], " after its backward")

    def _before(self, kind: Kind, row: int, needed: int) -> str:
        if needed < 0:
            return f": its {kind.name} is missing"
        if self.rank[needed] != self.rank[row]:
            return f": its {self.name(needed)} is on rank {self.rank[needed]}"
        return f" before its {self.name(needed)}"

    def _messages(self) -> Iterator[str]:
        if not self.index.has(*COMMUNICATION):
            return
        astray = ", or on another rank"
        forward, backward = self.index.lookup(Kind.F), self.index.lookup(Kind.B, Kind.I)
        for kinds, consumer, send, receive, up in (
            ((Kind.F,), forward, Kind.SEND_F, Kind.RECV_F, 1),
            ((Kind.B, Kind.I), backward, Kind.SEND_B, Kind.RECV_B, -1),
        ):
            rows = self.index.select(*kinds)
            neighbour = self.table.stage[rows] + up
            rows = rows[(neighbour >= 0) & (neighbour < self.problem.stages)]
            taker = consumer[self.index.key[rows] + up * self.m]
            crossing = (self.rank[taker] != self.rank[rows]) & (taker >= 0)
            rows, taker = rows[crossing], taker[crossing]
            sends = self.index.lookup(send)[self.index.key[rows]]
            receives = self.index.lookup(receive)[self.index.key[taker]]
            yield from self.said(rows[sends < 0], f": its output crosses ranks, but there is no {send.name}")
            yield from self.said(taker[receives < 0], f": its input crosses ranks, but there is no {receive.name}")
            early = (sends >= 0) & ((sends < rows) | (self.rank[sends] != self.rank[rows]))
            yield from self.said(sends[early], lambda _, op: f" before its {self.name(op)}{astray}", rows[early])
            late = (receives >= 0) & ((receives > taker) | (self.rank[receives] != self.rank[taker]))
            yield from self.said(receives[late], lambda _, op: f" after its {self.name(op)}{astray}", taker[late])
            used = np.zeros(len(self.table), bool)
            used[sends[sends >= 0]] = used[receives[receives >= 0]] = True
            idle = self.index.select(send, receive)
            yield from self.said(idle[~used[idle]], ": nothing crosses ranks here")

    def _step_end(self) -> Iterator[str]:
        """REDUCE_GRAD once per stage and rank, after its gradients are complete; OPTIM after all that."""
        if self.problem.stream or not self.index.has(Kind.REDUCE_GRAD, Kind.OPTIM):
            return
        backward = self.index.select(Kind.B, Kind.I, Kind.W)
        syncs = self.index.select(Kind.REDUCE_GRAD)
        seen: dict[tuple[int, int], int] = {}
        for row in syncs.tolist():
            place = int(self.rank[row]), int(self.table.stage[row])
            if place in seen:
                yield f"{self.where(row)}: {self.name(row)} stands at {self.where(seen[place])}, too"
            seen.setdefault(place, row)
            same = (self.rank[backward] == place[0]) & (self.table.stage[backward] == place[1])
            if len(late := backward[same & (backward > row)]):
                yield f"{self.where(row)}: {self.name(row)} before {self.name(int(late[-1]))}, whose gradient it sums"
        for row in self.index.select(Kind.OPTIM).tolist():
            before = np.concatenate([backward, syncs])
            if len(late := before[(self.rank[before] == self.rank[row]) & (before > row)]):
                needed = self.name(int(late.max()))
                yield f"{self.where(row)}: {self.name(row)} before {needed}, whose gradient it needs"
