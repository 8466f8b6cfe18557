"""Searched orders beside published ones: no longer, in no more memory.

The figures are in ``tests/data``, each file with its source.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

import ppsim
from tests import goldens
from tests.simulated import between_nodes, ms, simulate

LONG = 2500
"""Ops from which the search of a case takes more than a few tenths of a second: of a curve's, not all are tried."""
QUICK = 800
"""Ops below which a case is in the quick part."""
SAMPLED = (1, 1.25, 1.5, 2, 3)
"""Limits, in activations of a rank times p, at which the slow cases of a curve are tried; the others are at every one."""
TIMES = ("forward", "input_grad", "weight_grad")
UNIT = dict.fromkeys(TIMES, "1 ms")


def _ops(row: dict[str, str]) -> int:
    stages_per_rank = 2 if row.get("schedule") in ("zbv_auto", "v_half", "v_min") else 1
    return 3 * stages_per_rank * int(row["p"]) * int(row["m"])


def _cases(name: str) -> list[Any]:
    with (Path(__file__).parents[1] / "data" / f"{name}.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [
        pytest.param(row, id="-".join(row.values()).replace(" ", ""), marks=[pytest.mark.slow] * (_ops(row) >= QUICK))
        for row in rows
        if _ops(row) < LONG or not row.get("source", "").startswith("figure") or float(row["memory"]) in SAMPLED
    ]


def _run(schedule: Any, row: dict[str, str], unit: str, **sections: Any) -> ppsim.Result:
    costs = {key: f"{row[key]} {unit}" for key in TIMES} | sections.pop("costs", {})
    return simulate(schedule, int(row["p"]), int(row["m"]), "compiled", costs=costs, **sections)


def _held(result: ppsim.Result) -> int:
    return max(row["peak_by_category"]["activations"] for row in result.summary["per_rank"])


def _bubble_rate(result: ppsim.Result, row: dict[str, str], figure: str) -> float:
    """The paper's: what of the makespan, or of the longest span of a rank, is not work; times are in us."""
    work = int(row["m"]) * sum(int(row[key]) for key in TIMES)
    return 1 - work / (result.summary[{"makespan": "makespan_s", "span": "max_span_s"}[figure]] * 1e6)


@pytest.mark.parametrize("row", _cases("zero_bubble_tables"))
def test_zero_bubble_papers_fixed_orders(row: dict[str, str]) -> None:
    """To four digits: 1F1B, 1F1B-I and ZB-H1 by their makespan, ZB-H2 by its longest span (the paper's convention)."""
    interleaved = {"name": "interleaved_1f1b", "virtual_stages": int(row["v"])}
    for schedule, column, figure in (
        ("1f1b", "1f1b", "makespan"),
        (interleaved, "interleaved_1f1b", "makespan"),
        ("zb_h1", "zb_h1", "makespan"),
        ("zb_h2", "zb_h2", "span"),
    ):
        links = between_nodes(latency=f"{row['latency']} us")
        result = _run(schedule, row, "us", costs={"per": "rank"}, cluster=links)
        assert round(_bubble_rate(result, row, figure), 4) == float(row[column]), column


@pytest.mark.parametrize("row", _cases("zero_bubble_searched"))
def test_zero_bubble_papers_search(row: dict[str, str]) -> None:
    """No worse at the same memory; the tables are printed to four digits, the curves are here to seven."""
    limit = int(float(row["memory"]) * int(row["p"]) * int(row["activation"]))
    result = _run(
        {"name": row["schedule"], "memory_limit": f"{limit} B", "objective": row["figure"]}, row, "us",
        costs={"per": "rank", "activation": f"{row['activation']} B", "held_for_weight_grad": f"{row['held']} B"},
        cluster=between_nodes(latency=f"{row['latency']} us"),
    )  # fmt: skip
    slack = 5e-5 if row["source"].startswith("table") else 1e-7
    assert _bubble_rate(result, row, row["figure"]) <= float(row["rate"]) + slack
    assert _held(result) <= limit


@pytest.mark.parametrize("row", _cases("peer_searched"))
def test_other_programs_zero_bubble_orders(row: dict[str, str]) -> None:
    most = int(row["memory"])
    limit = {"max_in_flight": most} if row["schedule"] in ("zb", "zbv_auto") else {}
    result = _run(
        {"name": row["schedule"], **limit}, row, "ms", costs={"activation": "2 B", "held_for_weight_grad": "1 B"}
    )
    assert result.timeline.makespan <= float(row["makespan"]) * 1e6
    assert _held(result) <= 2 * most


@pytest.mark.parametrize("row", _cases("primus_searched"))
def test_primus_orders(row: dict[str, str]) -> None:
    """ZB-H1 exactly; of the V's, which Primus searches for, no slower at no more memory."""
    result = _run({"name": row["schedule"]}, row, "us", costs={"per": "rank", "activation": "2 B"})
    published = int(row["makespan"]) * 1000
    assert result.timeline.makespan <= published
    assert _held(result) <= 2 * int(row["peak"])
    if row["schedule"] == "zb_h1":
        assert result.timeline.makespan == published
        assert _held(result) == 2 * int(row["peak"])


@pytest.mark.parametrize("row", _cases("sail_searched"))
def test_sails_orders(row: dict[str, str]) -> None:
    """F = I = W = 1; memory counts an activation until its W has ended."""
    limit = {"max_in_flight": int(row["limit"])} if row["limit"] else {}
    result = simulate({"name": row["schedule"], **limit}, int(row["p"]), int(row["m"]), "compiled", costs=UNIT)
    assert ms(result) <= int(row["makespan"])
    assert _held(result) <= int(row["peak"])


@pytest.mark.parametrize("case", goldens.cases("sail_zb", "sail_vgreedy"), ids=str)
def test_sails_orders_at_the_costs_that_they_were_made_for(case: goldens.Case) -> None:
    """The file's own order, simulated at those costs, is no faster and needs no less."""
    costs = {key: f"{case.extra[key]} us" for key in TIMES}
    links = between_nodes(latency=f"{case.extra['message']} us")
    if case.schedule == "sail_zb":
        schedule: dict[str, Any] = {"name": "zb", "max_in_flight": int(case.extra["max_pending_backward"])}
    else:
        schedule = {"name": f"v_{case.extra['memory']}"}
    theirs, ours = (
        simulate(s, case.ranks, case.microbatches, "compiled", costs=costs, cluster=links)
        for s in ({"name": "file", "path": str(case.path)}, schedule)
    )
    assert ours.timeline.makespan <= theirs.timeline.makespan
    assert _held(ours) <= _held(theirs)
