"""Print what the simulator costs: against bare SimPy loops, by stage of the flow, and as a whole process.

Beside it stands what PyTorch takes to lay the same schedule out, where that is installed.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ppsim.analysis.specify import specify
from ppsim.engine import simpy_engine
from ppsim.plan import build, check
from tests.benchmarks import bare_simpy, commands, growth
from tests.benchmarks.flow import Case, Measured, measure_apart
from tests.benchmarks.small import alternately
from tests.simulated import experiment

SIZES = ("8x64", "32x512", "64x1024", "256x4096", "1024x8192")
ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "results" / "reference" / "benchmarks.csv"
SMALL = REFERENCE.with_name("small_cases.csv")
COMMANDS = REFERENCE.with_name("commands.csv")
TORCH_UP_TO = 100_000
"""Ranks x microbatches above which PyTorch would take too long."""
Row = dict[str, Any]


def main() -> None:
    """Read the command line, measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--sizes", default=",".join(SIZES), help="ranks x microbatches, e.g. 8x64,1024x8192")
    parser.add_argument("--schedules", default="1f1b,gpipe,interleaved_1f1b", help="e.g. gpipe,1f1b")
    parser.add_argument(
        "--csv", type=Path, help="write the table of the flow to this file, too (default: of all sizes, the reference)"
    )
    parser.add_argument(
        "--against", type=Path, help="an older checkout, whose small cases and commands are measured in turn"
    )
    given = parser.parse_args()
    if given.csv is None and given.sizes == parser.get_default("sizes"):
        given.csv = REFERENCE

    print("SimPy engine against a bare SimPy loop, 1F1B, p=32, m=512; CPU time, best of 5 in turn\n")
    show([against_bare("free links"), against_bare("links with ports")])

    print("\nThe flow by stage: million ops per second of CPU time\n")
    rows = []
    for schedule in given.schedules.split(","):
        for size in given.sizes.split(","):
            ranks, microbatches = map(int, size.split("x"))
            for links in ("free", "ports"):
                repeats = 2 if ranks * microbatches > 1_000_000 else 10
                case = Case(schedule, ranks, microbatches, links, repeats)
                if ranks * microbatches > 1_000_000 and schedule != given.schedules.split(",")[0]:
                    continue  # minutes for what the first schedule shows
                rows.append(flow_row(case, measure_apart(case), torch_s(case)))
                show(rows[-1:], header=len(rows) == 1)
    if given.csv:
        write(rows, given.csv)

    print("\nSmall cases, p=8, m=64: CPU ms of a row of many, and of a single summary\n")
    small_rows = alternately(given.against)
    show(small_rows)
    if given.csv == REFERENCE:
        write(small_rows, SMALL)
        of_all_sizes = [row for row in rows if row["schedule"] == growth.SCHEDULE]
        write(of_all_sizes, REFERENCE.with_name("growth.csv"))
        growth.draw(of_all_sizes, REFERENCE.with_name("growth.png"))

    print("\nWhole commands: wall time, CPU time of all processes, what they write; best of three\n")
    command_rows = commands.alternately(given.against)
    show(command_rows)
    if given.csv == REFERENCE:
        write(command_rows, COMMANDS)


def write(rows: Sequence[Row], path: Path) -> None:
    """Rows as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def against_bare(links: str) -> Row:
    """Ops per second of the engine and of the loop that does the least, measured in turn."""
    ranks, microbatches, forward, backward, message = 32, 512, 1_000_000, 2_000_000, 100_000
    ports = links == "links with ports"
    link = {"bandwidth": "10 GB/s"} if ports else {}
    exp = experiment(
        "1f1b", ranks, microbatches, costs={"message": "1 MB"}, cluster={"ranks_per_node": 1, "inter_node": link}
    )
    problem = exp.problem()
    plan = build(check(exp.schedule.orders(problem), problem), specify(exp, problem))

    def bare() -> int:
        if ports:
            return bare_simpy.links(ranks, microbatches, forward, backward, message)
        return bare_simpy.free_links(ranks, microbatches, forward, backward)

    engine_s, bare_s = best_in_turn(lambda: simpy_engine.run(plan), bare)
    return {
        "links": links,
        "ops": len(plan.ops),
        "bare ops/s": round(len(plan.ops) / bare_s),
        "engine ops/s": round(len(plan.ops) / engine_s),
        "engine / bare": round(bare_s / engine_s, 2),
    }


def best_in_turn(*works: Callable[[], object], rounds: int = 5) -> list[float]:
    """The least CPU seconds of each, one after the other in every round."""
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for place, work in enumerate(works):
            start = time.process_time()
            work()
            best[place] = min(best[place], time.process_time() - start)
    return best


def torch_s(case: Case) -> float | None:
    """CPU seconds that PyTorch takes for the same schedule, in a process of its own; None where it isn't installed."""
    if find_spec("torch") is None or case.links != "free" or case.ranks * case.microbatches > TORCH_UP_TO:
        return None
    program = [sys.executable, "-m", "tests.benchmarks.torch_spacing", case.schedule]
    program += [str(case.ranks), str(case.microbatches)]
    return float(subprocess.run(program, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def flow_row(case: Case, found: Measured, torch: float | None) -> Row:
    """Million ops per second by stage; SimPy beside the compiled engine, PyTorch's own spacing beside the flow."""

    def rate(seconds: float | None) -> float | str:
        return "" if seconds is None else round(found.ops / seconds / 1e6, 2)

    return {
        "schedule": case.schedule,
        "p": case.ranks,
        "m": case.microbatches,
        "links": case.links,
        "ops": found.ops,
        "orders": rate(found.orders_s),
        "check": rate(found.check_s),
        "plan": rate(found.plan_s),
        "compiled": rate(found.compiled_s),
        "metrics": rate(found.metrics_s),
        "whole flow": rate(found.total_s),
        "whole flow ms": round(found.total_s * 1e3, 2),
        "SimPy": rate(found.simpy_s),
        "compiled / SimPy": "" if found.simpy_s is None else round(found.simpy_s / found.compiled_s),
        "PyTorch": rate(torch),
        "whole flow / PyTorch": "" if torch is None else round(torch / found.total_s),
        "peak MB": round(found.peak_mb),
    }


def show(rows: Sequence[Row], header: bool = True) -> None:
    """Rows under their names, each column as wide as its name, or nine places."""
    widths = {name: max(len(name), 9, *(len(str(row[name])) for row in rows)) for name in rows[0]}
    if header:
        print("  ".join(f"{name:>{width}}" for name, width in widths.items()))
    for row in rows:
        cells = (f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in widths)
        print("  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths.values(), strict=True)), flush=True)


if __name__ == "__main__":
    main()
