"""What was measured as a Run: the times of ops and where they ran, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ppsim.engine.timeline import Timeline
from ppsim.metrics import Run
from ppsim.plan import Dependencies
from ppsim.plan.table import Plan, Transfers

Rows = Sequence[tuple[str, int, int]]
"""Ops of a rank in the order in which they ran, each with its start and end in ns."""


def measured_run(plan: Plan, found: Sequence[Rows]) -> Run:
    """A Run whose ops are the plan's and whose times are those found on each rank, from the first start on.

    It knows no transfers, no dependencies, no memory. Raises ValueError where a rank ran other ops than planned.
    """
    for rank, rows in enumerate(found):
        planned = [str(plan.ops[row]) for row in plan.ops.rows(rank)]
        if planned != [op for op, _, _ in rows]:
            raise ValueError(f"rank {rank} ran {' '.join(op for op, _, _ in rows)}, planned was {' '.join(planned)}")
    start, end = (np.array([row[column] for rows in found for row in rows], np.int64) for column in (1, 2))
    nothing = np.empty(0, np.int64)
    none = Dependencies.none(len(plan.ops))
    partial = replace(
        plan,
        duration=end - start,
        start_needs=none,
        end_needs=none,
        transfers=Transfers(*[nothing.astype(np.int32)] * 4, Dependencies.none(0)),
    )
    zero = start.min()
    return Run(partial, Timeline(partial, start - zero, end - zero, nothing, nothing))
