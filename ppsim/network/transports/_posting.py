"""When receives are posted that a framework posts as early as their senders' order allows."""

from __future__ import annotations

from collections import deque

import numpy as np

from ppsim.ops import NONE, Longs, Numbers
from ppsim.plan import Plan


def posted_early(plan: Plan, sent: Numbers) -> tuple[Longs, Longs]:
    """For each of these messages the last op that its receiver lists before the receive, and the last message that it
    sends to the same rank before that (-1: none).

    The ranks take turns, rank 0 first. In its turn a rank takes its next op (a fused pair is one) if its inputs have
    been received; SENDs of the outputs go behind it and, at the same moment, RECVs to the ends of their receivers'
    lists. Each step is a list of its own. Where no rank can go on, the run will stop there, too.
    Source: the behaviour of torch.distributed.pipelining (_add_send_recv) in PyTorch 2.13.
    """
    transfers, routes, ops = plan.transfers, plan.routes, plan.ops
    src, dst = routes.src[transfers.route].tolist(), routes.dst[transfers.route].tolist()
    outputs: dict[int, list[int]] = {}
    inputs: dict[int, list[int]] = {}
    for transfer in sent.tolist():
        outputs.setdefault(int(transfers.producer[transfer]), []).append(transfer)
        inputs.setdefault(int(transfers.consumer[transfer]), []).append(transfer)
    before, earlier = np.full((2, len(transfers)), NONE, np.int64)
    there: set[int] = set()
    latest = [NONE] * ops.ranks
    last_sent: dict[tuple[int, int], int] = {}
    for step in _steps(plan):
        moved = True
        while moved:
            moved = False
            for rank, units in enumerate(step):
                if not units or not all(there.issuperset(inputs.get(row, ())) for row in units[0]):
                    continue
                moved = True
                unit = units.popleft()
                latest[rank] = unit[-1]
                for transfer in (made for row in unit for made in outputs.get(row, ())):
                    there.add(transfer)
                    last_sent[rank, dst[transfer]] = transfer
                    before[transfer] = latest[dst[transfer]]
                    earlier[transfer] = last_sent.get((dst[transfer], src[transfer]), NONE)
    return before[sent], earlier[sent]


def _steps(plan: Plan) -> list[list[deque[tuple[int, ...]]]]:
    """By step and rank the ops in their order, the two of a fused pair together."""
    ops = plan.ops
    number, group = np.asarray(ops.step).tolist(), np.asarray(ops.group).tolist()
    found: list[list[deque[tuple[int, ...]]]] = [
        [deque() for _ in range(ops.ranks)] for _ in range(max(number, default=-1) + 1)
    ]
    for rank in range(ops.ranks):
        for row in ops.rows(rank):
            units = found[number[row]][rank]
            if units and group[row] != NONE and group[units[-1][-1]] == group[row]:
                units.append((*units.pop(), row))
            else:
                units.append((row,))
    return found
