"""The rule by which time advances, as slowly as it is written down: every nanosecond, everything is looked at again.

It shares the Plan with the engines (what waits for what) and nothing else: no heap, no queues, no notion of which port
or rank a change could matter to.
"""

from __future__ import annotations

from collections.abc import Iterable

from ppsim.plan import Plan

Columns = tuple[list[int], list[int], list[int], list[int]]
NOT_YET = -1


class Stepwise:
    """A plan being run; ``happened`` are the events so far."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.n, self.t = len(plan.ops), len(plan.transfers)
        self.start, self.end = [NOT_YET] * self.n, [NOT_YET] * self.n
        self.ready, self.begun = [NOT_YET] * self.t, [NOT_YET] * self.t
        self.happened: set[int] = set()
        self.now = 0

    def run(self) -> Columns:
        """Start and end of every op, ready and start of every transfer; -1 for what never happens."""
        self.instant()
        while self.in_progress():
            self.now += 1
            self.instant()
        return self.start, self.end, self.ready, self.begun

    def in_progress(self) -> bool:
        """Whether time alone will bring anything about."""
        running = any(s != NOT_YET and self.now < s + d for s, d in zip(self.start, self.plan.duration, strict=True))
        carried = any(
            b != NOT_YET and 2 * self.n + 2 * self.t + j not in self.happened for j, b in enumerate(self.begun)
        )
        return running or carried

    def instant(self) -> None:
        """(1) and (2) until nothing changes, then (3); all over again while a transfer of no time started."""
        while True:
            while self.ends_leaves_arrives() or self.becomes_ready() or self.ops_start():
                pass
            if not self.one_pass():
                return

    def met(self, needs: Iterable[int]) -> bool:
        return all(need in self.happened for need in needs)

    def happens(self, event: int) -> bool:
        """Record it; whether that is news."""
        news = event not in self.happened
        self.happened.add(event)
        return news

    def ends_leaves_arrives(self) -> bool:
        plan, n, t, news = self.plan, self.n, self.t, False
        for op in range(n):
            over = self.start[op] != NOT_YET and self.start[op] + plan.duration[op] <= self.now
            if over and self.end[op] == NOT_YET and self.met(plan.end_needs.of(op)):
                self.end[op] = self.now
                news |= self.happens(n + op)
        for j in range(t):
            if self.begun[j] != NOT_YET:
                route = plan.transfers.route[j]
                left = self.begun[j] + plan.routes.occupancy[route]
                if left <= self.now:
                    news |= self.happens(2 * n + t + j)
                if left + plan.routes.latency[route] <= self.now:
                    news |= self.happens(2 * n + 2 * t + j)
        return news

    def becomes_ready(self) -> bool:
        """Transfers whose needs are met; those without ports are on their way at once."""
        news = False
        for j in range(self.t):
            if self.ready[j] == NOT_YET and self.met(self.plan.transfers.needs.of(j)) and self.is_its_turn(j):
                self.ready[j] = self.now
                news = True
                if not self.ports(j):
                    self.begin(j)
        return news

    def is_its_turn(self, j: int) -> bool:
        """Of a batch that two ranks exchange the messages of the later one go first, of two that are equal the lower's."""
        turns = self.plan.turns
        if turns is None or turns.mine[j] == NOT_YET:
            return True
        mine, theirs = int(turns.mine[j]), int(turns.theirs[j])
        lower = self.plan.ops.rank[mine] < self.plan.ops.rank[theirs]
        if self.end[mine] == NOT_YET or self.end[mine] > self.end[theirs]:
            return True
        if self.end[mine] == self.end[theirs] and (lower or not turns.ties):
            return True
        return self.met(2 * self.n + self.t + rival for rival in turns.rivals.of(j))

    def ops_start(self) -> bool:
        news = False
        for rank in range(self.plan.ops.ranks):
            before = None
            for op in self.plan.ops.rows(rank):
                free = before is None or self.end[before] != NOT_YET
                if free and self.start[op] == NOT_YET and self.met(self.plan.start_needs.of(op)):
                    self.start[op] = self.now
                    news |= self.happens(op)
                before = op
        return news

    def one_pass(self) -> bool:
        """The waiting transfers, in their order, each starting if its ports are free; whether one took no time."""
        plan = self.plan
        taken = {
            port
            for j in range(self.t)
            if self.begun[j] != NOT_YET and 2 * self.n + self.t + j not in self.happened
            for port in self.ports(j)
        }
        waiting = [j for j in range(self.t) if self.ready[j] != NOT_YET and self.begun[j] == NOT_YET]

        def turn(j: int) -> tuple[int, int, int, int]:
            row = int(plan.transfers.issuer[j])
            return self.ready[j], int(plan.ops.rank[row]), row - int(plan.ops.offsets[plan.ops.rank[row]]), j

        again = False
        for j in sorted(waiting, key=turn):
            if not self.ports(j) & taken:
                self.begin(j)
                taken |= self.ports(j)
                again |= plan.routes.occupancy[plan.transfers.route[j]] == 0
        return again

    def begin(self, j: int) -> None:
        self.begun[j] = self.now
        self.happens(2 * self.n + j)

    def ports(self, j: int) -> set[int]:
        route = self.plan.transfers.route[j]
        return {int(self.plan.routes.egress[route]), int(self.plan.routes.ingress[route])} - {-1}
