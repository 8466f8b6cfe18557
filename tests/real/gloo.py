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
  as NCCL's, have no such turns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ppsim import engine
from ppsim.formats import comms
from ppsim.metrics import Run
from ppsim.ops import COMPUTE, Kind, Op, Orders
from ppsim.plan.table import Needs, Plan
from tests.real.cases import MULTI_STAGE, Case, simulated

RECV = {Kind.F: (Kind.RECV_F, 1), Kind.B: (Kind.RECV_B, -1), Kind.I: (Kind.RECV_B, -1)}
"""By the kind of a message's producer: the kind of its RECV and how much higher its stage is."""


def over_gloo(case: Case, op_overhead_ns: int, cluster: dict[str, Any]) -> Run:
    """The run over links, as PyTorch and gloo send."""
    if case.schedule == "1f1b":
        return _again(taking_turns, simulated(case, op_overhead_ns, cluster=cluster, runtime={"p2p": "fused"}))
    if case.schedule in MULTI_STAGE:
        return _again(receives_posted, simulated(case, op_overhead_ns, cluster=cluster))
    return simulated(case, op_overhead_ns, cluster=cluster, runtime={"send": "rendezvous"})


def _again(change: Any, run: Run) -> Run:
    timeline, _ = engine.run(change(run.plan))
    return Run(timeline.plan, timeline, run.problem, run.knows)


def taking_turns(plan: Plan) -> Plan:
    """The plan where two ranks send to each other one at a time, through one port of their own."""
    pair = np.minimum(plan.routes.src, plan.routes.dst).astype(np.int32)
    return replace(plan, routes=replace(plan.routes, egress=pair, ingress=pair))


def receives_posted(plan: Plan) -> Plan:
    """The plan where a message waits for its receive: the op before it has ended, the send before it has left."""
    transfers, events = plan.transfers, plan.events
    of_producer = {plan.op(row): index for index, row in enumerate(transfers.producer.tolist())}
    message_of = {_receive(plan.op(row)): index for index, row in enumerate(transfers.producer.tolist())}
    needs = [transfers.needs.of(index) for index in range(len(transfers))]
    for rank, table in enumerate(comms.early_receives(_orders(plan))):
        rows = iter(plan.rows(rank))
        sent: dict[int, int] = {}  # the last message to each rank
        before = -1
        for op in table:
            if op.kind in COMPUTE:
                before = next(rows)
                if (index := of_producer.get(op)) is not None:
                    sent[int(plan.routes.dst[transfers.route[index]])] = index
            elif (index := message_of.get(op)) is not None:
                if before >= 0:
                    needs[index].append(int(events.end(before)))
                if (earlier := sent.get(int(plan.routes.src[transfers.route[index]]))) is not None:
                    needs[index].append(int(events.left(earlier)))
    ptr = np.cumsum([0, *map(len, needs)])
    return replace(plan, transfers=replace(transfers, needs=Needs(ptr, np.array(sum(needs, []), np.int64))))


def _receive(op: Op) -> Op:
    """The RECV of an op's output."""
    kind, higher = RECV[op.kind]
    return Op(kind, op.stage + higher, op.microbatch)


def _orders(plan: Plan) -> Orders:
    from ppsim.ops import from_ops

    return Orders.of([from_ops(plan.op(row) for row in plan.rows(rank)) for rank in range(plan.ranks)])
