"""Schedules whose order is searched for: no worse than other programs' orders, at no more memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import goldens
from tests.simulated import between_nodes, ms, simulate

UNIT = {"forward": "1 ms", "input_grad": "1 ms", "weight_grad": "1 ms"}


def schedule_of(case: goldens.Case) -> dict[str, Any]:
    """The schedule with the memory that the golden order had."""
    if case.schedule == "sail_vgreedy":
        return {"name": {"half": "v_half", "min": "v_min"}[case.extra["mem_setup"]]}
    return {"name": "zb", "max_in_flight": int(case.extra["max_pending_backward"])}


GOLDEN = [
    case for case in goldens.cases("sail_zb", "sail_vgreedy") if "max_pending_backward" in case.extra or "mem_setup" in case.extra
]


@pytest.mark.parametrize("case", GOLDEN, ids=[case.path.stem for case in GOLDEN])
def test_no_slower_at_no_more_memory_than_sails_orders(case: goldens.Case) -> None:
    """Unit times; memory counts an activation until its W has ended."""
    result = simulate(schedule_of(case), case.ranks, case.microbatches, costs=UNIT)
    held = [row["peak_by_category"]["activations"] for row in result.summary["per_rank"]]
    assert ms(result) <= case.makespan
    assert max(held) <= max(case.peak_until_b_or_w)


def _table_5() -> list[list[str]]:
    with (Path(__file__).parents[1] / "data" / "zero_bubble_table5_split.csv").open(encoding="utf-8") as file:
        return [line.strip().split(",") for line in file if not line.startswith(("#", "p,"))]


@pytest.mark.parametrize("row", _table_5(), ids=lambda row: f"p{row[0]}-m{row[1]}")
def test_zero_bubble_table_5(row: list[str]) -> None:
    """ZB-H1 by its makespan, ZB-H2 by its longest span (the paper's convention): four digits. ZB-1p, ZB-2p: no worse."""
    p, m = int(row[0]), int(row[1])
    work = m * sum(float(t) for t in row[2:5])
    costs = {"forward": f"{row[2]} ms", "input_grad": f"{row[3]} ms", "weight_grad": f"{row[4]} ms"}
    costs |= {"activation": "100000 B", "held_for_weight_grad": f"{row[10]} B"}
    links = between_nodes(latency=f"{row[5]} ms")

    def rate(schedule: Any, figure: str) -> float:
        return 1 - work / (simulate(schedule, p, m, costs=costs, cluster=links).summary[figure] * 1e3)

    assert round(rate("zb_h1", "makespan_s"), 4) == float(row[6])
    assert round(rate("zb_h2", "max_span_s"), 4) == float(row[7])
    if p * m <= 1000:
        assert rate("zb", "makespan_s") <= float(row[8]) + 0.001
        twice = {"name": "zb", "max_in_flight": 2 * p, "objective": "span"}
        assert rate(twice, "max_span_s") <= float(row[9]) + 0.001


@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 8), (4, 5), (8, 64)])
def test_zb_h1_closed_form(p: int, m: int) -> None:
    """3m + (p-1) for F = I = W = 1 and m >= p; p activations on every rank until W (D14: 199, and 8 everywhere)."""
    result = simulate("zb_h1", p, m, costs=UNIT)
    assert ms(result) == 3 * m + p - 1
    assert [row["peak_by_category"]["activations"] for row in result.summary["per_rank"]] == [p] * p


def test_zb_h2_gains_across_steps_without_a_barrier() -> None:
    """D15: 27, 51 and 99 for 1, 2 and 4 steps at p = 4, m = 8; no idle time inside a rank's span; 7 in flight."""
    free = {"barrier": False}
    runs = {n: simulate("zb_h2", 4, 8, costs=UNIT, pipeline={"steps": n}, runtime=free) for n in (1, 2, 4)}
    assert {n: ms(run) for n, run in runs.items()} == {1: 27, 2: 51, 4: 99}
    ranks = runs[1].summary["per_rank"]
    assert [round((row["span_s"] - row["busy_s"]) * 1e3, 6) for row in ranks] == [0, 0, 0, 0]
    assert max(row["peak_in_flight"] for row in ranks) == 7
    h1 = simulate("zb_h1", 4, 8, costs=UNIT).summary["per_rank"]
    assert [round((row["span_s"] - row["busy_s"]) * 1e3, 6) for row in h1] == [3, 2, 1, 0]


@pytest.mark.parametrize("limit", [2, 4, 6, 8])
def test_more_memory_is_never_slower(limit: int) -> None:
    less, more = (simulate({"name": "zb", "max_in_flight": n}, 4, 8, costs=UNIT) for n in (limit, limit + 2))
    assert ms(more) <= ms(less)


def test_v_shapes_need_what_their_paper_says() -> None:
    """p = 8, m = 32, F = I = W = 1 per rank's share: V-Half 5 and V-Min 4 activations of a rank (10 and 8 chunks)."""
    for name, chunks in (("zbv_auto", 16), ("v_half", 10), ("v_min", 8)):
        result = simulate(name, 8, 16, costs={**UNIT, "per": "rank", "activation": "2 B"})
        assert max(row["peak_by_category"]["activations"] for row in result.summary["per_rank"]) <= chunks


def test_too_little_memory_is_an_answer() -> None:
    import ppsim

    with pytest.raises(ppsim.ConfigError, match=r"schedule\.max_in_flight: .*1 "):
        simulate({"name": "zbv_auto", "max_in_flight": 1}, 4, 8)


@pytest.mark.parametrize("priority", ["forward", "backward"])
@pytest.mark.parametrize("shape", ["loop", "v"])
def test_greedy_runs_what_it_is_given(priority: str, shape: str) -> None:
    """An order for unequal stages that beats plain 1F1B on them, within 1F1B's memory."""
    stages = 8 if shape == "v" else 4
    costs = {"forward": [f"{1 + s % 3} ms" for s in range(stages)], "input_grad": "1 ms", "weight_grad": "1 ms"}
    result = simulate({"name": "greedy", "priority": priority, "shape": shape}, 4, 12, costs=costs)
    assert list(result.timeline.violations()) == []
    assert max(row["peak_in_flight"] for row in result.summary["per_rank"]) <= stages
