"""The table of all real runs: measured, simulated with nothing fitted and with one constant, and the errors."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ppsim.timeline import PER_SECOND
from tests.real.cases import CASES, FITTED_ON, Case, simulated
from tests.real.compare import Errors, errors, fitted
from tests.real.harness import measured

REFERENCE = Path(__file__).parents[2] / "results" / "reference"
Row = Mapping[str, str | int]


def pytorch(steps: int, say: Callable[[Row], None]) -> list[Row]:
    """A row per case, the fitted one first; ``say`` is told each as soon as it is there."""
    overhead = None
    rows: list[Row] = []
    for case in (FITTED_ON, *CASES):
        unfitted = simulated(case)
        runs = measured(case, unfitted.plan, steps)
        median = runs[len(runs) // 2]
        if overhead is None:
            overhead = fitted(median.timeline.makespan, lambda ns: simulated(FITTED_ON, ns))
        with_overhead = simulated(case, overhead)
        spread = (runs[-1].timeline.makespan - runs[0].timeline.makespan) / median.timeline.makespan
        rows.append({
            **_sizes(case),
            "measured_s": _seconds(median.timeline.makespan),
            "measured_spread": _share(spread),
            "unfitted_s": _seconds(unfitted.timeline.makespan),
            "fitted_s": _seconds(with_overhead.timeline.makespan),
            "op_overhead_s": f"{overhead / PER_SECOND:.6f}",
            "unfitted_step_error": _share(errors(median, unfitted).step),
            **_errors(errors(median, with_overhead)),
        })  # fmt: skip
        say(rows[-1])
    return rows


def _sizes(case: Case) -> dict[str, str | int]:
    return {
        "case": case.name,
        "schedule": case.schedule,
        "ranks": case.ranks,
        "microbatches": case.microbatches,
        "virtual_stages": case.virtual_stages,
    }


def _errors(found: Errors) -> dict[str, str]:
    return {f"{name}_error": _share(value) for name, value in vars(found).items()}


def _seconds(ns: int) -> str:
    return f"{ns / PER_SECOND:.4f}"


def _share(value: float) -> str:
    return f"{value:.4f}"


def write(rows: Iterable[Row], path: Path) -> None:
    """The rows as CSV."""
    rows = list(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.DictWriter(stream, rows[0], lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
