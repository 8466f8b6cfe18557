"""Deadlock is an answer: every stuck rank, its op, what that waits for, down to the cycle."""

from __future__ import annotations

import numpy as np

from ppsim.engine.timeline import Recorded
from ppsim.errors import DeadlockError
from ppsim.network.turns import taken
from ppsim.plan.table import Plan

SHOWN = 40


def explain(plan: Plan, times: Recorded) -> DeadlockError:
    """The error for a run in which some ops never ended."""
    plan = taken(plan, times.end)
    state = _State(plan, times)
    stuck = [row for rank in range(plan.ops.ranks) if (row := state.current(rank)) is not None]
    waits = {row: state.blockers(row) for row in stuck}
    lines = [f"  {state.sentence(row, waits[row])}" for row in stuck[:SHOWN]]
    if len(stuck) > SHOWN:
        lines.append(f"  and {len(stuck) - SHOWN} more ranks")
    cycle = state.cycle(stuck, waits)
    head = f"deadlock: {len(stuck)} of {plan.ops.ranks} ranks wait for ever"
    tail = ["the cycle: " + "; ".join(state.sentence(row, waits[row]) for row in cycle)] if cycle else []
    return DeadlockError("\n".join([head, *lines, *tail]))


class _State:
    """What had happened when nothing more could."""

    def __init__(self, plan: Plan, times: Recorded) -> None:
        self.plan, self.start, self.end = plan, times.start, times.end
        sent = times.transfer_start  # what has started has left and arrived by now
        self.happened = np.concatenate([times.start, times.end, sent, sent, sent]) >= 0

    def current(self, rank: int) -> int | None:
        """The row that a rank is stuck at, None if it has finished."""
        rows = self.plan.ops.rows(rank)
        unfinished = np.flatnonzero(self.end[rows.start : rows.stop] < 0)
        return rows.start + int(unfinished[0]) if len(unfinished) else None

    def blockers(self, row: int) -> list[int]:
        """The rows, not yet done, that a stuck row waits for."""
        needs = self.plan.start_needs if self.start[row] < 0 else self.plan.end_needs
        found: list[int] = []
        for event in needs.of(row):
            found += self.causes(event, set())
        return list(dict.fromkeys(found))

    def causes(self, event: int, seen: set[int]) -> list[int]:
        """The rows that keep an event from happening: through a transfer that isn't ready to what that waits for."""
        if event in seen or self.happened[event]:
            return []
        seen.add(event)
        n, t = len(self.plan.ops), len(self.plan.transfers)
        if event < 2 * n:
            return [event % n]
        transfer = (event - 2 * n) % t
        needs = [need for need in self.plan.transfers.needs.of(transfer) if not self.happened[need]]
        return [row for need in needs for row in self.causes(need, seen)]

    def sentence(self, row: int, blockers: list[int]) -> str:
        """'rank 0 at 0B0 waits for 1B0'."""
        plan = self.plan
        shown = ", ".join(
            str(plan.ops[b])
            + (f" (listed later on rank {plan.ops.rank[b]})" if plan.ops.rank[b] == plan.ops.rank[row] else "")
            for b in blockers[:4]
        )
        more = f" and {len(blockers) - 4} more" if len(blockers) > 4 else ""
        return f"rank {plan.ops.rank[row]} at {plan.ops[row]} waits for {shown or 'its turn'}{more}"

    def cycle(self, stuck: list[int], waits: dict[int, list[int]]) -> list[int]:
        """Stuck rows that wait for each other in a circle: each for an op at or after the next one's, on its rank."""
        at = {int(self.plan.ops.rank[row]): row for row in stuck}
        for first in stuck:
            path: list[int] = []
            row: int | None = first
            while row is not None and row not in path:
                path.append(row)
                row = next((at[r] for b in waits[row] if (r := int(self.plan.ops.rank[b])) in at), None)
            if row is not None:
                return path[path.index(row) :]
        return []
