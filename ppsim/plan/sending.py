"""Send modes: when a message is ready, and whom it holds until it has left or arrived."""

from __future__ import annotations

import numpy as np

from ppsim.ops import COMMUNICATION, MOVES, NONE, Kind, Numbers, OpTable
from ppsim.plan import batches
from ppsim.plan.sizes import message_sizes
from ppsim.plan.spec import Sending
from ppsim.plan.table import Routes
from ppsim.plan.wiring import Wiring


def wire(wiring: Wiring) -> None:
    """Readiness of every message between ranks, and what it holds."""
    messages, ops = wiring.messages, wiring.ops
    data = messages.data(ops)
    if len(ops.index.select(*COMMUNICATION)):
        _listed(wiring, data)
    elif wiring.spec.sending.batch_warmup is not None:
        batches.wire(wiring, data)
    else:
        _implied(wiring, data)


def leave_at_once(ops: OpTable, routes: Routes, sending: Sending) -> bool:
    """Whether every message has left when its producer ends: nothing else is waited for, and no link has ports."""
    listed = ops.index.has(*COMMUNICATION, Kind.REDUCE_GRAD, *MOVES)
    waits = listed or sending.mode == "rendezvous" or sending.batch_warmup is not None or sending.transport is not None
    return not waits and bool(np.all(routes.egress == NONE)) and not routes.occupancy.any()


def _needs_receiver(wiring: Wiring, data: Numbers) -> Numbers:
    """Those messages that rendezvous."""
    sending = wiring.spec.sending
    if sending.mode != "rendezvous":
        return data[:0]
    if sending.eager_bytes is None:
        return data
    return data[np.flatnonzero(message_sizes(wiring.messages, wiring.ops, wiring.spec)[data] > sending.eager_bytes)]


def _implied(wiring: Wiring, data: Numbers) -> None:
    """Orders of compute ops alone: the output is sent when its producer ends."""
    messages, events = wiring.messages, wiring.events
    sent = messages.some(data)
    wiring.starts.add(wiring.heads(sent.receiver), events.arrive(data))
    wiring.sends.add(data, events.end(sent.producer))
    if len(met := _needs_receiver(wiring, data)):
        before = wiring.previous(wiring.heads(messages.receiver[met]))
        wiring.sends.add(met[before >= 0], events.end(before[before >= 0]))
    if wiring.spec.sending.mode == "blocking":
        held = wiring.following(sent.producer)
        wiring.starts.add(held[held >= 0], events.left(data[held >= 0]))


def _listed(wiring: Wiring, data: Numbers) -> None:
    """Orders with SEND and RECV: a message is ready at its SEND; its RECV ends when it arrives."""
    messages, events = wiring.messages, wiring.events
    issuer, receiver = messages.issuer[data], messages.receiver[data]
    wiring.sends.add(data, events.begin(issuer))
    wiring.after_row(issuer, messages.producer[data])
    wiring.ends.add(receiver, events.arrive(data))
    wiring.after_row(messages.consumer[data], receiver)
    met = _needs_receiver(wiring, data)
    wiring.sends.add(met, events.begin(messages.receiver[met]))
    waits = data if wiring.spec.sending.mode == "blocking" else met
    wiring.ends.add(messages.issuer[waits], events.left(waits))
