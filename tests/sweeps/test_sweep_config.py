"""``sweep:`` in a config: every mistake at its line, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import ppsim
from ppsim.config import resolved
from ppsim.config.experiment import Experiment
from ppsim.config.keys import default, problem
from ppsim.config.load import load
from tests.sweeps.sweeping import BASE, call, written


@pytest.mark.parametrize(
    ("sweep", "line"),
    [
        ("grid: {pipeline.rank: [2]}", "x.yaml:5:10: sweep.grid.pipeline.rank: pipeline has no key 'rank'; did you mean 'ranks'?"),
        ("grid: {schedule.virtual_stage: [2]}", "x.yaml:5:10: sweep.grid.schedule.virtual_stage: schedule has no key 'virtual_stage'; did you mean 'virtual_stages'?"),
        ("grid: {pipeline.ranks.x: [2]}", "x.yaml:5:10: sweep.grid.pipeline.ranks.x: pipeline.ranks has no keys below it"),
        ("grid: {name: [a]}", "x.yaml:5:10: sweep.grid.name: can't be varied; settings of the simulation can"),
        ("grid: {pipeline.ranks: []}", "x.yaml:5:10: sweep.grid.pipeline.ranks: no values"),
        ("grid: {pipeline.ranks: 4}", "x.yaml:5:10: sweep.grid.pipeline.ranks: 4 is not a list"),
        ("gird: {pipeline.ranks: [2]}", "x.yaml:5:3: sweep.gird: unknown key; did you mean 'grid'?"),
        ("zip: {pipeline.ranks: [2, 4], pipeline.microbatches: [8]}", "x.yaml:5:3: sweep.zip: the lists must be of equal length: pipeline.ranks has 2, pipeline.microbatches has 1"),
        ("samples: 3", "x.yaml:4:1: sweep: nothing varies; write grid:, zip: or list: under it"),
        ("grid: {pipeline.ranks: {first: 8, last: 2}}", "x.yaml:5:10: sweep.grid.pipeline.ranks: last, 2, is below first, 8"),
        ("grid: {pipeline.ranks: {first: 0, last: 8, times: 2}}", "x.yaml:5:10: sweep.grid.pipeline.ranks: first is 0; multiplied by 2, it never gets to 8"),
        ("{grid: {pipeline.ranks: [2]}, zip: {pipeline.ranks: [4]}}", "x.yaml:5:39: sweep.zip.pipeline.ranks: is given twice; grid has it, too"),
        ("{grid: {pipeline.ranks: [2]}, list: [{pipeline.ranks: 4}]}", "x.yaml:5:41: sweep.list.0.pipeline.ranks: is given twice; grid has it, too"),
        ("{grid: {pipeline.ranks: [2]}, where: microbatchs > 2}", "x.yaml:5:33: sweep.where: there is no setting 'microbatchs'; did you mean 'microbatches'?"),
        ("{grid: {pipeline.ranks: [2]}, where: [ranks > 1, latency > 2]}", "x.yaml:5:52: sweep.where.1: 'latency' could be"),
        ("{grid: {pipeline.ranks: [2]}, where: open('x')}", "x.yaml:5:33: sweep.where: 'open('x')' can't stand in a condition"),
        ("{grid: {pipeline.ranks: [2]}, samples: 0}", "x.yaml:5:33: sweep.samples: 0 is too small; at least 1"),
    ],
)  # fmt: skip
def test_a_mistake_is_shown_at_its_line(sweep: str, line: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"{BASE}sweep:\n  {sweep}\n")
    with pytest.raises(ppsim.ConfigError) as error:
        load(path)
    assert line in str(error.value).replace(str(tmp_path) + "/", "")


def test_all_mistakes_at_once_beside_those_of_other_sections(tmp_path: Path) -> None:
    path = written(
        tmp_path, BASE.replace("ranks: 4", "ranks: four") + "sweep: {grid: {pipeline.rank: [2]}, where: xx > 1}\n"
    )
    with pytest.raises(ppsim.ConfigError) as error:
        load(path)
    for key in ("pipeline.ranks: 'four' is not a whole number", "sweep.grid.pipeline.rank:", "sweep.where:"):
        assert key in str(error.value)


def test_run_simulates_the_base_case_and_says_so(tmp_path: Path) -> None:
    """m = 8, not the sweep's 64: (8+3) of 16 ms + 32 ms a stage = 528 ms."""
    written(tmp_path, BASE + "sweep: {grid: {pipeline.microbatches: [64]}}\n")
    done = call("run", "x.yaml", "--no-files", cwd=tmp_path)
    assert "528 ms" in done.stdout
    assert "this runs the base case; `ppsim sweep` runs the others" in done.stdout


def test_a_resolved_config_keeps_its_sweep(tmp_path: Path) -> None:
    sweep = "{grid: {pipeline.ranks: [2, 4]}, list: [{schedule: gpipe}, {grid: {schedule: [1f1b, bpipe]}}], where: ranks > 1}"
    experiment = load(written(tmp_path, f"{BASE}sweep: {sweep}\n"))
    again = load(written(tmp_path, resolved.text(experiment), "resolved.yaml"))
    assert again.sweep == experiment.sweep
    assert resolved.config_id(again) == resolved.config_id(experiment)


@pytest.mark.slow
def test_check_and_schema_know_the_sweep(tmp_path: Path) -> None:
    written(tmp_path, BASE + "sweep: {grid: {pipeline.ranks: [2]}, where: ranks >= 2}\n")
    assert "where: ranks >= 2" in call("check", "x.yaml", cwd=tmp_path).stdout
    assert '"samples"' in call("schema", cwd=tmp_path).stdout


def test_keys() -> None:
    for key in (
        "schedule",
        "schedule.group",
        "cluster.links.0.latency",
        "costs.forward.3",
        "runtime",
        "costs.message.hidden",
    ):
        assert problem(key, Experiment) is None, key
    assert default("pipeline.steps", Experiment) == 1
    assert default("pipeline.ranks", Experiment) is None
    assert default("runtime.send", Experiment) == "overlapped"
