"""PyTorch over gloo: a message waits for its receive, and a pair of ranks has one connection for both directions."""

from __future__ import annotations

from bisect import bisect
from dataclasses import replace

import numpy as np

from ppsim.network.base import Transport
from ppsim.network.transports._posting import posted_early
from ppsim.ops import COMMUNICATION, MOVES, NONE, Flags, Ints, Kind, Longs, Numbers, among
from ppsim.plan import Dependencies, Plan, Sending, Turns


def _wire(plan: Plan, sending: Sending) -> Plan:
    """Add what gloo's messages wait for."""
    sent = _data(plan)
    if sending.batch_warmup is not None:
        return _in_flight(replace(plan, turns=_turns(plan, sent)))
    if plan.ops.index.has(*COMMUNICATION):
        return _listed(plan, sent)
    if sending.receives == "early":
        before, earlier = posted_early(plan, sent)
        return _posted(plan, sent, before, earlier)
    return _posted(plan, sent, _before_taker(plan, sent), np.full(len(sent), NONE))


def _data(plan: Plan) -> Numbers:
    """The messages between stages; moves and gradients go their own ways."""
    return np.flatnonzero(among(plan.ops.kind[plan.transfers.producer], (Kind.F, Kind.B, Kind.I)))


def _posted(plan: Plan, sent: Numbers, before: Longs, earlier: Longs) -> Plan:
    """Each of these messages waits until its receive is posted: row ``before`` has ended; the word is there, behind
    transfer ``earlier`` (-1: none)."""
    transfers, events = plan.transfers, plan.events
    some, behind = before != NONE, earlier != NONE
    needs = transfers.needs.joined(
        np.concatenate([sent[some], sent[behind]]),
        np.concatenate([events.end(before[some]), events.left(earlier[behind])]),
    )
    return replace(plan, transfers=replace(transfers, needs=needs))


def _before_taker(plan: Plan, sent: Numbers) -> Longs:
    """Of each message the last op, but a move, before the first that can't begin without it; -1: none."""
    needs, ops = plan.start_needs, plan.ops
    message = needs.event.astype(np.int64) - int(plan.events.arrive(0))
    arrivals = np.flatnonzero(message >= 0)[::-1]
    taker = np.full(len(plan.transfers), NONE, np.int64)
    taker[message[arrivals]] = needs.owner[arrivals]  # of several the first is written last
    rows = np.where(among(ops.kind, MOVES), NONE, np.arange(len(ops)))
    up_to = np.append(NONE, np.maximum.accumulate(rows))
    before = up_to[taker[sent]]
    return np.where(before >= ops.offsets[ops.rank[taker[sent]]], before, NONE)


def _listed(plan: Plan, sent: Numbers) -> Plan:
    """Orders with SEND and RECV: a message goes when both are reached, be it in turn with one the other way.

    A RECV holds its rank until the message is there, so that only one message can be ahead of its word: one that the
    rank has sent since its last RECV, if the other rank awaits that next.
    """
    transfers, ops, routes = plan.transfers, plan.ops, plan.routes
    forward = ops.kind[transfers.producer[sent]] == Kind.F
    key = ops.index.key[transfers.consumer[sent]]
    receive = np.where(forward, ops.index.lookup(Kind.RECV_F)[key], ops.index.lookup(Kind.RECV_B)[key]).astype(np.int64)
    needs = transfers.needs.joined(sent, plan.events.begin(receive))

    row_of = dict(zip(sent.tolist(), receive.tolist(), strict=True))
    coming: dict[tuple[int, int], list[tuple[int, int]]] = {}  # RECVs by (receiver, sender), in order, and messages
    ways = [(int(routes.src[way]), int(routes.dst[way])) for way in transfers.route[sent].tolist()]
    for transfer, (src, dst) in zip(sent.tolist(), ways, strict=True):
        coming.setdefault((dst, src), []).append((row_of[transfer], transfer))
    for listed in coming.values():
        listed.sort()
    awaited: dict[int, int] = {}
    for transfer, issuer, way in zip(sent.tolist(), transfers.issuer[sent].tolist(), ways, strict=True):
        listed = coming.get(way, [])
        place = bisect(listed, (issuer, 0))
        if place < len(listed):
            awaited[transfer] = listed[place][1]
    mine, theirs = np.full((2, len(transfers)), NONE, np.int64)
    pairs = [(one, other) for one, other in awaited.items() if awaited.get(other) == one]
    for one, other in pairs:
        mine[one], theirs[one] = row_of[other] - 1, row_of[one] - 1
    rivals = Dependencies.none(len(transfers)).joined(*np.array(pairs, np.int64).reshape(-1, 2).T)
    turns = Turns(mine, theirs, rivals, ties=False) if pairs else None
    return replace(plan, transfers=replace(transfers, needs=needs), turns=turns)


