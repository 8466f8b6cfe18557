"""Megatron's batched sends and receives (``p2p: fused``).

Between two ops that hold its rank (a recomputation belongs to its backward) a rank runs batches. A message is ready
when both ranks have started the batch that names it; a batch is over when all of its messages have arrived, the next
batch or op starts then.
Source: Megatron-LM core, pipeline_parallel/schedules.py and p2p_communication.py (order of calls).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppsim.ops import Kind, Numbers, among
from ppsim.plan.wiring import Wiring

FIRST, SECOND = 0, 1
"""The place of a batch in its gap; there are at most two."""


def wire(wiring: Wiring, data: Numbers) -> None:
    """Put every message into one batch of its sender and one of its receiver."""
    messages, events, ops = wiring.messages, wiring.events, _Ops.of(wiring)
    sent = _sent_in(ops, messages.producer[data])
    received = _received_in(ops, messages.receiver[data], messages.producer[data])
    for batch in (sent, received):
        before = ops.row_before(batch // 2)
        wiring.sends.add(data[before >= 0], events.end(before[before >= 0]))

    message, batch = np.concatenate([data, data]), np.concatenate([sent, received])
    first, second = batch % 2 == FIRST, batch % 2 == SECOND
    # The second batch of a gap starts when all of its first have arrived.
    order = np.argsort(batch[first], kind="stable")
    in_first, gap = message[first][order], batch[first][order] // 2
    start, stop = (np.searchsorted(gap, batch[second] // 2, side=side) for side in ("left", "right"))
    count = stop - start
    awaited = in_first[np.arange(int(count.sum())) + np.repeat(start - np.cumsum(count) + count, count)]
    wiring.sends.add(np.repeat(message[second], count), events.arrive(awaited))
    # The op after a gap starts when all of its batches are over.
    after = ops.row_after(batch // 2)
    wiring.starts.add(after[after >= 0], events.arrive(message[after >= 0]))


@dataclass(frozen=True, eq=False)
class _Ops:
    """The ops that hold their rank, by number; gap g of a rank is the one before its g-th op, counted over all ranks.

    An op's ``row`` is where it ends, its ``first_row`` that of its recomputation, where it has one.
    """

    row: Numbers
    first_row: Numbers
    number: Numbers
    """By row: the number of the op that it belongs to."""
    rank: Numbers
    offsets: Numbers
    forward: NDArray[np.bool_]
    backward: NDArray[np.bool_]
    turn: Numbers
    """How many of its kind, forward or backward, its rank has run in this step before it."""
    paired: NDArray[np.bool_]
    """Forwards that are followed by the backward of their pair: those after the warm-up."""
    interleaved: bool

    @classmethod
    def of(cls, wiring: Wiring) -> _Ops:
        ops, problem = wiring.ops, wiring.spec.problem
        overlapped = wiring.spec.sync.overlapped
        holds = (ops.kind != Kind.R) & ~((ops.kind == Kind.REDUCE_GRAD) & overlapped)
        row = np.flatnonzero(holds)
        # A row that holds nothing belongs to the next op that does.
        number = np.cumsum(np.append(0, holds[:-1]))
        again = ops.kind[np.maximum(row - 1, 0)] == Kind.R
        forward, backward = ops.kind[row] == Kind.F, among(ops.kind[row], (Kind.B, Kind.I))
        rank = ops.rank[row].astype(np.int64)
        offsets = np.searchsorted(row, ops.offsets)
        per_step = problem.microbatches * np.array([len(held) for held in problem.placement.stages_of])
        turn = np.zeros(len(row), np.int64)
        for kind in (forward, backward):
            before = np.cumsum(kind) - kind
            turn[kind] = (before - np.append(before, 0)[offsets[rank]])[kind] % per_step[rank[kind]]
        warm = np.array(wiring.spec.sending.batch_warmup)
        return cls(
            row=row,
            first_row=row - again,
            number=number,
            rank=rank,
            offsets=offsets,
            forward=forward,
            backward=backward,
            turn=turn,
            paired=forward & (turn >= warm[rank]),
            interleaved=problem.placement.stages > problem.ranks,
        )

    def same_kind(self, op: Numbers, turn: Numbers) -> Numbers:
        """The op of each one's kind, rank and step that has that turn."""
        place = np.where(self.forward, np.cumsum(self.forward), np.cumsum(self.backward)) - 1
        forwards, backwards = np.flatnonzero(self.forward), np.flatnonzero(self.backward)
        at = place[op] - self.turn[op] + turn
        found = np.empty(len(op), np.int64)
        goes = self.forward[op]
        found[goes], found[~goes] = forwards[at[goes]], backwards[at[~goes]]
        return found

    def gap_before(self, op: Numbers) -> Numbers:
        """The gap before each op; a rank has one more than ops."""
        return op + self.rank[op]

    def gap_after(self, op: Numbers) -> Numbers:
        """The gap after each op."""
        return op + 1 + self.rank[op]

    def rank_of(self, gap: Numbers) -> Numbers:
        """The rank of each gap."""
        return np.searchsorted(self.offsets[:-1] + np.arange(len(self.offsets) - 1), gap, side="right") - 1

    def row_before(self, gap: Numbers) -> Numbers:
        """The row before each gap, -1 for a rank's first."""
        rank = self.rank_of(gap)
        op = gap - rank - 1
        return np.where(op >= self.offsets[rank], self.row[np.maximum(op, 0)], -1)

    def row_after(self, gap: Numbers) -> Numbers:
        """The row after each gap, -1 for a rank's last."""
        rank = self.rank_of(gap)
        op = gap - rank
        return np.where(op < self.offsets[rank + 1], self.first_row[np.minimum(op, len(self.row) - 1)], -1)


