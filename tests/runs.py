"""What a test looks at in a run: when an op ran, what overlaps, an order written down in the test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ppsim.metrics import Run
from ppsim.ops import Ops, Orders, parse_row
from ppsim.ops.placement import Placement, inferred
from ppsim.schedules import Problem, Schedule
from tests.simulated import simulate

MS = 10**6
"""Nanoseconds in the millisecond that tests count in."""


class Listed(Schedule):
    """An order that a test writes down, a row of text per rank; what a rank runs is what it holds."""

    name: str = "listed"
    rows: tuple[str, ...]

    def tables(self) -> list[Ops]:
        """The rows as op tables."""
        return [parse_row(row.replace(",", " ").split()) for row in self.rows]

    def placement(self, ranks: int) -> Placement:
        """As the rows imply."""
        return inferred(table.stage.tolist() for table in self.tables())

    def orders(self, problem: Problem) -> Orders:
        """The rows as they are."""
        return Orders.of(self.tables())


def listed(*rows: str) -> Listed:
    """A schedule from one row of text per rank."""
    return Listed(rows=rows)


def simulated(schedule: Any, pipeline: dict[str, Any], **sections: Any) -> Run:
    """The run of ``simulate``, whose timeline contradicts nothing; ``per: stage``, F=1 ms, B=2 ms by default."""
    pipeline = dict(pipeline)
    ranks, microbatches = pipeline.pop("ranks"), pipeline.pop("microbatches")
    run = simulate(schedule, ranks, microbatches, pipeline=pipeline, **sections).run
    assert list(run.timeline.violations()) == []
    return run


def makespan_ms(run: Run) -> float:
    """Length of the run in ms."""
    return run.timeline.makespan / MS


def row_of(run: Run, op: str) -> int:
    """The row of an op by its text, such as 2F0 or 2F0@1."""
    return next(row for row in range(len(run.plan.ops)) if str(run.plan.ops[row]) == op)


def span_ms(run: Run, op: str) -> tuple[float, float]:
    """(start, end) of an op in ms."""
    row = row_of(run, op)
    return int(run.timeline.start[row]) / MS, int(run.timeline.end[row]) / MS


def most_at_once(spans: Iterable[tuple[int, int]]) -> int:
    """The most of these (since, until) that overlap; at one instant ends count before beginnings."""
    changes = sorted(change for since, until in spans if since < until for change in ((until, -1), (since, 1)))
    level = highest = 0
    for _, change in changes:
        level += change
        highest = max(highest, level)
    return highest


def row(run: Run, rank: int) -> str:
    """The plan's ops of one rank, as text with spaces between them."""
    return " ".join(str(run.plan.ops[i]) for i in run.plan.ops.rows(rank))
