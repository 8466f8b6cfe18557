"""A sweep of 10,000 small cases, the whole command: start, listing, simulation, database, tables, what is printed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CONFIG = Path(__file__).with_name("sweep.yaml")
CASES, WORKERS = 10_000, 2
"""What the config has, and what the reference is measured with."""


def alternately(older: Path | None, turns: int = 3) -> list[dict[str, Any]]:
    """Cases per second of wall time and CPU seconds, best of so many turns; of an older tree, measured in turn, too."""
    trees = {"new": Path(__file__).parents[2], **({"old": older} if older is not None else {})}
    best: dict[str, tuple[float, float]] = {}
    for _ in range(turns):
        for which, tree in trees.items():
            found = _measured(tree)
            best[which] = min(best.get(which, found), found)
    return [
        {
            "tree": which, "cases": CASES, "workers": WORKERS, "wall s": round(wall, 2), "CPU s": round(cpu, 2),
            "cases/s with everything": round(CASES / wall),
        }
        for which, (wall, cpu) in best.items()
    ]  # fmt: skip


def _measured(tree: Path) -> tuple[float, float]:
    """Wall and CPU seconds of the command in a tree, its workers' among them."""
    command = [sys.executable, "-m", "ppsim.cli", "sweep", str(CONFIG), "--jobs", str(WORKERS), "--out", "swept"]
    with tempfile.TemporaryDirectory() as folder:
        before, begun = _cpu_of_children(), time.perf_counter()
        subprocess.run(
            command, cwd=folder, env={**os.environ, "PYTHONPATH": str(tree)}, check=True, capture_output=True
        )
        return time.perf_counter() - begun, _cpu_of_children() - before


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
