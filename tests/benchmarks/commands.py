"""Whole commands, as a user waits for them: start, reading, simulation, all files, what is printed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
QUICK = HERE.parents[1] / "configs" / "quickstart.yaml"
SWEEP, LARGE = HERE / "sweep.yaml", HERE / "large.yaml"
"""10,000 small cases; a run of 131,072 ops, whose messages queue for ports."""
LARGE_WITHOUT_PORTS = ("--set", "cluster.inter_node.bandwidth=null")


@dataclass(frozen=True)
class Command:
    """A command, and whether its compiled loops are on disk from an earlier one."""

    what: str
    arguments: tuple[str, ...]
    compiled: bool = True


COMMANDS = (
    Command("check of a config", ("check", str(QUICK))),
    Command("run of quickstart.yaml, all files", ("run", str(QUICK), "--out", "out")),
    Command("sweep of 10,000 cases, two workers", ("sweep", str(SWEEP), "--jobs", "2", "--out", "out")),
    Command("run of 131,072 ops with links, all files", ("run", str(LARGE), "--out", "out")),
    Command("the same without files", ("run", str(LARGE), "--no-files")),
    Command("the same, first compiled run of a machine", ("run", str(LARGE), "--no-files"), compiled=False),
    Command("the same, links without ports", ("run", str(LARGE), "--no-files", *LARGE_WITHOUT_PORTS), compiled=False),
)


class Measured(NamedTuple):
    """Seconds by the clock and of all processes' CPU time; megabytes written."""

    wall: float
    cpu: float
    megabytes: float


def alternately(older: Path | None, turns: int = 3) -> list[dict[str, Any]]:
    """A row per command: the best of so many turns in this tree, and in an older one, measured in turn."""
    trees = {"new": HERE.parents[1], **({"old": older} if older is not None else {})}
    rows = []
    for command in COMMANDS:
        best: dict[str, Measured] = {}
        for _ in range(turns):
            for which, tree in trees.items():
                found = measured(command, tree)
                best[which] = min(best.get(which, found), found, key=lambda one: one.cpu)
        new = best["new"]
        row: dict[str, Any] = {
            "command": command.what, "wall s": round(new.wall, 2), "CPU s": round(new.cpu, 2),
            "MB": round(new.megabytes, 1),
        }  # fmt: skip
        if "old" in best:
            old = best["old"]
            row |= {"old wall s": round(old.wall, 2), "old CPU s": round(old.cpu, 2), "old MB": round(old.megabytes, 1)}
        rows.append(row)
    return rows


def measured(command: Command, tree: Path) -> Measured:
    """The command in a tree, in an empty folder; without what Numba keeps, or with it all there already."""
    with tempfile.TemporaryDirectory() as folder:
        # As a user has it: Python's own code is on disk from an earlier start.
        environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": ""}
        if not command.compiled:
            environment["NUMBA_CACHE_DIR"] = f"{folder}/numba"
        before, begun = _cpu_of_children(), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "ppsim.cli", *command.arguments], cwd=folder, env=environment, check=True,
            capture_output=True,
        )  # fmt: skip
        wall, cpu = time.perf_counter() - begun, _cpu_of_children() - before
        out = Path(folder, "out")
        return Measured(wall, cpu, sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e6)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
