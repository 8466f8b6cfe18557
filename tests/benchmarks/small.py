"""Small cases: what one of thousands costs, and what a single one does, beside the bare SimPy loop.

As a program it prints CPU milliseconds, best of so many rounds in turn, as JSON; it runs on older trees as well, where
rows are made by one simulation after the other, so that two trees can be measured alternately (``--against``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ppsim
from ppsim.metrics import scalars
from tests.benchmarks import bare_simpy
from tests.benchmarks.flow import LINKS
from tests.simulated import experiment

RANKS, MICROBATCHES, NEIGHBOURS, ROUNDS = 8, 64, 20, 30
SCHEDULES: tuple[Any, ...] = ("1f1b", {"name": "interleaved_1f1b", "virtual_stages": 2}, "gpipe", "zbv")


def measured() -> dict[str, float]:
    """CPU ms of a row of all scalars, structure reused; of one summary, nothing reused; of the bare loop."""
    from tests.benchmarks.__main__ import best_in_turn

    names, works = ["bare SimPy loop, ports"], [_bare]
    for schedule in SCHEDULES:
        name = schedule if isinstance(schedule, str) else schedule["name"]
        for links in LINKS:
            cases = [_case(schedule, links, i) for i in range(NEIGHBOURS)]
            names += [f"row, {name}, {links}", f"summary, {name}, {links}"]
            works += [lambda cases=cases: _rows(cases), lambda cases=cases: _summary(cases[0])]  # type: ignore[misc]
    for work in works:
        work()  # compiled, loaded
    per = {name: NEIGHBOURS if name.startswith("row") else 1 for name in names}
    best = best_in_turn(*works, rounds=ROUNDS)
    return {name: seconds * 1e3 / per[name] for name, seconds in zip(names, best, strict=True)}


def _case(schedule: Any, links: str, number: int) -> ppsim.Experiment:
    return experiment(
        schedule,
        RANKS,
        MICROBATCHES,
        costs={"message": f"{1 + number % 7} MB", "forward": f"{1000 + number} us"},
        cluster={"ranks_per_node": 1, "inter_node": LINKS[links]},
    )


def _bare() -> object:
    return bare_simpy.links(RANKS, MICROBATCHES, 1_000_000, 2_000_000, 100_000)


def _rows(cases: list[ppsim.Experiment]) -> object:
    many: Callable[..., object] | None = getattr(ppsim, "simulate_many", None)
    if many is not None:
        return many(cases, engine="compiled")
    return [scalars(ppsim.simulate(case, engine="compiled").run) for case in cases]


def _summary(case: ppsim.Experiment) -> object:
    return ppsim.simulate(case, engine="compiled").summary


def alternately(older: Path | None, turns: int = 3) -> list[dict[str, Any]]:
    """A row per case, of this tree and an older one measured in turn: ms, the ratio to the bare loop, what was won."""
    trees = {"new": Path(__file__).parents[2], **({"old": older} if older is not None else {})}
    best: dict[str, dict[str, float]] = {}
    for _ in range(turns):
        for which, tree in trees.items():
            done = subprocess.run(
                [sys.executable, __file__], env={**os.environ, "PYTHONPATH": str(tree)}, cwd=tree, check=True,
                stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            found = json.loads(done.stdout)
            before = best.get(which, found)
            best[which] = {name: min(ms, before[name]) for name, ms in found.items()}
    rows = []
    for name, ms in best["new"].items():
        bare = best["new"]["bare SimPy loop, ports"]
        row: dict[str, Any] = {"case": name, "ms": round(ms, 3), "of the bare loop": round(ms / bare, 3)}
        if "old" in best:
            was = best["old"][name]
            row |= {"old ms": round(was, 3), "old / new": round(was / ms, 2)}
        rows.append(row)
    return rows


if __name__ == "__main__":
    print(json.dumps(measured()))
