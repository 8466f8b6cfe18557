"""Searched orders beside published ones: no longer, in no more memory.

The figures are in ``tests/data/*_searched.csv``, each file with its source.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

import ppsim
from tests.simulated import between_nodes, simulate

LONG = 1500
"""Ops from which a case is slow."""


def _cases(name: str) -> list[Any]:
    with (Path(__file__).parents[1] / "data" / f"{name}_searched.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [
        pytest.param(
            row,
            id="-".join(row.values()).replace(" ", ""),
            marks=[pytest.mark.slow] if int(row["p"]) * int(row["m"]) * 3 >= LONG else [],
        )
        for row in rows
    ]


def _run(schedule: dict[str, Any], row: dict[str, str], unit: str, **sections: Any) -> ppsim.Result:
    costs = {key: f"{row[key]} {unit}" for key in ("forward", "input_grad", "weight_grad")} | sections.pop("costs")
    return simulate(schedule, int(row["p"]), int(row["m"]), "compiled", costs=costs, **sections)


def _held(result: ppsim.Result) -> int:
    return max(row["peak_by_category"]["activations"] for row in result.summary["per_rank"])


@pytest.mark.parametrize("row", _cases("zero_bubble"))
def test_zero_bubble_papers_search(row: dict[str, str]) -> None:
    """No worse at the same memory; the tables are printed to four digits, the curves are here to seven."""
    p, m, objective = int(row["p"]), int(row["m"]), row["figure"]
    limit = int(float(row["memory"]) * p * int(row["activation"]))
    result = _run(
        {"name": row["schedule"], "memory_limit": f"{limit} B", "objective": objective}, row, "us",
        costs={"per": "rank", "activation": f"{row['activation']} B", "held_for_weight_grad": f"{row['held']} B"},
        cluster=between_nodes(latency=f"{row['latency']} us"),
    )  # fmt: skip
    work = m * sum(int(row[key]) for key in ("forward", "input_grad", "weight_grad"))
    taken = result.summary["makespan_s" if objective == "makespan" else "max_span_s"] * 1e6
    slack = 5e-5 if row["source"].startswith("table") else 1e-7
    assert 1 - work / taken <= float(row["rate"]) + slack
    assert _held(result) <= limit


@pytest.mark.parametrize("row", _cases("peer"))
def test_other_programs_zero_bubble_orders(row: dict[str, str]) -> None:
    most = int(row["memory"])
    limit = {"max_in_flight": most} if row["schedule"] in ("zb", "zbv_auto") else {}
    result = _run(
        {"name": row["schedule"], **limit}, row, "ms", costs={"activation": "2 B", "held_for_weight_grad": "1 B"}
    )
    assert result.timeline.makespan <= float(row["makespan"]) * 1e6
    assert _held(result) <= 2 * most


@pytest.mark.parametrize("row", _cases("primus"))
def test_primus_orders(row: dict[str, str]) -> None:
    """ZB-H1 exactly; of the V's, which Primus searches for, no slower at no more memory."""
    result = _run({"name": row["schedule"]}, row, "us", costs={"per": "rank", "activation": "2 B"})
    published = int(row["makespan"]) * 1000
    assert result.timeline.makespan <= published
    assert _held(result) <= 2 * int(row["peak"])
    if row["schedule"] == "zb_h1":
        assert result.timeline.makespan == published
        assert _held(result) == 2 * int(row["peak"])
