"""Zero-bubble schedules, fixed and searched for: closed forms and memory. Beside other programs: test_searched_published."""

from __future__ import annotations

import pytest

from tests.simulated import ms, simulate

UNIT = {"forward": "1 ms", "input_grad": "1 ms", "weight_grad": "1 ms"}


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
