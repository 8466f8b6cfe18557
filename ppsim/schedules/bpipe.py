"""BPipe: 1F1B whose early stages lend activations to the late ones, so that all hold about as many."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Discriminator, Field, Tag

from ppsim._model import Whole, one_or_list
from ppsim.errors import Notice
from ppsim.ops import MOVES, NONE, Kind, Ops, Orders, concat, ops
from ppsim.schedules import theory
from ppsim.schedules.base import Problem, Schedule
from ppsim.schedules.one_f_one_b import fewer_microbatches_than_ranks, warm_up_and_alternate

Pairs = Annotated[
    Annotated[Literal["mirror"], Tag("<one>")] | Annotated[list[list[Whole]], Tag("<list>")],
    Discriminator(one_or_list),
]


class BPipe(Schedule):
    """1F1B with activation balancing: no rank ever holds more than ``limit`` activations, its own and its partner's.

    Rank x needs p - x activations under 1F1B, rank p-1-x needs x + 1: a pair needs p + 1, its fair share is half of it,
    and one slot more lets an eviction and a load fly at once. What exceeds the limit is evicted to the partner and
    loaded back before its backward; the moves are transfers over the pair's link, beside the computing.
    Source: Kim et al. 2023 (BPipe), ICML, PMLR 202 (pairing and balance); where the moves stand is our own rule.
    """

    name: Literal["bpipe"] = "bpipe"
    pairs: Pairs = "mirror"
    """Who lends to whom: rank x with p-1-x, or a list of pairs such as [[0, 1], [2, 3]]."""
    limit: Whole | None = Field(None, ge=1)
    """Most activations on a rank at any instant (default: the least that works, ceil((p+2)/2) for mirror pairs)."""

    def partners(self, ranks: int) -> dict[int, int]:
        """The partner of every rank that has one."""
        if isinstance(self.pairs, list):
            return {a: b for pair in self.pairs for a, b in (pair, pair[::-1])}
        return {x: ranks - 1 - x for x in range(ranks) if x != ranks - 1 - x}

    def least_limit(self, ranks: int) -> int:
        """The least limit that works: half of what a pair needs and a slot to swap through; what a lone rank needs."""
        partner = self.partners(ranks)
        own = [ranks - x for x in range(ranks)]
        # A rank that needs less than that lends nothing.
        return max(min(own[x], (own[x] + own[partner.get(x, x)]) // 2 + 1) for x in range(ranks))

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """Pairs are of two different ranks, each in one pair; the limit leaves a pair room to swap."""
        wrong = list(_wrong_pairs(self.pairs, ranks)) if isinstance(self.pairs, list) else []
        yield from wrong
        if wrong:
            return
        least = self.least_limit(ranks)
        if self.limit is not None and self.limit < least:
            yield (
                "schedule.limit",
                f"{self.limit} activations are too few: with these pairs of {ranks} ranks the least limit is {least}",
            )

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """M < p; nothing to balance."""
        yield from fewer_microbatches_than_ranks(ranks, microbatches, chunks=1)
        limit = self.limit or self.least_limit(ranks)
        most = min(ranks, microbatches)
        if most <= limit:
            why = "" if self.pairs == "mirror" else "; mirror pairs, rank x with p-1-x, share out the most"
            yield Notice(
                "nothing_to_balance",
                "schedule.limit" if self.limit is not None else "schedule.pairs",
                f"no rank needs more than the limit of {limit} activations, so that nothing is evicted: as 1f1b{why}",
            )

    def theory(self) -> theory.Form:
        """As 1F1B, while no move is waited for."""
        return theory.ONE_F_ONE_B

    @property
    def saves_memory(self) -> str:
        """The limit."""
        return "schedule.limit"

    def orders(self, problem: Problem) -> Orders:
        """1F1B's orders, with the moves of every rank that needs more than the limit."""
        p, m = problem.ranks, problem.microbatches
        limit, partner = self.limit or self.least_limit(p), self.partners(p)
        per_rank: list[Ops] = []
        waiting: list[Ops] = []
        awaited: list[Ops] = []
        for x, order in enumerate(warm_up_and_alternate(problem, lambda rank: p - rank)):
            if min(m, p - x) > limit:
                lender = _Lender(order, limit, partner[x])
                order = lender.table()
                for waits, for_ in lender.conditions(order, room=limit - min(m, p - partner[x])):
                    waiting.append(waits)
                    awaited.append(for_)
            per_rank.append(order)
        return Orders.of(per_rank, (concat(*waiting), concat(*awaited)) if waiting else None)


