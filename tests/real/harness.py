"""Runs a plan for real: a process per rank, PyTorch's own schedule, stages that sleep as long as the plan's ops take."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppsim.engine.timeline import PER_SECOND
from ppsim.metrics import Run
from ppsim.plan.table import Plan
from tests.real import processes
from tests.real.cases import TORCH, Case
from tests.real.partial import measured_run

START_S = 90
"""Time to import PyTorch and find each other, beyond which a run has failed."""


@dataclass(frozen=True)
class Place:
    """Where ranks run: what goes before each one's command (nothing: as it is), and the network interface."""

    inside: Sequence[Sequence[str]] = ()
    interface: str = "lo"

    def run(self, module: str, path: Path, ranks: int, seconds: float) -> list[Any]:
        """``python -m module path RANK`` on every rank, and what each has left beside the path."""
        commands = [[sys.executable, "-m", module, str(path), str(rank)] for rank in range(ranks)]
        if self.inside:
            commands = [[*inside, *command] for inside, command in zip(self.inside, commands, strict=True)]
        environment = {"GLOO_SOCKET_IFNAME": self.interface, "OMP_NUM_THREADS": "1"}
        processes.run(commands, START_S + seconds, environment)
        return [json.loads(path.with_suffix(f".{rank}").read_text()) for rank in range(ranks)]


HERE = Place()
"""All on this machine, over its loopback interface."""


def measured(case: Case, plan: Plan, steps: int = 3, place: Place = HERE) -> list[Run]:
    """So many real steps of a case, sorted by their length; op by op they sleep what ``plan`` says."""
    spec = {
        "schedule": TORCH[case.schedule],
        "microbatches": case.microbatches,
        "message": case.message,
        "stages": len(case.forward),
        "held": [sorted(stages) for stages in plan.placement.stages_of],
        "sleeps": {str(plan.ops[row]): int(plan.duration[row]) / PER_SECOND for row in range(len(plan.ops))},
        "steps": steps,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spec.json"
        path.write_text(json.dumps(spec))
        one_by_one = int(plan.duration.sum()) / PER_SECOND
        found = place.run("tests.real.worker", path, plan.ops.ranks, 3 * steps * one_by_one)
    runs = [measured_run(plan, [rank[step] for rank in found]) for step in range(steps)]
    return sorted(runs, key=lambda run: run.timeline.makespan)


def median(runs: Sequence[Run]) -> Run:
    """The middle one of sorted runs."""
    return runs[len(runs) // 2]
