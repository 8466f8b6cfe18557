"""What PyTorch over gloo does with messages, in ppsim's terms, and what takes a change of the Plan.

- gloo's tcp ``Pair::send`` writes a message only when the other side has told (``NOTIFY_RECV_READY``) that it has posted
  its receive, however small the message is: ``send: rendezvous``. Sends hold nobody: GPipe waits for its sends at the
  end of a phase, the runtime of multi-stage schedules at the end of the step. GPipe posts a receive when it needs it,
  which is all that rendezvous says.
- The runtime of multi-stage schedules (``_PipelineScheduleRuntime``) posts receives where its lowered order has them,
  and waits for them when it needs them: ``receives_posted``. The word that one is posted goes the way of the data, in
  one TCP connection per pair of ranks, so that it comes behind the messages that the rank has sent to the same rank.
- ``Schedule1F1B`` waits for batches of a forward's send and a backward's receive, and back: ``p2p: fused``. Of two ranks
  that meet in a batch the later one has its message ahead of its word, so that the other's begins when that has left:
  the two directions of a pair take turns (``taking_turns``). Links that carry control messages beside the data, such
  as NCCL's, have no such turns. A send is over when the socket has all of it, which is as soon as it begins to leave
  (gloo asks for a send buffer as large as the message and gets up to ``net.core.wmem_max``: 4 MB where the table was
  made; of a larger message the rest would be waited for). Batches of a send alone, in the warm-up and among the last
  backwards, are not waited for at all (``sends_in_flight``); Megatron's are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppsim import engine
from ppsim.formats import comms
from ppsim.metrics import Run
from ppsim.ops import COMPUTE, Ints, Kind, Op, Orders, from_ops
from ppsim.plan import Dependencies
from ppsim.plan.table import Plan
from tests.real.cases import MULTI_STAGE, Case, simulated

RECV = {Kind.F: (Kind.RECV_F, 1), Kind.B: (Kind.RECV_B, -1), Kind.I: (Kind.RECV_B, -1)}
"""By the kind of a message's producer: the kind of its RECV and how much higher its stage is."""


def over_gloo(case: Case, op_overhead_ns: int, cluster: dict[str, Any]) -> Run:
    """The run over links, as PyTorch and gloo send."""
    if case.schedule == "1f1b":
        fused = simulated(case, op_overhead_ns, cluster=cluster, runtime={"p2p": "fused"})
        return _again(lambda plan: taking_turns(sends_in_flight(plan)), fused)
    if case.schedule in MULTI_STAGE:
        return _again(receives_posted, simulated(case, op_overhead_ns, cluster=cluster))
    return simulated(case, op_overhead_ns, cluster=cluster, runtime={"send": "rendezvous"})


def _again(change: Callable[[Plan], Plan], run: Run) -> Run:
    timeline, _ = engine.run(change(run.plan))
    return Run(timeline.plan, timeline, run.problem, run.knows)


def taking_turns(plan: Plan) -> Plan:
    """The plan where of two messages that a batch exchanges the one of the later rank goes first.

    Who is later depends on the times, and the times on that: until it no longer changes, but not for ever.
    """
    ended, exchanged = plan.events.end(plan.transfers.producer), _exchanged(plan)
    first: set[tuple[int, int]] = set()
    for _ in range(len(exchanged) + 1):
        turned = _with_needs(plan, {b: [int(plan.events.left(a))] for a, b in first})
        times = engine.run(turned)[0].times[ended]
        now = {(a, b) if times[a] > times[b] else (b, a) for a, b in exchanged}
        if now == first:
            break
        first = now
    return turned


def _exchanged(plan: Plan) -> list[tuple[int, int]]:
    """Pairs of messages that each wait for the other's producer."""
    ended = plan.events.end(plan.transfers.producer).tolist()
    of_end = {event: index for index, event in enumerate(ended)}
    waits = {
        (index, of_end[event])
        for index in range(len(ended))
        for event in plan.transfers.needs.of(index)
        if event in of_end and of_end[event] != index
    }
    return sorted((a, b) for a, b in waits if a < b and (b, a) in waits)


def _with_needs(plan: Plan, more: Mapping[int, Sequence[int]]) -> Plan:
    """The plan whose messages wait for more events, by the message's number."""
    needs = plan.transfers.needs
    lists = [[*needs.of(index), *more.get(index, ())] for index in range(len(plan.transfers))]
    ptr, event = np.cumsum([0, *map(len, lists)]), np.array(list(chain.from_iterable(lists)), np.int64)
    return replace(plan, transfers=replace(plan.transfers, needs=Dependencies(ptr, event)))


def sends_in_flight(plan: Plan) -> Plan:
    """The plan of fused batches where a rank doesn't wait until what it sends has arrived, but until it begins to leave.

    Between two forwards, or two backwards, where a batch is a send alone, it doesn't wait for that, either.
    """
    transfers, events = plan.transfers, plan.events
    src, dst = plan.routes.src[transfers.route], plan.routes.dst[transfers.route]
    after_same = np.append(False, plan.ops.kind[1:] == plan.ops.kind[:-1])

    def eased(needs: Dependencies, rank: Ints, alone: NDArray[np.bool_]) -> Dependencies:
        message = needs.event - events.arrive(0)
        own = (message >= 0) & (src[np.maximum(message, 0)] == rank[needs.owner])
        event = np.where(own, events.start(message), needs.event)
        keep = ~(own & alone[needs.owner])
        counts = np.bincount(needs.owner[keep], minlength=len(needs.ptr) - 1)
        return Dependencies(np.append(0, np.cumsum(counts)), event[keep])

    # A batch that follows another one in the same gap follows a send alone.
    received = replace(transfers, needs=eased(transfers.needs, dst, np.ones(len(transfers), bool)))
    return replace(plan, transfers=received, start_needs=eased(plan.start_needs, plan.ops.rank, after_same))


def receives_posted(plan: Plan) -> Plan:
    """The plan where a message waits for its receive: the op before it has ended, the send before it has left."""
    transfers, events = plan.transfers, plan.events
    of_producer = {plan.ops[row]: index for index, row in enumerate(transfers.producer.tolist())}
    message_of = {_receive(plan.ops[row]): index for index, row in enumerate(transfers.producer.tolist())}
    more: dict[int, list[int]] = defaultdict(list)
    for rank, table in enumerate(comms.early_receives(_orders(plan))):
        rows = iter(plan.ops.rows(rank))
        sent: dict[int, int] = {}  # the last message to each rank
        before = -1
        for op in table:
            if op.kind in COMPUTE:
                before = next(rows)
                if (index := of_producer.get(op)) is not None:
                    sent[int(plan.routes.dst[transfers.route[index]])] = index
            elif (index := message_of.get(op)) is not None:
                if before >= 0:
                    more[index].append(int(events.end(before)))
                if (earlier := sent.get(int(plan.routes.src[transfers.route[index]]))) is not None:
                    more[index].append(int(events.left(earlier)))
    return _with_needs(plan, more)


def _receive(op: Op) -> Op:
    """The RECV of an op's output."""
    kind, higher = RECV[op.kind]
    return Op(kind, op.stage + higher, op.microbatch)


def _orders(plan: Plan) -> Orders:
    return Orders.of([from_ops(plan.ops[row] for row in plan.ops.rows(rank)) for rank in range(plan.ops.ranks)])
