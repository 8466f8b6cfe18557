"""A measured run beside a simulated one: errors of the step, of every op's start, and of every rank's idle time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppsim.metrics import Run, waits
from ppsim.metrics.waits import Cause


@dataclass(frozen=True)
class Errors:
    """Simulated less measured, as shares of the measured step; of ops and ranks the largest, without its sign."""

    step: float
    start: float
    fill: float
    drain: float
    other_idle: float


def errors(measured: Run, simulated: Run) -> Errors:
    """Both have the same ops, and both count from the start of their first one."""
    length = measured.timeline.makespan
    fill, drain, other = np.abs(idle(simulated) - idle(measured)).max(axis=0) / length
    start = np.abs(simulated.timeline.start - measured.timeline.start).max() / length
    step = (simulated.timeline.makespan - length) / length
    return Errors(step, float(start), float(fill), float(drain), float(other))


def idle(run: Run) -> NDArray[np.int64]:
    """Idle ns per rank: before its first op, after its last, and all between; shape (ranks, 3)."""
    by_cause = waits.by_cause(run)
    fill, drain = by_cause[:, Cause.FILL], by_cause[:, Cause.DRAIN]
    return np.stack([fill, drain, by_cause.sum(axis=1) - fill - drain], axis=1)


def fitted(makespan_ns: int, simulate: Callable[[int], Run], most_ns: int = 20_000_000) -> int:
    """The ``op_overhead`` in ns with which the simulated step is as long as that: it grows with it."""
    least = 0
    while most_ns - least > 1:
        middle = (least + most_ns) // 2
        if simulate(middle).timeline.makespan < makespan_ns:
            least = middle
        else:
            most_ns = middle
    return most_ns
