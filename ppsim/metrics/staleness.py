"""Weight versions and staleness of asynchronous schedules."""

from __future__ import annotations

from ppsim.metrics.base import Run
from ppsim.plan.table import Longs


def weight_versions(run: Run) -> Longs | None:
    """Most weight versions at once per rank; None where the schedule flushes."""
    return None


def staleness(run: Run) -> Longs | None:
    """Most updates between a forward's weights and its backward, per rank; None where the schedule flushes."""
    return None
