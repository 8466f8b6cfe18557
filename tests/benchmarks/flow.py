"""One experiment through the whole flow: CPU seconds of each stage, and the process's peak memory.

Run as a program it measures one case in a process of its own, so that the peak is that case's, and prints it as JSON.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import ppsim
from ppsim.analysis.result import Result
from ppsim.analysis.specify import specify
from ppsim.engine import run
from ppsim.metrics import Run
from ppsim.metrics.base import SIMULATED
from ppsim.plan import build, check
from tests.simulated import experiment

T = TypeVar("T")
LINKS: dict[str, dict[str, Any]] = {
    "free": {},
    "ports": {"bandwidth": "10 GB/s", "latency": "5 us"},
}
SIMPY_UP_TO = 600_000
"""Ops above which SimPy would take longer than anyone wants to wait for a benchmark."""


@dataclass(frozen=True)
class Case:
    """What is measured."""

    schedule: str
    ranks: int
    microbatches: int
    links: str
    repeats: int = 5


@dataclass(frozen=True)
class Measured:
    """CPU seconds, best of the repeats; None where it wasn't run."""

    ops: int
    orders_s: float
    check_s: float
    plan_s: float
    simpy_s: float | None
    compiled_s: float
    metrics_s: float
    peak_mb: float

    @property
    def total_s(self) -> float:
        """From a loaded experiment to its summary, by the compiled engine."""
        return self.orders_s + self.check_s + self.plan_s + self.compiled_s + self.metrics_s


def measure(case: Case) -> Measured:
    """Every stage by itself; the compiled code is warm."""
    sections: dict[str, Any] = {
        "costs": {"message": "1 MB"},
        "cluster": {"ranks_per_node": 1, "inter_node": LINKS[case.links]},
    }
    once(experiment(case.schedule, 2, 2, **sections), {})
    exp = experiment(case.schedule, case.ranks, case.microbatches, **sections)
    best: dict[str, float] = {}
    ops = 0
    for turn in range(case.repeats):
        ops = once(exp, best, simpy=turn < 2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Measured(
        ops, best["orders"], best["check"], best["plan"], best.get("simpy"), best["compiled"], best["metrics"], peak
    )


def once(exp: ppsim.Experiment, best: dict[str, float], simpy: bool = True) -> int:
    """Go through the flow and keep the least time of each stage; returns the number of ops."""

    def timed(stage: str, work: Callable[[], T]) -> T:
        start = time.process_time()
        made = work()
        best[stage] = min(best.get(stage, float("inf")), time.process_time() - start)
        return made

    problem, schedule = exp.problem(), exp.schedule
    orders = timed("orders", lambda: schedule.orders(problem))
    checked = timed("check", lambda: check(orders, problem))
    plan = timed("plan", lambda: build(checked, specify(exp, problem)))
    timeline = timed("compiled", lambda: run(plan, "compiled")[0])
    executed = Run(plan, timeline, problem, SIMULATED)
    timed("metrics", lambda: Result(exp, problem, checked, executed, "compiled").summary)
    if simpy and len(plan.ops) <= SIMPY_UP_TO:
        timed("simpy", lambda: run(plan, "simpy"))
    return len(plan.ops)


def measure_apart(case: Case) -> Measured:
    """The same in a process of its own."""
    program = [sys.executable, "-m", "tests.benchmarks.flow", json.dumps(asdict(case))]
    done = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True)
    return Measured(**json.loads(done.stdout))


if __name__ == "__main__":
    print(json.dumps(asdict(measure(Case(**json.loads(sys.argv[1]))))))
