"""What an op of weight 1 takes on every stage, be it on several ranks."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ppsim.costs.base import per_value
from ppsim.metrics.base import Run, metric


def _per_row(run: Run, seconds: Sequence[Fraction]) -> list[float]:
    """A value per stage and rank that holds it."""
    values = per_value(seconds, float)
    return [values[stage] for stage, ranks in enumerate(run.plan.placement.ranks_of) for _ in ranks]


@metric(scope="stage", unit="s", definition="time of one forward, of weight 1 at speed 1", needs=("costs",))
def forward_s(run: Run) -> list[float] | None:
    """Forward of every stage."""
    return None if run.problem is None else _per_row(run, run.problem.costs.forward)


@metric(scope="stage", unit="s", definition="time of one full backward, of weight 1 at speed 1", needs=("costs",))
def backward_s(run: Run) -> list[float] | None:
    """Backward of every stage, both halves."""
    return None if run.problem is None else _per_row(run, run.problem.costs.backward)
