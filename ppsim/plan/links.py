"""Who waits for whom: data dependencies, the messages that carry them, and what else holds an op back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ppsim.config.experiment import Experiment
from ppsim.ops import COMMUNICATION, Kind, Longs, Numbers, OpTable
from ppsim.plan import boundary, moves, sending
from ppsim.plan.durations import RouteBook, Weights
from ppsim.plan.holdings import recomputed_rows
from ppsim.plan.needs import NeedsBuilder
from ppsim.plan.table import Events, Needs, Transfers
from ppsim.plan.wiring import Messages, Wiring
from ppsim.schedules.base import Problem, Schedule


@dataclass(frozen=True, eq=False)
class Links:
    """The finished dependencies and transfers."""

    start_needs: Needs
    end_needs: Needs
    transfers: Transfers
    messages: Messages
    events: Events


def consumers(ops: OpTable) -> Numbers:
    """The row that takes each row's output (-1: none): F(s,k) -> F(s+1,k); B or I(s,k) -> B or I(s-1,k)."""
    consumer = np.full(len(ops), -1, ops.index.number)
    forward, backward = ops.index.lookup(Kind.F), ops.index.lookup(Kind.B, Kind.I)
    consumer[forward[: -ops.index.units]] = forward[ops.index.units :]
    if ops.index.has(Kind.B, Kind.I):
        consumer[backward[ops.index.units :]] = backward[: -ops.index.units]
    return consumer


def link_up(
    ops: OpTable,
    pair_heads: Numbers,
    problem: Problem,
    experiment: Experiment,
    schedule: Schedule,
    weights: Weights,
    routes: RouteBook,
    after: tuple[OpTable, OpTable] | None,
    checked: bool = False,
) -> Links:
    """Dependencies and transfers of all rows; ``checked``: no op stands before one of its rank that it needs."""
    head: Numbers = np.arange(len(ops), dtype=ops.index.number)
    head[pair_heads + 1] = pair_heads
    consumer = consumers(ops)
    producers = np.flatnonzero(consumer >= 0).astype(ops.index.number)
    consumer = consumer[producers]
    src, dst = ops.rank[producers], ops.rank[consumer]
    crosses = src != dst
    inside, takes_inside = producers[~crosses], consumer[~crosses]
    if len(inside):
        producers, consumer, src, dst = (column[crosses] for column in (producers, consumer, src, dst))
    size, issuer, receiver = data_messages(ops, producers, consumer, problem, experiment, weights)
    messages = Messages(producers, issuer, receiver, consumer, src, dst, size)
    synced = boundary.sync_messages(ops, problem, experiment)
    moved = moves.move_messages(ops, problem, weights, recomputed_rows(ops))
    messages = Messages.join(messages, *synced, *moved)
    wiring = Wiring(
        ops,
        head,
        problem,
        experiment,
        schedule,
        messages,
        Events(len(ops), len(messages)),
        NeedsBuilder(len(ops)),
        NeedsBuilder(len(ops)),
        NeedsBuilder(len(messages)),
        len(pair_heads) > 0,
    )
    wiring.after_row(taker(ops, takes_inside, experiment), inside)
    if len(pair_heads) or not checked:  # else a rank's own order, which has been checked, sees to them
        own_dependencies(wiring)
    sending.wire(wiring)
    boundary.wire(wiring)
    moves.wire(wiring, after)
    return Links(
        start_needs=wiring.starts.pack(),
        end_needs=wiring.ends.pack(),
        transfers=Transfers(
            route=routes.number(messages.src, messages.dst, messages.bytes),
            producer=messages.producer,
            issuer=messages.issuer,
            consumer=messages.consumer,
            needs=wiring.sends.pack(),
        ),
        messages=messages,
        events=wiring.events,
    )


def taker(ops: OpTable, consumer: Numbers, experiment: Experiment) -> Numbers:
    """The row that can't begin without the message: the consumer, or its R where that is late."""
    if experiment.pipeline.recompute_when == "early":
        return consumer
    again = ops.index.lookup(Kind.R)[ops.index.key[consumer]]
    return np.where((again >= 0) & (ops.kind[consumer] != Kind.F), again, consumer)


def data_messages(
    ops: OpTable, producer: Numbers, consumer: Numbers, problem: Problem, experiment: Experiment, weights: Weights
) -> tuple[Longs, Numbers, Numbers]:
    """Bytes of the outputs that cross ranks, and the rows that issue and receive them: SEND and RECV where listed."""
    forward = ops.kind[producer] == Kind.F
    before = ops.stage[producer] - ~forward  # the stage before the link, whichever way it is crossed
    size = weights.sizes(problem.costs.message, before, ops.microbatch[producer])
    issuer, receiver = producer, taker(ops, consumer, experiment)
    if len(ops.index.select(*COMMUNICATION)):
        key, consumer_key = ops.index.key[producer], ops.index.key[consumer]
        issuer = np.where(forward, ops.index.lookup(Kind.SEND_F)[key], ops.index.lookup(Kind.SEND_B)[key])
        receiver = np.where(
            forward, ops.index.lookup(Kind.RECV_F)[consumer_key], ops.index.lookup(Kind.RECV_B)[consumer_key]
        )
    return size, issuer, receiver


def own_dependencies(wiring: Wiring) -> None:
    """B or I needs its own F (its R where there is one), W its I, R its F; late R needs its gradient, too."""
    ops = wiring.ops
    backward = (Kind.B, Kind.I)
    for late, early in ((backward, (Kind.F,)), ((Kind.W,), (Kind.I,)), ((Kind.R,), (Kind.F,)), (backward, (Kind.R,))):
        if ops.index.has(*late) and ops.index.has(*early):
            waiting, awaited = ops.index.lookup(*late), ops.index.lookup(*early)
            both = np.flatnonzero((waiting >= 0) & (awaited >= 0))
            wiring.after_row(waiting[both], awaited[both])
