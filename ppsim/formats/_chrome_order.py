"""In which order the events of a Chrome trace are written: by time, and within an instant so that a reader can follow.

Readers take the events one after the other: a span of no length has to come before the next one of its thread, and a
flow begins and ends in the span that its thread began last. So a flow begins in the last ns of its span. Where the span
has no length and neither has the message, both ends lie in one instant, and what comes first there is counted out.
Source: how Perfetto's JSON importer binds flows to spans.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ppsim.engine.timeline import Timeline
from ppsim.metrics.memory import Curves
from ppsim.ops import Longs


class What(IntEnum):
    """Sorts of events, in the order in which those of one row and one instant are written."""

    MEMORY = 0
    EGRESS = 1
    INGRESS = 2
    SPAN = 3
    TAKEN = 4
    SENT = 5


@dataclass(frozen=True, eq=False)
class Flow:
    """Messages from op to op: the two rows and the two times of each, in the order of the transfers."""

    sender: Longs
    taker: Longs
    sent: Longs
    taken: Longs

    @classmethod
    def of(cls, timeline: Timeline) -> Flow:
        """The flows of all transfers that an op uses."""
        transfers = timeline.plan.transfers
        used = np.flatnonzero(transfers.consumer >= 0)
        sender, taker = transfers.producer[used].astype(np.int64), transfers.consumer[used].astype(np.int64)
        sent = np.maximum(timeline.end[sender] - 1, timeline.start[sender])
        return cls(sender, taker, sent, timeline.start[taker])


def ordered(timeline: Timeline, flow: Flow, curves: Curves | None) -> tuple[Longs, Longs, Longs]:
    """Sort, number and time of every event, in order: of a span its row, of a flow its place, of others likewise."""
    plan, transfers = timeline.plan, timeline.plan.transfers
    level = _levels(timeline, flow)
    spans = np.flatnonzero(~plan.tail)
    flows = np.arange(len(flow.sender))
    shortest_first = np.empty(len(transfers), np.int64)
    shortest_first[np.argsort(timeline.left, kind="stable")] = np.arange(len(transfers))
    # Of each sort: time, level and place within the instant, number.
    parts = {
        What.SPAN: (timeline.start[spans], level[spans], spans, spans),
        What.TAKEN: (flow.taken, level[flow.taker], flow.taker, flows),
        What.SENT: (flow.sent, level[flow.sender], flow.sender, flows),
    }
    for what, port in ((What.EGRESS, plan.routes.egress), (What.INGRESS, plan.routes.ingress)):
        used = np.flatnonzero(port[transfers.route] >= 0)
        parts[what] = (timeline.transfer_start[used], np.zeros_like(used), shortest_first[used], used)
    if curves is not None:
        rows = np.arange(len(curves.time))
        parts[What.MEMORY] = (curves.time, np.zeros_like(rows), rows, rows)
    time, within, place, number = (np.concatenate([part[c] for part in parts.values()]) for c in range(4))
    what_ = np.repeat(list(parts), [len(part[0]) for part in parts.values()])
    order = np.lexsort((what_, place, within, time))
    return what_[order], number[order], time[order]


def _levels(timeline: Timeline, flow: Flow) -> Longs:
    """How many spans of no length each row comes after within its instant, over messages and on its rank."""
    start, rank = timeline.start, timeline.plan.ops.rank
    level = np.zeros(len(start), np.int64)
    at_once = flow.sent == flow.taken
    if not np.any(at_once):
        return level
    row = np.flatnonzero((rank[1:] == rank[:-1]) & (start[1:] == start[:-1]))
    before = np.concatenate([flow.sender[at_once], row])
    after = np.concatenate([flow.taker[at_once], row + 1])
    while True:
        higher = level.copy()
        np.maximum.at(higher, after, level[before] + 1)
        if np.array_equal(higher, level):
            return level
        level = higher
