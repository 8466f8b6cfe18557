"""Who waits for whom: data dependencies, the messages that carry them, and what else holds an op back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ppsim.config.experiment import Experiment
from ppsim.ops import COMMUNICATION, Kind, Ops
from ppsim.plan import boundary, moves, sending
from ppsim.plan.durations import RouteBook, Weights
from ppsim.plan.holdings import recomputed_rows
from ppsim.plan.needs import NeedsBuilder
from ppsim.plan.rows import Rows
from ppsim.plan.table import Events, Longs, Needs, Transfers
from ppsim.plan.wiring import Index, Messages, Wiring
from ppsim.schedules.base import Problem, Schedule


@dataclass(frozen=True, eq=False)
class Links:
    """The finished dependencies and transfers."""

    start_needs: Needs
    end_needs: Needs
    transfers: Transfers
    messages: Messages
    events: Events


def consumers(rows: Rows) -> Index:
    """The row that takes each row's output (-1: none): F(s,k) -> F(s+1,k); B or I(s,k) -> B or I(s-1,k)."""
    consumer = np.full(len(rows), -1, rows.number)
    forward, backward = rows.lookup(Kind.F), rows.lookup(Kind.B, Kind.I)
    consumer[forward[: -rows.units]] = forward[rows.units :]
    if rows.has(Kind.B, Kind.I):
        consumer[backward[rows.units :]] = backward[: -rows.units]
    return consumer


def link_up(
    rows: Rows,
    pair_heads: Index,
    problem: Problem,
    experiment: Experiment,
    schedule: Schedule,
    weights: Weights,
    routes: RouteBook,
    after: tuple[Ops, Ops] | None,
    checked: bool = False,
) -> Links:
    """Dependencies and transfers of all rows; ``checked``: no op stands before one of its rank that it needs."""
    head: Index = np.arange(len(rows), dtype=rows.number)
    head[pair_heads + 1] = pair_heads
    consumer = consumers(rows)
    producers = np.flatnonzero(consumer >= 0).astype(rows.number)
    consumer = consumer[producers]
    src, dst = rows.rank[producers], rows.rank[consumer]
    crosses = src != dst
    inside, takes_inside = producers[~crosses], consumer[~crosses]
    if len(inside):
        producers, consumer, src, dst = (column[crosses] for column in (producers, consumer, src, dst))
    size, issuer, receiver = data_messages(rows, producers, consumer, problem, experiment, weights)
    messages = Messages(producers, issuer, receiver, consumer, src, dst, size)
    synced = boundary.sync_messages(rows, problem, experiment)
    moved = moves.move_messages(rows, problem, weights, recomputed_rows(rows))
    messages = Messages.join(messages, *synced, *moved)
    wiring = Wiring(
        rows,
        head,
        problem,
        experiment,
        schedule,
        messages,
        Events(len(rows), len(messages)),
        NeedsBuilder(len(rows)),
        NeedsBuilder(len(rows)),
        NeedsBuilder(len(messages)),
        len(pair_heads) > 0,
    )
    wiring.after_row(taker(rows, takes_inside, experiment), inside)
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


def taker(rows: Rows, consumer: Index, experiment: Experiment) -> Index:
    """The row that can't begin without the message: the consumer, or its R where that is late."""
    if experiment.pipeline.recompute_when == "early":
        return consumer
    again = rows.lookup(Kind.R)[rows.key[consumer]]
    return np.where((again >= 0) & (rows.kind[consumer] != Kind.F), again, consumer)


def data_messages(
    rows: Rows, producer: Index, consumer: Index, problem: Problem, experiment: Experiment, weights: Weights
) -> tuple[Longs, Index, Index]:
    """Bytes of the outputs that cross ranks, and the rows that issue and receive them: SEND and RECV where listed."""
    forward = rows.kind[producer] == Kind.F
    before = rows.stage[producer] - ~forward  # the stage before the link, whichever way it is crossed
    size = weights.sizes(problem.costs.message, before, rows.microbatch[producer])
    issuer, receiver = producer, taker(rows, consumer, experiment)
    if len(rows.select(*COMMUNICATION)):
        key, consumer_key = rows.key[producer], rows.key[consumer]
        issuer = np.where(forward, rows.lookup(Kind.SEND_F)[key], rows.lookup(Kind.SEND_B)[key])
        receiver = np.where(forward, rows.lookup(Kind.RECV_F)[consumer_key], rows.lookup(Kind.RECV_B)[consumer_key])
    return size, issuer, receiver


def own_dependencies(wiring: Wiring) -> None:
    """B or I needs its own F (its R where there is one), W its I, R its F; late R needs its gradient, too."""
    rows = wiring.rows
    backward = (Kind.B, Kind.I)
    for late, early in ((backward, (Kind.F,)), ((Kind.W,), (Kind.I,)), ((Kind.R,), (Kind.F,)), (backward, (Kind.R,))):
        if rows.has(*late) and rows.has(*early):
            waiting, awaited = rows.lookup(*late), rows.lookup(*early)
            both = np.flatnonzero((waiting >= 0) & (awaited >= 0))
            wiring.after_row(waiting[both], awaited[both])
