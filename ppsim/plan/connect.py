"""What is sent and who waits for whom: data dependencies, the messages that carry them, what else holds an op back."""

from __future__ import annotations

import numpy as np

from ppsim.ops import Kind, Numbers, OpTable
from ppsim.plan import boundary, moves, sending
from ppsim.plan.messages import Messages, between_stages
from ppsim.plan.spec import PlanSpec
from ppsim.plan.wiring import Wiring


def connect(ops: OpTable, pairs: Numbers, after: tuple[OpTable, OpTable] | None, spec: PlanSpec) -> Wiring:
    """All messages and dependencies; ``after`` are the orders' own conditions."""
    messages, takers, inside = between_stages(ops, spec)
    messages = Messages.join(messages, *boundary.sync_messages(ops, spec), *moves.move_messages(ops))
    wiring = Wiring(ops, pairs, messages, spec)
    wiring.after_row(takers, inside)
    if len(pairs):  # else a rank's own order, which has been checked, sees to them
        _own_dependencies(wiring)
    sending.wire(wiring)
    boundary.wire(wiring)
    moves.wire(wiring, after)
    return wiring


def _own_dependencies(wiring: Wiring) -> None:
    """B or I needs its own F (its R where there is one), W its I, R its F; late R needs its gradient, too."""
    index = wiring.ops.index
    backward = (Kind.B, Kind.I)
    for late, early in ((backward, (Kind.F,)), ((Kind.W,), (Kind.I,)), ((Kind.R,), (Kind.F,)), (backward, (Kind.R,))):
        if index.has(*late) and index.has(*early):
            waiting, awaited = index.lookup(*late), index.lookup(*early)
            both = np.flatnonzero((waiting >= 0) & (awaited >= 0))
            wiring.after_row(waiting[both], awaited[both])
