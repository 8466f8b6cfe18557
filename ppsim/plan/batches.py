"""Megatron's batched sends and receives (``p2p: fused``).

Between two computes a rank runs batches. A message is ready when both ranks have started the batch that names it; a
batch is over when all of its messages have arrived, the next batch or compute starts then.
Source: Megatron-LM core, pipeline_parallel/schedules.py and p2p_communication.py (order of calls).
"""

from __future__ import annotations

import numpy as np

from ppsim.ops import Kind
from ppsim.plan.wiring import Index, Wiring

FIRST, SECOND = 0, 1


def wire(wiring: Wiring, data: Index) -> None:
    """Put every message into one batch of its sender and one of its receiver."""
    messages, events = wiring.messages, wiring.events
    interleaved = wiring.schedule.name == "interleaved_1f1b" and wiring.problem.placement.stages > wiring.problem.ranks
    sent = _send_batches(wiring, messages.producer[data], interleaved)
    received = _receive_batches(wiring, messages.receiver[data], interleaved)
    # A batch is a gap (numbered by the row after it; the rank's last gap by the next rank's first row plus rank) and a
    # place in that gap; a message belongs to one batch on each side.
    places = np.concatenate([sent, received])
    message = np.concatenate([data, data])
    gap, place = places // 2, places % 2
    gaps = len(wiring.rows) + wiring.problem.ranks + 1
    for side in (sent, received):
        before = _row_before(wiring, side // 2)
        wiring.sends.add(data[before >= 0], events.end(before[before >= 0]))
    # The second batch of a gap starts when all of its first have arrived.
    first_in = message[place == FIRST]
    order = np.argsort(gap[place == FIRST], kind="stable")
    sorted_gaps, sorted_messages = gap[place == FIRST][order], first_in[order]
    start = np.searchsorted(sorted_gaps, np.arange(gaps))
    count = np.searchsorted(sorted_gaps, np.arange(gaps), side="right") - start
    later = place == SECOND
    repeats = count[gap[later]]
    offset = np.arange(int(repeats.sum())) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    awaited = sorted_messages[np.repeat(start[gap[later]], repeats) + offset]
    wiring.sends.add(np.repeat(message[later], repeats), events.arrive(awaited))
    # The compute after a gap starts when all of its batches are over.
    following = _row_after(wiring, gap)
    wiring.starts.add(following[following >= 0], events.arrive(message[following >= 0]))


def _gap_after(wiring: Wiring, row: Index) -> Index:
    """The number of the gap after a row: its rank's first row's gap is offset + rank."""
    return row + 1 + wiring.rows.rank[row]


def _gap_before(wiring: Wiring, row: Index) -> Index:
    return row + wiring.rows.rank[row]


def _rank_of_gap(wiring: Wiring, gap: Index) -> Index:
    first = wiring.rows.offsets[:-1] + np.arange(wiring.problem.ranks)
    return np.searchsorted(first, gap, side="right") - 1


def _row_before(wiring: Wiring, gap: Index) -> Index:
    rank = _rank_of_gap(wiring, gap)
    row = gap - rank - 1
    return np.where(row >= wiring.rows.offsets[rank], row, -1)


def _row_after(wiring: Wiring, gap: Index) -> Index:
    rank = _rank_of_gap(wiring, gap)
    row = gap - rank
    return np.where(row < wiring.rows.offsets[rank + 1], row, -1)


def _send_batches(wiring: Wiring, producer: Index, interleaved: bool) -> Index:
    """2 · gap + place of the batch that sends each producer's output."""
    rows = wiring.rows
    if not interleaved:
        return 2 * _gap_after(wiring, producer) + FIRST
    # In a pair (F, B) both outputs go after the B.
    steady = _steady_forward(wiring)
    return 2 * _gap_after(wiring, np.where(steady[producer], producer + 1, producer)) + FIRST


def _receive_batches(wiring: Wiring, receiver: Index, interleaved: bool) -> Index:
    """2 · gap + place of the batch that receives each receiver's input."""
    rows = wiring.rows
    steady = _steady_forward(wiring)
    first = rows.offsets[rows.rank[receiver]]
    before = receiver - 1
    if interleaved:
        # The pair's backward gets its input in the batch before the pair's forward; a first receive stands alone.
        second_of_pair = (receiver > first) & steady[np.maximum(before, 0)]
        gap = _gap_before(wiring, np.where(second_of_pair, before, receiver))
        return 2 * gap + FIRST
    # 1F1B: a receive shares the batch of the send before it where one op is a forward and the other a backward;
    # after a warm-up forward and among the remaining backwards it is a batch of its own, after the send's.
    inside = receiver > first
    joins = inside & (rows.kind[np.maximum(before, 0)] != rows.kind[receiver])
    place = np.where(joins | ~inside, FIRST, SECOND)
    return 2 * _gap_before(wiring, receiver) + place


def _steady_forward(wiring: Wiring) -> np.ndarray:
    """Forwards that are followed by a backward on their rank."""
    rows = wiring.rows
    out = np.zeros(len(rows), bool)
    out[:-1] = (rows.kind[:-1] == Kind.F) & (rows.kind[1:] == Kind.B) & (rows.rank[:-1] == rows.rank[1:])
    return out
