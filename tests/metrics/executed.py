"""Short hands: a Run from a few words, in ns and bytes, and orders written out as text."""

from __future__ import annotations

from typing import Any

from ppsim.analysis.specify import specify
from ppsim.config.experiment import Experiment
from ppsim.engine import run as simulate
from ppsim.metrics import Run, waits
from ppsim.ops import Orders, parse_row
from ppsim.plan import build, check
from ppsim.schedules import Problem, Schedule


class Rows(Schedule):
    """An order written out, a rank per text: stage r on rank r."""

    name: str = "rows"
    rows: tuple[str, ...]

    def orders(self, problem: Problem) -> Orders:
        return Orders.of([parse_row(row.split()) for row in self.rows])


def executed(schedule: Any, ranks: int, microbatches: int, **sections: Any) -> Run:
    """A simulated Run: F = 10 ns and B = 20 ns per stage on free links, unless told otherwise.

    ``costs``, ``pipeline`` add to that; ``link`` (the same between all ranks), ``cluster`` and ``runtime`` replace it.
    At 1 GB/s a byte takes 1 ns.
    """
    costs = {"per": "stage", "forward": "10 ns", "backward": "20 ns", **sections.pop("costs", {})}
    if "input_grad" in costs:
        del costs["backward"]
    pipeline = {"ranks": ranks, "microbatches": microbatches, **sections.pop("pipeline", {})}
    if link := sections.pop("link", None):
        sections["cluster"] = {"ranks_per_node": 1, "inter_node": link}
    experiment = Experiment(schedule=schedule, pipeline=pipeline, costs=costs, **sections)
    problem = experiment.problem()
    orders = experiment.schedule.orders(problem)
    plan = build(check(orders, problem), specify(experiment, problem))
    timeline, _ = simulate(plan, "simpy")
    assert list(timeline.violations()) == []
    return Run(timeline.plan, timeline, problem, frozenset({"dependencies"}))


def causes(run: Run, rank: int) -> dict[str, int]:
    """The rank's idle ns by cause, those that there are."""
    return {name: ns for name, ns in zip(waits.CAUSES, waits.by_cause(run)[rank].tolist(), strict=True) if ns}


def spans(run: Run, rank: int) -> list[tuple[int, int, str, str]]:
    """The rank's idle spans: start, end, cause, the op that waits ('' for none)."""
    found = waits.segments(run)
    return [
        (start, end, waits.CAUSES[cause], str(run.plan.ops[row]) if row >= 0 else "")
        for r, start, end, cause, row in zip(
            found.rank.tolist(), found.start.tolist(), found.end.tolist(), found.cause.tolist(), found.row.tolist(),
            strict=True,
        )
        if r == rank
    ]  # fmt: skip
