"""Measured memory and times of Megatron-LM on eight B200 (tests/data/b200_megatron.csv), simulated whole.

Memory has no constant that is fitted. Times have three, fitted on three named rows; all others are predicted. What the
misses are: at tensor_parallel 4 the 70B model's products are measured to be better than at 1 and 2 (+4 and +7 %), which
one efficiency can't say; the runs' own time per microbatch differs by up to 8 % between m = 4 and m = 32. DeepSeek-V2's
times are not predicted by constants of dense models (-13 to -25 %): its experts' products are a fifth as large.
"""

from __future__ import annotations

from typing import Any

import pytest

import ppsim
from tests.costs.transformer.b200 import experiment, measured_bytes, name, rows

ROWS = {name(row): row for row in rows()}
LLAMA = [label for label, row in ROWS.items() if row["model"].startswith("llama")]
FITTED_ON = ("llama3-70b-t2-s4k-m8", "llama3-405b-p2-s4k-m8", "llama3-405b-t4-s4k-m8")
FITTED = {"matmul": 0.469332, "bandwidth": "399.5215 GB/s", "per_layer": "0.854537 ms"}
"""Three unknowns that solve the three rows: a share of 2250 TFLOP/s, one bandwidth for all messages and collectives (of
900 GB/s), a fixed time per layer and microbatch."""


@pytest.mark.parametrize("label", [label for label, row in ROWS.items() if row["microbatches"] == 4])
def test_the_peak_that_a_profiler_sees(label: str) -> None:
    """First and last stage. Peaks are those of m = 4 for all m: as many microbatches are in flight."""
    row = ROWS[label]
    per_rank = ppsim.simulate(experiment(row)).per_rank()
    tolerance = 0.01 if label in LLAMA else 0.03
    for stage, rank in (("first", 0), ("last", -1)):
        found = per_rank[rank]["peak_memory_bytes"] / measured_bytes(row, stage)
        assert abs(float(found) - 1) < tolerance, (stage, float(found))


def test_peaks_of_the_same_cut_are_the_same_however_many_microbatches() -> None:
    for label, row in ROWS.items():
        first = ROWS[f"{label.rpartition('-m')[0]}-m4"]
        assert all(measured_bytes(row, stage) == measured_bytes(first, stage) for stage in ("first", "last"))


def miss(row: dict[str, Any]) -> float:
    """Simulated step over measured, less one."""
    result = ppsim.simulate(experiment(row, **FITTED))
    return float(result.summary["step_time_s"] * 1000 / float(row["step_ms"]) - 1)


def test_the_three_constants_solve_the_rows_that_they_are_fitted_on() -> None:
    assert max(abs(miss(ROWS[label])) for label in FITTED_ON) < 1e-4


def test_every_other_llama_row_is_predicted() -> None:
    """Sequence 4096 within 10 %, on average within 5 %; 32k rows, which nothing was fitted on, within 10 %, too."""
    misses = {label: miss(ROWS[label]) for label in LLAMA if label not in FITTED_ON}
    short = [abs(value) for label, value in misses.items() if "-s4k-" in label]
    assert max(map(abs, misses.values())) < 0.10, misses
    assert sum(short) / len(short) < 0.05
