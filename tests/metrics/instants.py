"""A second opinion on why ranks are idle: one nanosecond at a time, in plain Python, from the words of the rules.

It shares nothing with ``ppsim.metrics.waits`` but the plan and the timeline.
"""

from __future__ import annotations

from collections.abc import Iterator

from ppsim.metrics import Run
from ppsim.ops import Kind

MESSAGES = (Kind.F, Kind.B, Kind.I)
MOVES = (Kind.EVICT, Kind.LOAD)
NEVER_FIRST_OR_LAST = (Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B, *MOVES)
NEVER_BUSY = (*NEVER_FIRST_OR_LAST, Kind.REDUCE_GRAD)


class Instants:
    """The cause of every idle nanosecond of a run; ``fused``: its messages travel in batches."""

    def __init__(self, run: Run, fused: bool) -> None:
        plan, line = run.plan, run.timeline
        self.n, self.t = len(plan.ops), len(plan.transfers)
        self.plan, self.makespan = plan, line.makespan
        self.start, self.end = line.start.tolist(), line.end.tolist()
        self.took, self.left, self.arrive = line.transfer_start.tolist(), line.left.tolist(), line.arrive.tolist()
        self.kind = [Kind(k) for k in plan.ops.kind.tolist()]
        self.step = plan.ops.step.tolist() if plan.barrier and not plan.asynchronous else [0] * self.n
        self.tail = plan.tail.tolist()
        self.fused = fused

    def causes(self, rank: int) -> list[str]:
        """Of every nanosecond: '' where the rank is busy, else why it isn't."""
        return [self.cause(rank, now) for now in range(self.makespan)]

    def cause(self, rank: int, now: int) -> str:
        rows = [row for row in self.plan.ops.rows(rank) if not self.tail[row]]
        if any(self.start[row] <= now < self.end[row] and self.kind[row] not in NEVER_BUSY for row in rows):
            return ""
        step = sum(now >= self.step_end(step) for step in range(max(self.step)))
        window = [row for row in rows if self.step[row] == step and self.kind[row] not in NEVER_FIRST_OR_LAST]
        if now < self.start[window[0]]:
            return "fill"
        if now >= self.end[window[-1]]:
            return "drain"
        at = next(row for row in rows if self.end[row] > now)
        needs = self.plan.start_needs if self.start[at] > now else self.plan.end_needs
        return self.explain(rank, needs.of(at), now)

    def step_end(self, step: int) -> int:
        return max(end for end, s in zip(self.end, self.step, strict=True) if s == step)

    def explain(self, rank: int, needs: list[int], now: int) -> str:
        """Why the rank waits now for these needs."""
        if self.fused:
            # Only what the batch that the rank is in brings; a message of a second batch waits for one of the first.
            second = [event for event in needs if self.received(rank, event) and self.waits_for_a_message(event)]
            first = [event for event in needs if event not in second]
            needs = second if second and all(self.time(event) <= now for event in first) else first
        for event in needs:
            transfer = self.transfer(event)
            if transfer is None or now >= self.left[transfer] or not self.is_message(transfer):
                continue
            if event < 2 * self.n + 2 * self.t or self.sender(transfer) == rank:
                return "blocked"
        last = max(needs, key=lambda event: (self.time(event), self.precedence(event)))
        transfer = self.transfer(last)
        if transfer is None:
            assert int(self.plan.ops.rank[last - self.n]) != rank
            return "upstream"
        if not self.is_message(transfer):
            return "memory" if self.producer_kind(transfer) in MOVES else "sync"
        if now >= self.took[transfer]:
            return "transfer"
        return "queue" if all(now >= self.time(e) for e in self.plan.transfers.needs.of(transfer)) else "upstream"

    def received(self, rank: int, event: int) -> bool:
        transfer = self.transfer(event)
        return transfer is not None and self.is_message(transfer) and self.sender(transfer) != rank

    def waits_for_a_message(self, event: int) -> bool:
        needs = self.plan.transfers.needs.of(self.transfer(event) or 0)
        return any(
            need >= 2 * self.n + 2 * self.t and self.is_message(need - 2 * self.n - 2 * self.t) for need in needs
        )

    def transfer(self, event: int) -> int | None:
        return None if event < 2 * self.n else (event - 2 * self.n) % self.t

    def producer_kind(self, transfer: int) -> Kind:
        return self.kind[int(self.plan.transfers.producer[transfer])]

    def is_message(self, transfer: int) -> bool:
        return self.producer_kind(transfer) in MESSAGES

    def sender(self, transfer: int) -> int:
        return int(self.plan.routes.src[self.plan.transfers.route[transfer]])

    def time(self, event: int) -> int:
        """When an op begins or ends, a transfer leaves or arrives."""
        transfer = self.transfer(event)
        if transfer is None:
            return self.start[event] if event < self.n else self.end[event - self.n]
        return self.arrive[transfer] if event >= 2 * self.n + 2 * self.t else self.left[transfer]

    def precedence(self, event: int) -> int:
        """Of inputs that arrive at once: a forward's message, a backward's, an op, a move, a bucket."""
        transfer = self.transfer(event)
        if transfer is None:
            return 2
        kind = self.producer_kind(transfer)
        return 4 if kind == Kind.F else 3 if kind in MESSAGES else 1 if kind in MOVES else 0


def runs(causes: list[str]) -> Iterator[tuple[int, int, str]]:
    """Start, end and cause of each stretch of equal causes, those of busy time left out."""
    start = 0
    for now in range(1, len(causes) + 1):
        if now == len(causes) or causes[now] != causes[start]:
            if causes[start]:
                yield start, now, causes[start]
            start = now
