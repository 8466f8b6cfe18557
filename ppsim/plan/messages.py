"""Messages: what is sent from rank to rank, before anything is known of when, or how large it is."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ppsim.ops import COMMUNICATION, MOVES, NONE, Column, Constant, Ints, Kind, Numbers, OpTable, among, joined
from ppsim.plan.spec import PlanSpec


@dataclass(frozen=True, eq=False)
class Messages:
    """The rows that produce, issue, receive and consume each message, and its ranks.

    ``stage`` is the one before the link that is crossed, whichever way; of a bucket or a move its own. ``issuer`` is
    the row whose place in its rank's list orders it at a port; ``receiver`` (-1: none) the row at which its rank has
    reached its receive. ``bucket`` are the bytes of a gradient bucket, -1 where they follow from what a stage sends or
    holds.
    """

    stage: Numbers
    producer: Numbers
    issuer: Numbers
    receiver: Numbers
    consumer: Numbers
    src: Ints
    dst: Ints
    bucket: Column

    def __len__(self) -> int:
        return len(self.producer)

    def data(self, ops: OpTable) -> Numbers:
        """Those that carry an activation or a gradient from stage to stage."""
        if not ops.index.has(*MOVES, Kind.REDUCE_GRAD):  # nothing else is ever sent
            return np.arange(len(self), dtype=ops.index.number)
        return np.flatnonzero(among(ops.kind[self.producer], (Kind.F, Kind.B, Kind.I)))

    def some(self, which: Numbers) -> Messages:
        """Some of them."""
        return self if len(which) == len(self) else Messages(*(getattr(self, f.name)[which] for f in fields(self)))

    @classmethod
    def join(cls, *parts: Messages) -> Messages:
        """All of them, in the order of their issuers."""
        columns = [[getattr(part, f.name) for part in parts] for f in fields(cls)]
        together = parts[0] if len(parts) == 1 else cls(*(joined(column) for column in columns))  # type: ignore[arg-type]
        issuer = together.issuer
        if np.all(issuer[1:] >= issuer[:-1]):
            return together
        order = np.argsort(issuer, kind="stable")
        return cls(*(getattr(together, f.name)[order] for f in fields(cls)))


def between_stages(ops: OpTable, spec: PlanSpec) -> tuple[Messages, Numbers, Numbers]:
    """The outputs that cross ranks; and of those that don't, the row that can't begin without each, and its producer.

    F(s,k) is taken by F(s+1,k); B or I(s,k) by B or I(s-1,k). Where SEND and RECV are listed, they issue and receive.
    """
    index, units = ops.index, ops.index.units
    consumer_of = np.full(len(ops), -1, index.number)
    forward, backward = index.lookup(Kind.F), index.lookup(Kind.B, Kind.I)
    consumer_of[forward[:-units]] = forward[units:]
    if index.has(Kind.B, Kind.I):
        consumer_of[backward[units:]] = backward[:-units]
    producer = np.flatnonzero(consumer_of >= 0).astype(index.number)
    consumer = consumer_of[producer]
    src, dst = ops.rank[producer], ops.rank[consumer]
    crosses = src != dst
    inside, taken_inside = producer[~crosses], consumer[~crosses]
    if len(inside):
        producer, consumer, src, dst = (column[crosses] for column in (producer, consumer, src, dst))
    issuer, receiver = producer, _taker(ops, consumer, spec)
    if index.has(*COMMUNICATION):
        key, consumer_key = index.key[producer], index.key[consumer]
        is_forward = ops.kind[producer] == Kind.F
        issuer = np.where(is_forward, index.lookup(Kind.SEND_F)[key], index.lookup(Kind.SEND_B)[key])
        receiver = np.where(
            is_forward, index.lookup(Kind.RECV_F)[consumer_key], index.lookup(Kind.RECV_B)[consumer_key]
        )
    bucket = Constant(np.int64(NONE), len(producer))
    stage = np.minimum(ops.stage[producer], ops.stage[consumer])
    return (
        Messages(stage, producer, issuer, receiver, consumer, src, dst, bucket),
        _taker(ops, taken_inside, spec),
        inside,
    )


def _taker(ops: OpTable, consumer: Numbers, spec: PlanSpec) -> Numbers:
    """The row that can't begin without the message: the consumer, or its R where that is late."""
    if not spec.recompute.late:
        return consumer
    again = ops.index.lookup(Kind.R)[ops.index.key[consumer]]
    return np.where((again >= 0) & (ops.kind[consumer] != Kind.F), again, consumer)