def _turns(plan: Plan, sent: Numbers) -> Turns | None:
    """Messages that go opposite ways between two ranks and wait for the same: for both ranks to start one batch.

    One that waits for more, as for a batch before its own, is exchanged with none. None where no two are exchanged.
    """
    needs, ops = plan.transfers.needs, plan.ops
    sent = sent[needs.counts[sent] == 2]
    rows = np.stack([needs.event[needs.ptr[sent]], needs.event[needs.ptr[sent] + 1]]).astype(np.int64) - len(ops)
    both = np.flatnonzero(np.all((rows >= 0) & (rows < len(ops)), axis=0))
    sent, rows = sent[both], np.sort(rows[:, both], axis=0)
    low, high = rows  # of the lower rank, and of the other one
    down = plan.routes.src[plan.transfers.route[sent]] == ops.rank[high]
    order = np.lexsort((down, high, low))
    sent, low, high, down = sent[order], low[order], high[order], down[order]
    batch = np.cumsum(np.append(0, (np.diff(low) != 0) | (np.diff(high) != 0))[: len(sent)])
    upwards, downwards = np.bincount(batch[~down], minlength=len(sent)), np.bincount(batch[down], minlength=len(sent))
    first = np.cumsum(upwards + downwards) - upwards - downwards
    count = np.where(down, upwards[batch], downwards[batch])
    if not np.any(count):
        return None
    begin = first[batch] + np.where(down, 0, upwards[batch])
    rivals = sent[np.arange(count.sum()) + np.repeat(begin - np.cumsum(count) + count, count)]
    mine, theirs = np.full((2, len(plan.transfers)), NONE, np.int64)
    takes = count > 0
    mine[sent[takes]] = np.where(down, high, low)[takes]
    theirs[sent[takes]] = np.where(down, low, high)[takes]
    return Turns(mine, theirs, Dependencies.none(len(plan.transfers)).joined(np.repeat(sent, count), rivals))


def _in_flight(plan: Plan) -> Plan:
    """The plan of fused batches where a send is over when it begins to leave, and isn't waited for where it is alone.

    A batch is a send alone between two forwards, or two backwards; the batch behind it waits for no send, either.
    """
    transfers, events, ops = plan.transfers, plan.events, plan.ops
    src, dst = plan.routes.src[transfers.route], plan.routes.dst[transfers.route]
    kind = np.where(ops.kind == Kind.R, Kind.B, ops.kind)  # a recomputation belongs to its backward
    after_same = np.append(False, kind[1:] == kind[:-1])

    def eased(needs: Dependencies, rank: Ints, alone: Flags) -> Dependencies:
        message = needs.event.astype(np.int64) - int(events.arrive(0))
        own = (message >= 0) & (src[np.maximum(message, 0)] == rank[needs.owner])
        event = np.where(own, events.start(message), needs.event)
        keep = ~(own & alone[needs.owner])
        return Dependencies.none(len(needs.ptr) - 1).joined(needs.owner[keep], event[keep])

    if not len(transfers):
        return plan
    received = replace(transfers, needs=eased(transfers.needs, dst, np.ones(len(transfers), bool)))
    return replace(plan, transfers=received, start_needs=eased(plan.start_needs, ops.rank, after_same))


TRANSPORT = Transport(
    _wire,
    {
        "a message begins when its receive is posted, and holds nobody": "gloo's tcp Pair::send writes once the other "
        "side has told that it receives (NOTIFY_RECV_READY), however small it is; sends are waited for at the end",
        "that word comes behind the messages sent the same way before": "a pair of ranks has one TCP connection",
        "of a batch that two ranks exchange the later one's message goes first": "it finds the other's word there and "
        "sends ahead of its own; of two that come at once the lower rank's",
        "a send is over when it begins to leave": "the socket's buffer takes it, up to net.core.wmem_max (often 4 MB); "
        "a batch of a send alone isn't waited for (Schedule1F1B)",
    },
)