def _wrong_pairs(pairs: list[list[int]], ranks: int) -> Iterator[tuple[str, str]]:
    seen: dict[int, int] = {}
    for index, pair in enumerate(pairs):
        key = f"schedule.pairs.{index}"
        if len(pair) != 2 or pair[0] == pair[1]:
            yield key, f"a pair is two different ranks, as in [0, {max(ranks - 1, 1)}]"
            continue
        for rank in pair:
            if not 0 <= rank < ranks:
                yield key, f"rank {rank} is unknown; the ranks are 0 to {ranks - 1}"
            elif rank in seen:
                yield key, f"rank {rank} is in pair {seen[rank]}, too; a rank has one partner"
            seen.setdefault(rank, index)


class _Lender:
    """One walk over a rank's 1F1B that puts in its moves."""

    def __init__(self, order: Ops, limit: int, partner: int) -> None:
        self.stage, self.limit, self.partner = int(order.stage[0]), limit, partner
        self.kinds: list[int] = []
        self.microbatches: list[int] = []
        self.takes: list[int] = []
        """Places of what takes a slot: a forward, a LOAD."""
        self.frees: list[int] = []
        """Places of what frees one: a backward, an EVICT."""
        self.away: deque[int] = deque()
        """Microbatches that are at the partner, the next needed first."""
        self._walk(order.kind.tolist(), order.microbatch.tolist())

    def _walk(self, kinds: list[int], microbatches: list[int]) -> None:
        for place, (kind, microbatch) in enumerate(zip(kinds, microbatches, strict=True)):
            self._put(kind, microbatch)
            following = kinds[place + 1 : place + 3]
            if kind == Kind.F and following == [Kind.F, Kind.F]:
                # Warm-up: one forward ahead of need, so that it flies while the next forward runs.
                if self.held + 2 > self.limit:
                    self._evict(microbatch)
            elif kind == Kind.F and following[:1] == [Kind.B]:
                # Swap: both moves fly during the next backward and forward.
                needed = microbatches[place + 1] + 1
                if self.held == self.limit and self.away and self.away[0] == needed:
                    self._evict(microbatch)
                    self._load()
            elif kind == Kind.B and following[:1] == [Kind.B] and self.away:
                # Cool-down: every backward makes room for the next activation that is away.
                self._load()

    @property
    def held(self) -> int:
        """Own activations here, by the order of the list."""
        return len(self.takes) - len(self.frees)

    def _put(self, kind: int, microbatch: int) -> None:
        (self.takes if kind in (Kind.F, Kind.LOAD) else self.frees).append(len(self.kinds))
        self.kinds.append(kind)
        self.microbatches.append(microbatch)

    def _evict(self, microbatch: int) -> None:
        self._put(Kind.EVICT, microbatch)
        self.away.append(microbatch)

    def _load(self) -> None:
        self._put(Kind.LOAD, self.away.popleft())

    def table(self) -> Ops:
        """The order with its moves."""
        kinds = np.array(self.kinds)
        peer = np.where(np.isin(kinds, MOVES), self.partner, NONE)
        return ops(kinds, self.stage, np.array(self.microbatches), peer)

    def conditions(self, table: Ops, room: int) -> Iterator[tuple[Ops, Ops]]:
        """(ops, what each waits for): the i-th taker for the (i - limit)-th to free a slot, EVICT e for LOAD e - room.

        Each freed slot is waited for by one taker only, so that the limit holds in whatever order the moves end;
        ``room`` is how many activations the partner takes in.
        """
        yield table[np.array(self.takes[self.limit :])], table[np.array(self.frees[: len(self.takes) - self.limit])]
        evicts, loads = np.flatnonzero(table.kind == Kind.EVICT), np.flatnonzero(table.kind == Kind.LOAD)
        yield table[evicts[room:]], table[loads[: len(evicts[room:])]]
