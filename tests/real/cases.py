"""What is run, for real and simulated: a schedule, its sizes and the times of its stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import ppsim
from ppsim import engine
from ppsim.metrics import Run
from tests.simulated import simulate

TORCH = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "looped_bfs": "LoopedBFS",
    "interleaved_1f1b": "Interleaved1F1B",
    "interleaved_zb": "InterleavedZeroBubble",
    "zbv": "ZBVZeroBubble",
}
"""Our names and PyTorch's of the schedules that can be run."""
MULTI_STAGE = ("looped_bfs", "interleaved_1f1b", "interleaved_zb")
"""Those that take ``virtual_stages``."""

Times = tuple[float, ...]


@dataclass(frozen=True)
class Case:
    """One run; times in ms, per stage."""

    name: str
    schedule: str
    ranks: int
    microbatches: int
    forward: Times
    backward: Times
    """The whole backward, or its input-gradient half."""
    weight_grad: Times = ()
    """The other half. PyTorch leaves the first stage's input-gradient half out: its time has to be 0."""
    speed: Times = ()
    """Of each rank."""
    slow: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """By (stage, microbatch): how many times as long its ops take."""
    message: int = 4
    """Bytes of a message."""

    @property
    def virtual_stages(self) -> int:
        """Stages per rank."""
        return len(self.forward) // self.ranks


def simulated(case: Case, op_overhead_ns: int = 0, **sections: Any) -> Run:
    """The run as ppsim sees it; ``sections`` add to its experiment (``cluster``, ``runtime``)."""
    halves = {"input_grad": _ms(case.backward), "weight_grad": _ms(case.weight_grad)}
    costs = {
        "forward": _ms(case.forward),
        "message": f"{case.message} B",
        **(halves if case.weight_grad else {"backward": _ms(case.backward)}),
    }
    schedule: dict[str, Any] = {"name": case.schedule}
    if case.schedule in MULTI_STAGE:
        schedule["virtual_stages"] = case.virtual_stages
    cluster = sections.pop("cluster", {})
    if case.speed:
        cluster = {**cluster, "speed": list(case.speed)}
    if cluster:
        sections["cluster"] = cluster
    sections["runtime"] = {"op_overhead": f"{op_overhead_ns} ns", **sections.get("runtime", {})}
    result = simulate(schedule, case.ranks, case.microbatches, costs=costs, **sections)
    return _slowed(result, case, op_overhead_ns)


def _ms(times: Times) -> list[str]:
    return [f"{time} ms" for time in times]


def _slowed(result: ppsim.Result, case: Case, op_overhead_ns: int) -> Run:
    """The same with some ops slower than a config can say: it knows weights of microbatches on all stages alike."""
    if not case.slow:
        return result.run
    plan = result.plan
    pairs = zip(plan.ops.stage.tolist(), plan.ops.microbatch.tolist(), strict=True)
    factor = np.array([case.slow.get(pair, 1) for pair in pairs])
    duration = np.rint((plan.duration - op_overhead_ns) * factor).astype(np.int64) + op_overhead_ns
    timeline, _ = engine.run(replace(plan, duration=duration))
    return Run(timeline.plan, timeline, result.problem, result.run.knows)


FITTED_ON = Case("fit: 1f1b p4 m8", "1f1b", 4, 8, (10, 10, 10, 10), (20, 20, 20, 20))
"""Gives ``op_overhead``, and is counted nowhere."""

CASES = (
    Case("gpipe p2 m4", "gpipe", 2, 4, (15, 15), (30, 30)),
    Case("gpipe p3 m6, unequal", "gpipe", 3, 6, (10, 30, 20), (25, 60, 40)),
    Case("gpipe p4 m16", "gpipe", 4, 16, (10, 10, 10, 10), (20, 20, 20, 20)),
    Case("gpipe p4 m8, some microbatches slow", "gpipe", 4, 8, (10, 10, 10, 10), (20, 20, 20, 20),
         slow={(1, 2): 3, (1, 3): 3, (1, 6): 2.5}),
    Case("1f1b p2 m8", "1f1b", 2, 8, (15, 15), (30, 30)),
    Case("1f1b p3 m6, unequal", "1f1b", 3, 6, (20, 30, 10), (40, 55, 25)),
    Case("1f1b p4 m8, straggler", "1f1b", 4, 8, (10, 10, 10, 10), (20, 20, 20, 20), speed=(1, 1, 0.5, 1)),
    Case("1f1b p4 m16, unequal", "1f1b", 4, 16, (5, 10, 10, 10), (10, 20, 20, 20)),
    Case("1f1b p4 m10, some microbatches slow", "1f1b", 4, 10, (12, 12, 12, 12), (24, 24, 24, 24),
         slow={(2, 3): 2.5, (2, 4): 2.5, (2, 7): 2}),
    Case("looped bfs p2 v2 m4", "looped_bfs", 2, 4, (15, 20, 25, 10), (30, 40, 50, 20)),
    Case("looped bfs p4 v2 m8", "looped_bfs", 4, 8, (10,) * 8, (20,) * 8),
    Case("interleaved p2 v2 m4, unequal", "interleaved_1f1b", 2, 4, (20, 35, 25, 30), (45, 60, 50, 55)),
    Case("interleaved p4 v2 m8", "interleaved_1f1b", 4, 8, (10,) * 8, (20,) * 8),
    Case("interleaved p3 v2 m6, straggler", "interleaved_1f1b", 3, 6, (10,) * 6, (20,) * 6, speed=(1, 0.6, 1)),
    Case("interleaved zero bubble p2 v2 m4", "interleaved_zb", 2, 4, (15,) * 4, (0, 15, 15, 15), (15,) * 4),
    Case("zero bubble V p3 m6", "zbv", 3, 6, (12,) * 6, (0, *(12,) * 5), (12,) * 6),
)  # fmt: skip
