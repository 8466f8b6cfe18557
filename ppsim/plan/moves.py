"""EVICT and LOAD: an activation to and from another rank."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ppsim.ops import MOVES, NONE, Constant, Kind, Numbers, OpTable, among
from ppsim.plan.messages import Messages
from ppsim.plan.wiring import Wiring


def move_messages(ops: OpTable) -> Iterator[Messages]:
    """A message per move, of what the forward holds: from the rank to its peer (EVICT), or back (LOAD)."""
    moves = ops.index.select(*MOVES)
    if not len(moves):
        return
    evict = ops.kind[moves] == Kind.EVICT
    here, there = ops.rank[moves], ops.peer[moves]
    backward = ops.index.lookup(Kind.B, Kind.I)[ops.index.key[moves]]
    yield Messages(
        stage=ops.stage[moves],
        producer=moves,
        issuer=moves,
        receiver=np.full(len(moves), -1, np.int64),
        consumer=np.where(evict, -1, backward),
        src=np.where(evict, here, there).astype(np.int32),
        dst=np.where(evict, there, here).astype(np.int32),
        bucket=Constant(np.int64(NONE), len(moves)),
    )


def wire(wiring: Wiring, after: tuple[OpTable, OpTable] | None) -> None:
    """A move is issued when the op before it has ended; LOAD waits for its EVICT, the backward (and its R) for LOAD."""
    ops, messages, events = wiring.ops, wiring.messages, wiring.events
    if after is None and not ops.index.has(*MOVES):
        return
    move = np.flatnonzero(among(ops.kind[messages.issuer], MOVES))
    message_of = np.full(len(ops), -1, np.int64)
    message_of[messages.issuer[move]] = move
    if len(move):
        issuer = messages.issuer[move]
        wiring.sends.add(move, events.end(issuer))
        load = ops.kind[issuer] == Kind.LOAD
        evicted = ops.index.lookup(Kind.EVICT)[ops.index.key[issuer[load]]]
        wiring.sends.add(move[load], events.arrive(message_of[evicted]))
        consumer = messages.consumer[move[load]]
        again = ops.index.lookup(Kind.R)[ops.index.key[consumer]]
        wiring.starts.add(wiring.head[np.where(again >= 0, again, consumer)], events.arrive(move[load]))
        forward = ops.index.lookup(Kind.F)[ops.index.key[issuer]]
        late = forward > issuer
        wiring.sends.add(move[late], events.end(forward[late]))
    if after is not None:
        _conditions(wiring, after, message_of)


def _conditions(wiring: Wiring, after: tuple[OpTable, OpTable], message_of: Numbers) -> None:
    """The order's own conditions, in every step: op i of the first table waits until op i of the second is done."""
    ops, events = wiring.ops, wiring.events
    for step in range(wiring.spec.steps):
        waiting, awaited = (_find(ops, table, step * wiring.spec.problem.microbatches) for table in after)
        moved = message_of[awaited] >= 0
        done = np.where(moved, events.arrive(message_of[awaited]), events.end(awaited))
        by_move = message_of[waiting] >= 0
        wiring.sends.add(message_of[waiting[by_move]], done[by_move])
        wiring.starts.add(wiring.head[waiting[~by_move & moved]], done[~by_move & moved])
        plain = ~by_move & ~moved
        wiring.after_row(waiting[plain], awaited[plain])


def _find(ops: OpTable, table: OpTable, first_unit: int) -> Numbers:
    """The rows of these ops in the step that begins with that unit."""
    found = np.full(len(table), -1, np.int64)
    for kind in np.unique(table.kind):
        these = table.kind == kind
        key = table.stage[these].astype(np.int64) * ops.index.units + table.microbatch[these] + first_unit
        found[these] = ops.index.lookup(Kind(int(kind)))[key]
    return found
