"""The tables show what was chosen among, and a row of them is a config that runs; the same from Python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ppsim
from tests.marks import rest_slow

# GPipe and 1F1B take (m + p - 1)(F + B) / p of the whole model's work: 9·30/2 = 135 ms on 2 ranks, 11·30/4 = 82.5 on 4.
CONFIG = """\
name: choice
schedule: gpipe
pipeline: {ranks: 2, microbatches: 8, micro_batch_size: 2, data_parallel: 1}
costs: {per: model, forward: 10 ms, backward: 20 ms, activation: 1 GiB, weights: 1 GiB, micro_batch_size: 2}
sweep:
  grid: {pipeline.ranks: [2, 4], schedule: [gpipe, 1f1b], pipeline.micro_batch_size: [2]}
"""


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "choice.yaml").write_text(CONFIG, encoding="utf-8")
    command = [sys.executable, "-m", "ppsim", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=400)


@pytest.mark.parametrize("command", ["sweep", pytest.param("search", marks=pytest.mark.slow)])
def test_axes_that_make_no_column_are_summed_up_and_the_measure_is_named(tmp_path: Path, command: str) -> None:
    done = call(tmp_path, command, "choice.yaml", "--jobs", "1", "--set", "schedule=1f1b")
    assert done.returncode == 0, done.stderr
    assert "same in all: micro_batch_size = 2" in done.stdout
    assert "step_time_s, less is better" in done.stdout


@pytest.mark.parametrize("command", rest_slow(["sweep", "search"], 0))
def test_the_best_case_is_written_as_a_config_that_runs(tmp_path: Path, command: str) -> None:
    """The best is 1F1B on 4 ranks: as fast as GPipe, with less memory; row 2 is GPipe."""
    for row, schedule in (("1", "1f1b"), ("2", "gpipe")):
        done = call(tmp_path, command, "choice.yaml", "--jobs", "1", "--write-best", "sub/best.yaml", "--row", row)
        assert done.returncode == 0, done.stderr
        summary = json.loads(call(tmp_path, "run", "sub/best.yaml", "--json", "--no-files").stdout)
        assert (summary["schedule"], summary["ranks"]) == (schedule, 4)
        assert summary["step_time_s"] == pytest.approx(82.5e-3)  # 11·30/4


@pytest.mark.slow
def test_a_row_that_there_is_not(tmp_path: Path) -> None:
    done = call(tmp_path, "search", "choice.yaml", "--jobs", "1", "--write-best", "best.yaml", "--row", "9")
    assert done.returncode == 2
    assert "--row: 9 is not in the table of the best, which has rows 1 to 4" in done.stderr
    assert not (tmp_path / "best.yaml").exists()


def experiment(**sections: Any) -> ppsim.Experiment:
    costs = {"per": "model", "forward": "10 ms", "backward": "20 ms", "activation": "1 GiB"}
    return ppsim.Experiment(schedule="gpipe", pipeline={"ranks": 2, "microbatches": 8}, costs=costs, **sections)


GRID = {"grid": {"pipeline.ranks": [2, 4], "schedule": ["gpipe", "1f1b"]}}


def test_a_sweep_from_python(tmp_path: Path) -> None:
    swept = ppsim.sweep(experiment(), GRID, jobs=1)
    assert len(swept.table) == 4
    assert swept.ranking.figure == "step_time_s"
    best = swept.experiment()
    assert (best.schedule.name, best.pipeline.ranks) == ("1f1b", 4)
    assert ppsim.load(swept.write(tmp_path / "a" / "best.yaml", row=2)).schedule.name == "gpipe"


@pytest.mark.slow
def test_a_sweep_from_python_goes_on(tmp_path: Path) -> None:
    ppsim.sweep(experiment(), {"grid": {"pipeline.ranks": [2]}}, out=tmp_path / "s", jobs=1)
    swept = ppsim.sweep(experiment(), {"grid": {"pipeline.ranks": [2, 4]}}, out=tmp_path / "s", jobs=1)
    assert sorted(swept.table["pipeline.ranks"]) == [2, 4]
    assert len(ppsim.read_sweep(tmp_path / "s")) == 2


@pytest.mark.slow
def test_a_search_from_python_equals_the_sweep() -> None:
    swept, searched = ppsim.sweep(experiment(), GRID, jobs=1), ppsim.search(experiment(), GRID, jobs=1)
    assert [case["id"] for case in searched.best] == [case["id"] for case in swept.best]
    assert searched.cases == 4
    assert list(searched.table["step_time_s"]) == sorted(case["step_time_s"] for case in swept.best)


def test_what_python_is_told_where_nothing_varies() -> None:
    with pytest.raises(ppsim.ConfigError, match="no sweep: say what varies"):
        ppsim.sweep(experiment())
    with pytest.raises(ppsim.ConfigError, match="takes an Experiment or the path"):
        ppsim.search(3)  # type: ignore[arg-type]  # what a user may do


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    rest_slow(
        [
            (
                ("sweep", "--row", "2"),
                "--row: says which config --write-best writes; give --write-best FILE with row 2",
            ),
            (
                ("search", "--row", "2"),
                "--row: says which config --write-best writes; give --write-best FILE with row 2",
            ),
            (
                ("sweep", "--write-best", "b.yaml", "--shard", "1/2"),
                "--write-best: a shard doesn't know the best of all",
            ),
            (("sweep", "--write-best", "b.yaml", "--dry-run"), "--write-best: --dry-run simulates nothing"),
            (
                ("search", "--write-best", "b.yaml", "--row", "3", "--top", "2"),
                "--write-best: row 3 of the 2 that --top asks",
            ),
        ],
        several=True,
    ),
)
def test_a_choice_that_nothing_can_write_is_refused_at_once(
    tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    command, *options = arguments
    done = call(tmp_path, command, "choice.yaml", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(complaint)
    assert [path.name for path in tmp_path.iterdir()] == ["choice.yaml"]


@pytest.mark.slow
def test_what_peaks_leave_out_is_said(tmp_path: Path) -> None:
    """Neither activations nor weights nor messages: that nothing is held isn't known, it only wasn't said."""
    (tmp_path / "bare.yaml").write_text(
        "schedule: gpipe\npipeline: {ranks: 2, microbatches: 4}\ncosts: {per: model, forward: 1 ms, backward: 2 ms}\n"
        "sweep: {grid: {pipeline.ranks: [2, 4]}}\n",
        encoding="utf-8",
    )
    done = call(tmp_path, "sweep", "bare.yaml", "--jobs", "1")
    assert "peak memory leaves out activations and weights: not given" in done.stdout
    assert " 0 B" not in done.stdout
    assert "leaves out" not in call(tmp_path, "sweep", "choice.yaml", "--jobs", "1").stdout
