"""Messages that two ranks exchange in turns: those of the rank that starts the batch later go first.

When a message has all that it waits for, its receiver has started; its sender has, or starts later, and is the later
one. So it is known whose turn it is, and what happens later has no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ppsim.ops import NONE, Longs
from ppsim.plan import Plan, Turns


class Taking:
    """Turns while a run goes on; ``end`` are the ends of its ops so far."""

    def __init__(self, turns: Turns, end: Sequence[int | float]) -> None:
        self.end, self.rivals, self.ties = end, turns.rivals, turns.ties
        self.mine: list[int] = turns.mine.tolist()
        self.theirs: list[int] = turns.theirs.tolist()
        self.gone: set[int] = set()
        self.held: dict[int, list[int]] = {}
        """By transfer those that it keeps from going."""
        self.awaits: dict[int, int] = {}
        """How many each of those still has to let go first."""

    def holds(self, transfer: int) -> bool:
        """Whether a transfer whose needs are met has to let others leave first."""
        mine, theirs = self.mine[transfer], self.theirs[transfer]
        if mine == NONE or not self._second(mine, theirs):
            return False
        first = [rival for rival in self.rivals.of(transfer) if rival not in self.gone]
        for rival in first:
            self.held.setdefault(rival, []).append(transfer)
        self.awaits[transfer] = len(first)
        return bool(first)

    def _second(self, mine: int, theirs: int) -> bool:
        since, other = self.end[mine], self.end[theirs]
        return 0 <= since < other or (self.ties and since == other and mine > theirs)

    def left(self, transfer: int) -> list[int]:
        """A transfer has left: the others that may go now."""
        if self.mine[transfer] == NONE:
            return []
        self.gone.add(transfer)
        found = []
        for other in self.held.pop(transfer, ()):
            self.awaits[other] -= 1
            if not self.awaits[other]:
                found.append(other)
        return found


def taken(plan: Plan, end: Longs) -> Plan:
    """The plan with the turns as they were: those that went second wait for those that went first to leave.

    ``end`` are the ends of the ops, negative for those that never ended.
    """
    turns = plan.turns
    if turns is None:
        return plan
    some = np.flatnonzero(turns.mine >= 0)
    mine, theirs = turns.mine[some], turns.theirs[some]
    known = (end[mine] >= 0) & (end[theirs] >= 0)
    second = end[mine] < end[theirs]
    if turns.ties:
        second |= (end[mine] == end[theirs]) & (mine > theirs)
    waits = np.zeros(len(plan.transfers), bool)
    waits[some[known & second]] = True
    which = waits[turns.rivals.owner]
    needs = plan.transfers.needs.joined(
        turns.rivals.owner[which], plan.events.left(turns.rivals.event[which].astype(np.int64))
    )
    return replace(plan, transfers=replace(plan.transfers, needs=needs), turns=None)
