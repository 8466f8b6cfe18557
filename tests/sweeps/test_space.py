"""Which cases a sweep has, in which order, and which of them are drawn."""

from __future__ import annotations

from typing import Any

import pytest

from ppsim.config.sweep import Range, Sweep
from ppsim.errors import ConfigError
from ppsim.sweeps.space import Cases, at_most, chosen


def every(**sweep: Any) -> list[dict[str, Any]]:
    return [changes for _, changes in chosen(Sweep.model_validate(sweep), lambda *_: True)]


def test_a_grid_is_every_combination_the_last_key_fastest() -> None:
    assert every(grid={"a": [1, 2], "b": ["x", "y"]}) == [
        {"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"},
    ]  # fmt: skip


def test_a_zip_takes_the_lists_together() -> None:
    assert every(zip={"a": [1, 2], "b": [3, 4]}) == [{"a": 1, "b": 3}, {"a": 2, "b": 4}]


def test_a_list_is_case_after_case_and_may_hold_spaces() -> None:
    assert every(list=[{"a": 1}, {"a": 2, "grid": {"b": [3, 4]}}]) == [{"a": 1}, {"a": 2, "b": 3}, {"a": 2, "b": 4}]


def test_the_parts_of_a_space_are_combined() -> None:
    """2 · 2 · (1 + 3) = 16 cases, all different."""
    found = every(grid={"a": [1, 2]}, zip={"b": [1, 2], "c": [3, 4]}, list=[{"d": 0}, {"grid": {"e": [1, 2, 3]}}])
    assert len(found) == 16
    assert len({str(case) for case in found}) == 16


def test_a_whole_is_set_before_its_parts() -> None:
    """Else schedule: gpipe would undo schedule.backward."""
    assert list(every(grid={"schedule.backward": ["x"], "schedule": ["gpipe"]})[0]) == ["schedule", "schedule.backward"]


def test_ranges() -> None:
    assert Range(first=1, last=128, times=2).values() == [1, 2, 4, 8, 16, 32, 64, 128]
    assert Range(first=2, last=9, step=3).values() == [2, 5, 8]
    assert Range(first=3, last=3).values() == [3]


def test_conditions_of_an_item_are_for_its_cases_alone() -> None:
    cases = Cases(Sweep.model_validate({"where": "a > 0", "list": [{"a": 1}, {"a": 2, "where": "b > 0"}]}))
    assert [[condition.text for condition in cases.case(i)[1]] for i in range(2)] == [["a > 0"], ["a > 0", "b > 0"]]


def test_samples_are_the_same_for_a_seed_and_others_for_another() -> None:
    grid = {"a": list(range(50)), "b": list(range(50))}
    first = every(grid=grid, samples=20, seed=1)
    assert len(first) == 20
    assert first == every(grid=grid, samples=20, seed=1)
    assert first != every(grid=grid, samples=20, seed=2)
    assert first == sorted(first, key=lambda case: (case["a"], case["b"]))


def test_samples_are_of_the_cases_that_hold() -> None:
    sweep = Sweep.model_validate({"grid": {"a": list(range(100))}, "samples": 5})
    found = [changes["a"] for _, changes in chosen(sweep, lambda changes, _: changes["a"] % 10 == 0)]
    assert len(found) == 5
    assert all(a % 10 == 0 for a in found)
    assert len([*chosen(sweep, lambda changes, _: changes["a"] < 3)]) == 3  # no more hold


def test_samples_of_a_space_too_large_to_list() -> None:
    """100^10 = 1e20 cases: more than could be numbered one by one, or by a 64-bit integer."""
    grid = {f"k{i}": list(range(100)) for i in range(10)}
    found = every(grid=grid, samples=7)
    assert len(found) == 7
    with pytest.raises(ConfigError, match="100,000,000,000,000,000,000 cases before its conditions"):
        every(grid=grid)


def test_at_most_so_many_cases_are_simulated() -> None:
    """Before any condition: 3 · 4 in the grid; of these two are drawn, or all, where more are asked for."""
    grid = {"a": [1, 2, 3], "b": [1, 2, 3, 4]}
    assert [at_most(Sweep(grid=grid, samples=samples)) for samples in (None, 2, 20)] == [12, 2, 12]
