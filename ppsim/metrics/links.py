"""Traffic: bytes and utilisation of every port, messages between every pair of ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ppsim.engine.timeline import PER_SECOND
from ppsim.metrics.base import Run, metric
from ppsim.network import rule_of
from ppsim.ops import Longs


def messages(run: Run) -> Longs:
    """How many messages each route carries."""
    return run.plan.passes


def _by_port(run: Run, per_message: Longs) -> Longs:
    """The sum over each port's messages."""
    plan, total = run.plan, np.zeros(len(run.plan.ports), np.int64)
    carried = run.once(messages) * per_message
    for port in (plan.routes.egress, plan.routes.ingress):
        used = port >= 0
        np.add.at(total, port[used], carried[used])
    return total


def _busy(run: Run) -> Longs:
    return rule_of(run.plan).busy(run.plan, run.timeline.carried)


@metric(scope="link", name="bytes", unit="B", definition="all messages through the port", needs=("links",))
def port_bytes(run: Run) -> Longs:
    """Bytes through every port."""
    return _by_port(run, run.plan.routes.bytes)


@metric(scope="link", name="busy_s", unit="s", definition="time that messages occupy the port", needs=("links",))
def port_busy_s(run: Run) -> list[float]:
    """Busy time of every port."""
    return [ns / PER_SECOND for ns in run.once(_busy).tolist()]


@metric(scope="link", unit="1", definition="busy time / makespan", needs=("links",))
def utilization(run: Run) -> list[float]:
    """Share of the makespan that every port is busy."""
    return [ns / max(run.timeline.makespan, 1) for ns in run.once(_busy).tolist()]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Ordered pairs of ranks that exchange messages, moves included, gradient sync not: how many, of how many bytes."""

    src: Longs
    dst: Longs
    messages: Longs
    bytes: Longs


def pairs(run: Run) -> Pairs:
    """By source, then destination."""
    routes, count = run.plan.routes, run.once(messages)
    used = np.flatnonzero((routes.src != routes.dst) & (count > 0))
    src, dst, sent = routes.src[used].astype(np.int64), routes.dst[used].astype(np.int64), count[used]
    code = src * run.plan.ops.ranks + dst
    if (code[1:] > code[:-1]).all():  # a route for each pair, in their order: all messages are of one size
        return Pairs(src, dst, sent, sent * routes.bytes[used])
    codes, which = np.unique(code, return_inverse=True)
    number, size = np.zeros((2, len(codes)), np.int64)
    np.add.at(number, which, sent)
    np.add.at(size, which, sent * routes.bytes[used])
    return Pairs(codes // run.plan.ops.ranks, codes % run.plan.ops.ranks, number, size)


@metric(scope="pair", name="messages", unit="count", definition="messages from src to dst", needs=("links",))
def pair_messages(run: Run) -> Longs:
    """Messages of every pair."""
    return run.once(pairs).messages


@metric(scope="pair", name="bytes", unit="B", definition="bytes from src to dst", needs=("links",))
def pair_bytes(run: Run) -> Longs:
    """Bytes of every pair."""
    return run.once(pairs).bytes
