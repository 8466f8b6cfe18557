"""configs/plan-70b-64xh100.yaml: how to cut a model, asked on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CONFIG = Path(__file__).parents[2] / "configs" / "plan-70b-64xh100.yaml"


def search(*arguments: str) -> dict[str, Any]:
    run = [sys.executable, "-m", "ppsim", "search", str(CONFIG), "--json", "--jobs", "2", *arguments]
    found = subprocess.run(run, capture_output=True, text=True, check=True, encoding="utf-8")
    return dict(json.loads(found.stdout))


def devices(changes: dict[str, Any]) -> int:
    return int(changes["costs.tensor_parallel"] * changes["pipeline.ranks"] * changes["pipeline.data_parallel"])


@pytest.mark.slow
def test_a_small_batch_of_the_same_question() -> None:
    """A sixteenth of the batch: every answer uses all 64 devices and fits; the best is named before the runner-up."""
    found = search("--set", "pipeline.global_batch=32", "--set", "sweep.grid.schedule=[1f1b]", "--top", "3")
    assert len(found["best"]) == 3
    for case in found["best"]:
        assert devices(case["changes"]) == 64
        assert case["peak_memory_bytes"] < 80e9 and case["fits"]
        assert case["tokens_per_s"] == pytest.approx(32 * 4096 / case["step_time_s"])
        assert 0 <= case["heaviest_rank"] < case["ranks"]
    first, second = found["best"][:2]
    gap = second["step_time_s"] / first["step_time_s"] - 1
    assert found["runner_up"].startswith(f"{gap:.1%} slower: " if gap else "as fast")


@pytest.mark.slow
def test_the_shipped_question_has_ten_answers() -> None:
    found = search()
    assert len(found["best"]) == 10
    assert all(devices(case["changes"]) == 64 and case["fits"] for case in found["best"])
    assert found["simulated_share"] < 0.5  # the rest is cut by its bound
    times = [case["step_time_s"] for case in found["best"]]
    assert times == sorted(times)