def _sent_in(ops: _Ops, producer: Numbers) -> Numbers:
    """2 · gap + place of the batch that sends each producer's output: the one after it, or after its pair."""
    op = ops.number[producer]
    return 2 * ops.gap_after(op + ops.paired[op] if ops.interleaved else op) + FIRST


def _received_in(ops: _Ops, receiver: Numbers, producer: Numbers) -> Numbers:
    """2 · gap + place of the batch that receives each receiver's input.

    1F1B: a receive shares the batch of the send before it where one is a forward's and the other a backward's; after a
    warm-up forward and among the remaining backwards it is a batch of its own, after the send's.
    """
    op = ops.number[receiver]
    if ops.interleaved:
        return _received_ahead(ops, op, ops.number[producer])
    inside = op > ops.offsets[ops.rank[op]]
    before = np.maximum(op - 1, 0)
    same = (ops.forward[before] == ops.forward[op]) & (ops.backward[before] == ops.backward[op])
    return 2 * ops.gap_before(op) + np.where(inside & same, SECOND, FIRST)


def _received_ahead(ops: _Ops, op: Numbers, producer: Numbers) -> Numbers:
    """Interleaved: a receive shares the batch after the op of its kind before it (after that one's pair).

    The rank that leads, the first for forwards and the last for backwards, runs p - 1 ops ahead of the one that it gets
    its input from: it receives the output of turn t after its own turn t + p - 1, which is earlier where groups are
    larger than p. A rank's first input comes before its first op, the first gradient with the last warm-up forward's
    send; where all forwards are warm-up, in a batch of its own after that.
    """
    ranks = len(ops.offsets) - 1
    leads = np.where(ops.forward[op], ops.rank[op] == 0, ops.rank[op] == ranks - 1)
    turn = ops.turn[op] - 1
    turn = np.where(leads, np.minimum(ops.turn[producer] + ranks - 1, turn), turn)
    after = ops.same_kind(op, np.maximum(turn, 0))
    after = after + ops.paired[after]
    before = np.maximum(op - 1, 0)
    of_pair = ops.backward[op] & ops.paired[before]
    alone = (turn < 0) & ops.backward[op] & ~of_pair
    gap = np.where(turn >= 0, ops.gap_after(after), ops.gap_before(np.where(of_pair, before, op)))
    return 2 * gap + np.where(alone, SECOND, FIRST)
