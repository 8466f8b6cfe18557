"""Constants from measured step times: what is known comes out again, what can't be told is said."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import ppsim
from ppsim.analysis.calibrate import calibrated
from ppsim.cli.app import app
from ppsim.errors import ConfigError

pytest.importorskip("scipy", reason="calibrate fits with SciPy (extra fit)")

CONFIG = """\
schedule: 1f1b
pipeline: {ranks: 4, microbatches: 8}
costs: {per: model, forward: 40 ms, backward: 80 ms}
runtime: {op_overhead: 100 us}
"""
CASES = [(2, 8), (4, 8), (4, 16), (8, 8), (8, 32)]


def step_ms(ranks: int, microbatches: int, forward: float = 46, overhead: float = 0.3) -> float:
    """(m + p - 1) · (F + B) of equal stages with free links, an overhead per op."""
    return (microbatches + ranks - 1) * ((forward + 80) / ranks + 2 * overhead)


@pytest.fixture
def files(tmp_path):
    def write(runs: str, config: str = CONFIG):
        (tmp_path / "c.yaml").write_text(config)
        (tmp_path / "runs.csv").write_text(runs)
        return tmp_path / "c.yaml", tmp_path / "runs.csv"

    return write


def table(times: list[float], unit: str = "ms") -> str:
    rows = "".join(f"{p}, {m}, {ms} {unit}\n" for (p, m), ms in zip(CASES, times, strict=True))
    return f"# measured on a rainy day\npipeline.ranks, microbatches, step_time\n{rows}"


CONSTANTS = ["costs.forward", "runtime.op_overhead"]


def test_constants_that_the_times_were_made_with_come_out(files):
    found = calibrated(*files(table([step_ms(*case) for case in CASES])), CONSTANTS)
    assert [float(text.split()[0]) for text in found.constants.values()] == pytest.approx([46, 300], rel=1e-3)
    assert max(map(abs, found.residuals)) < 1e-4
    assert found.held_out_residuals is not None and max(map(abs, found.held_out_residuals)) < 1e-4
    assert all(error is not None and error < 1e-3 for error in found.spread.values())
    assert found.notes == []


def test_the_calibrated_experiment_runs_as_it_was_fitted(files, tmp_path):
    found = calibrated(*files(table([step_ms(*case) for case in CASES])), CONSTANTS)
    (tmp_path / "new.yaml").write_text(found.text)
    result = ppsim.simulate(ppsim.load(tmp_path / "new.yaml"))
    assert result.summary["step_time_s"] == pytest.approx(step_ms(4, 8) / 1e3, rel=1e-4)
    assert found.text.startswith("# calibrated with 5 runs of runs.csv: residuals 0.0% on average")


def test_a_run_that_is_off_shows_most_where_it_is_held_out(files):
    times = [step_ms(*case) for case in CASES]
    times[3] *= 1.2  # the others agree, so that they predict it 1/1.2 - 1 = -16.7 % too low
    found = calibrated(*files(table(times)), CONSTANTS)
    assert found.held_out_residuals is not None
    assert found.held_out_residuals[3] == pytest.approx(1 / 1.2 - 1, abs=0.02)
    assert abs(found.residuals[3]) < abs(found.held_out_residuals[3])


def test_as_many_constants_as_runs_leave_none_to_hold_out(files):
    found = calibrated(*files("pipeline.ranks, step_ms\n2, 574.8\n8, 250.5\n"), CONSTANTS)
    assert found.held_out is None and set(found.spread.values()) == {None}


def test_constants_that_do_the_same_are_told(files):
    found = calibrated(*files(table([step_ms(*case) for case in CASES])), ["costs.forward", "costs.backward"])
    (note,) = found.notes  # their sum alone matters to 1F1B with equal stages
    assert note.startswith("these runs don't tell costs.forward and costs.backward apart")


def test_a_list_is_scaled_as_a_whole(files):
    config = CONFIG.replace("per: model, forward: 40 ms", "forward: [5 ms, 10 ms, 10 ms, 10 ms]").replace(
        "80 ms", "20 ms"
    )
    # m = 8 on 4 ranks: 7 · (F3 + B) + sum of all; with twice the forwards 7 · 40 + 70 + 80 instead of 7 · 30 + 35 + 80
    found = calibrated(
        *files("step_ms\n430.0\n", config.replace("op_overhead: 100 us", "send: overlapped")), ["costs.forward"]
    )
    assert found.constants["costs.forward"][0] == "10 ms"


@pytest.mark.parametrize(
    ("runs", "constants", "message"),
    [
        ("pipeline.ranks, step_time\n2, 100\n", CONSTANTS[:1], "runs.csv:2: '100' is a bare number; write the unit"),
        ("pipeline.rank, step_ms\n2, 100\n", CONSTANTS[:1], "runs.csv:1: column 'pipeline.rank': pipeline has no key 'rank'"),
        ("pipeline.ranks\n2\n", CONSTANTS[:1], "runs.csv:1: no column step_time"),
        ("pipeline.ranks, step_ms\n2, nan\n", CONSTANTS[:1], "runs.csv:2: 'nan ms' is not a finite number"),
        ("pipeline.ranks, step_ms\n2, 0\n", CONSTANTS[:1], "runs.csv:2: step_time: a step of no time"),
        ("pipeline.ranks, step_ms\n2\n", CONSTANTS[:1], "runs.csv:2: 1 values, where the first row names 2 columns"),
        ("pipeline.ranks, step_ms\n", CONSTANTS[:1], "runs.csv:1: no runs below the columns"),
        ("", CONSTANTS[:1], "runs.csv: no runs; the columns are settings that differ, and step_time"),
        ("pipeline.ranks, step_ms\n-2, 9\n", CONSTANTS[:1], "runs.csv:2: pipeline.ranks: -2 is too small"),
        ("pipeline.ranks, step_ms\n2, 9\n", CONSTANTS, "2 constants can't be told from 1 runs"),
        ("pipeline.ranks, step_ms\n2, 9\n", [], "--constant: missing; with costs of kind given say what is to be fitted"),
        ("pipeline.ranks, step_ms\n2, 9\n", ["costs.forwards"], "--constant costs.forwards: costs has no key 'forwards'"),
        ("pipeline.ranks, step_ms\n2, 9\n", ["costs.recompute"], "has no value to start from; write --constant costs.recompute="),
        ("pipeline.ranks, step_ms\n2, 9\n", ["costs.optimizer_state"], "--constant costs.optimizer_state: '0 B' only scales"),
        ("pipeline.ranks, step_ms\n2, 9\n", ["costs.weights"], "has no value to start from; write --constant costs.weights=START"),
        ("pipeline.ranks, step_ms\n2, 9\n", ["schedule"], "--constant schedule: '1f1b' is no number that could be fitted"),
        ("pipeline.ranks, step_ms\n2, 9\n", ["costs.weights=1 GB"], "changes the step time of none of these runs"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(files, runs, constants, message):
    with pytest.raises(ConfigError) as error:
        calibrated(*files(runs), constants)
    assert message in str(error.value)


@pytest.mark.slow
def test_the_command_prints_tables_or_json_and_writes_the_experiment(files, tmp_path):
    config, runs = files(table([step_ms(*case) for case in CASES]))
    arguments = [
        "calibrate",
        str(config),
        "--measured",
        str(runs),
        "--constant",
        CONSTANTS[0],
        "--constant",
        CONSTANTS[1],
    ]
    said = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "new.yaml")])
    assert said.exit_code == 0 and "of runs held out: 0.0% on average" in said.output
    assert ppsim.load(tmp_path / "new.yaml").runtime.op_overhead == pytest.approx(300e-6, rel=1e-3)
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)
    assert [run["line"] for run in found["runs"]] == [3, 4, 5, 6, 7]
    assert found["mean_abs_residual"] < 1e-4
