"""Runs a plan for real: a process per rank, PyTorch's own schedule, stages that sleep as long as the plan's ops take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ppsim.metrics import Run
from ppsim.plan.table import Plan
from ppsim.timeline import PER_SECOND
from tests.real.cases import TORCH, Case
from tests.real.partial import measured_run

ROOT = Path(__file__).parents[2]
START_S = 60
"""Time to import PyTorch and find each other, beyond which a run has failed."""


def measured(case: Case, plan: Plan, steps: int = 3, inside: Sequence[Sequence[str]] = (), interface: str = "lo") -> list[Run]:
    """Real steps of a case, as many as asked for, by their length: the middle one is the median.

    Op by op they sleep what ``plan`` says. Rank r's command runs behind ``inside[r]``, on that network interface.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spec.json"
        path.write_text(json.dumps(_spec(case, plan, steps)))
        seconds = START_S + steps * 3 * int(plan.duration.sum()) / PER_SECOND
        command = [sys.executable, "-m", "tests.real.worker", str(path)]
        _run([[*(inside[r] if inside else ()), *command, str(r)] for r in range(plan.ranks)], seconds, interface)
        found = [json.loads(path.with_suffix(f".{rank}").read_text()) for rank in range(plan.ranks)]
    runs = [measured_run(plan, [rank[step] for rank in found]) for step in range(steps)]
    return sorted(runs, key=lambda run: run.timeline.makespan)


def _spec(case: Case, plan: Plan, steps: int) -> dict[str, Any]:
    """What a worker has to know."""
    return {
        "schedule": TORCH[case.schedule],
        "microbatches": case.microbatches,
        "message": case.message,
        "stages": len(case.forward),
        "held": [sorted(stages) for stages in plan.placement.stages_of],
        "sleeps": {str(plan.op(row)): int(plan.duration[row]) / PER_SECOND for row in range(len(plan))},
        "steps": steps,
    }


def _run(commands: Sequence[Sequence[str]], seconds: float, interface: str) -> None:
    """All commands at once; none of them outlives this call.

    Raises RuntimeError with their output where one fails or they take longer than that.
    """
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": interface, "OMP_NUM_THREADS": "1"}
    processes: list[subprocess.Popen[str]] = []
    deadline = time.monotonic() + seconds
    try:
        for command in commands:
            processes.append(subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stderr=subprocess.PIPE))
        for process in processes:
            _, said = process.communicate(timeout=max(deadline - time.monotonic(), 0))
            if process.returncode:
                raise RuntimeError(f"{' '.join(map(str, process.args))} failed:\n{said}")
    except subprocess.TimeoutExpired as late:
        raise RuntimeError(f"not done after {seconds:.0f} s: {late.cmd}") from late
    finally:
        for process in processes:
            process.kill()
            process.wait()
