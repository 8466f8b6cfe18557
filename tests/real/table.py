"""The table of all real runs: measured, simulated with nothing fitted and with one constant, and the errors."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ppsim.engine.timeline import PER_SECOND
from ppsim.metrics import Run
from tests.real.cases import CASES, FITTED_ON, Case, simulated
from tests.real.compare import Errors, errors, fitted
from tests.real.harness import measured, median

REFERENCE = Path(__file__).parents[2] / "results" / "reference"
Row = Mapping[str, str | int]


def pytorch(steps: int, say: Callable[[Row], None]) -> list[Row]:
    """A row per case, the fitted one first; ``say`` is told each as soon as it is there."""
    overhead = None
    rows: list[Row] = []
    for case in (FITTED_ON, *CASES):
        unfitted = simulated(case)
        runs = measured(case, unfitted.plan, steps)
        run = median(runs)
        if overhead is None:
            overhead = fitted(run.timeline.makespan, lambda ns: simulated(FITTED_ON, ns))
        with_overhead = simulated(case, overhead)
        rows.append({
            **sizes(case),
            "measured_s": seconds(run.timeline.makespan),
            "measured_spread": spread(runs),
            "unfitted_s": seconds(unfitted.timeline.makespan),
            "fitted_s": seconds(with_overhead.timeline.makespan),
            "op_overhead_s": f"{overhead / PER_SECOND:.6f}",
            "unfitted_step_error": _share(errors(run, unfitted).step),
            **error_columns(errors(run, with_overhead)),
        })  # fmt: skip
        say(rows[-1])
    return rows


def sizes(case: Case) -> dict[str, str | int]:
    """What a case is."""
    return {
        "case": case.name,
        "schedule": case.schedule,
        "ranks": case.ranks,
        "microbatches": case.microbatches,
        "virtual_stages": case.virtual_stages,
    }


def error_columns(found: Errors) -> dict[str, str]:
    """A column per error."""
    return {f"{name}_error": _share(value) for name, value in vars(found).items()}


def seconds(ns: int) -> str:
    """To a tenth of a ms."""
    return f"{ns / PER_SECOND:.4f}"


def spread(runs: Sequence[Run]) -> str:
    """How far the longest of sorted runs is above the shortest, as a share of the median."""
    return _share((runs[-1].timeline.makespan - runs[0].timeline.makespan) / median(runs).timeline.makespan)


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
