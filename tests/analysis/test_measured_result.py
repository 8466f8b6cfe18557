"""A measured run is a result: its figures where they can be known, idle time that adds up, its place beside others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ppsim
from ppsim.analysis.measured.result import MeasuredResult, as_result
from ppsim.cli.app import app
from ppsim.formats import that
from ppsim.formats.traces import read_trace

DATA = Path(__file__).parents[1] / "data" / "traces"
PRIMUS = DATA / "primus-pp8"


@pytest.fixture(scope="module")
def primus() -> MeasuredResult:
    return as_result(read_trace(PRIMUS))


def test_busy_and_idle_time_add_up_to_the_step(primus: MeasuredResult) -> None:
    idle = primus.idle
    assert np.array_equal(idle.busy + sum(idle.causes.values()), np.broadcast_to(primus.lanes.span, idle.busy.shape))
    for row in primus.summary["per_rank"]:
        assert row["busy_s"] + sum(row["waits_s"].values()) == pytest.approx(primus.summary["makespan_s"], abs=1e-9)


def test_the_bubble_of_primus(primus: MeasuredResult) -> None:
    # 16 forwards and backwards of 8 ranks take 16.74 s of 8 · 3.2447 s (iteration 8, by a sum over its published times).
    raw = [json.loads((PRIMUS / f"pp_rank_{rank}.json").read_text())["8"] for rank in range(8)]
    work = sum(e - s for r in raw for k in ("fwd", "bwd") for s, e in zip(r[f"{k}_start"], r[f"{k}_end"], strict=True))
    span = max(raw[0]["bwd_end"]) - min(raw[0]["fwd_start"])
    step = primus.lanes.steps.index(8)
    assert primus.idle.bubble_ratio[step] == pytest.approx(1 - work / (8 * span), abs=1e-6)


def test_what_cannot_be_known_is_none(primus: MeasuredResult) -> None:
    s = primus.summary
    assert s["links"] is s["pairs"] is s["mfu"] is s["critical_path"] is s["fits"] is None
    assert s["per_rank"][0]["peak_in_flight"] is None
    assert s["per_rank"][0]["waits_s"]["transfer"] == 0  # Primus records none: what isn't upstream is the gap
    assert s["peak_memory_bytes"] / 2**30 == pytest.approx(104.33, abs=0.01)  # as published


def test_spread_over_steps(primus: MeasuredResult) -> None:
    step = primus.over_steps["step_s"]
    assert primus.over_steps["steps"] == 8
    assert step["max"] == pytest.approx(3.49463, abs=1e-5)  # iteration 18, by its own times
    assert step["min"] <= step["p25"] <= step["median"] <= step["p75"] <= step["max"]


CONFIGS = {
    "1f1b": "schedule: 1f1b\npipeline: {ranks: 4, microbatches: 6, steps: 2}",
    "interleaved": "schedule: {name: interleaved_1f1b, virtual_stages: 2}\npipeline: {ranks: 4, microbatches: 8}",
    "zbv": "schedule: zbv\npipeline: {ranks: 3, microbatches: 6}",
    "dualpipev": "schedule: dualpipev\npipeline: {ranks: 3, microbatches: 8}",
}
REST = """
costs: {per: stage, forward: 10 ms, input_grad: 12 ms, weight_grad: 8 ms, message: 100 MB}
cluster: {ranks_per_node: 2, intra_node: {bandwidth: 100 GB/s, latency: 2 us}, inter_node: {bandwidth: 5 GB/s, latency: 20 us}}
"""


@pytest.mark.parametrize("file", ["trace.json", "tasks.csv"])
@pytest.mark.parametrize("name", CONFIGS)
def test_an_exported_trace_reads_back_to_the_same_figures(name: str, file: str, tmp_path: Path) -> None:
    """Makespan, bubble and the waits by cause, to the nanosecond."""
    (tmp_path / "x.yaml").write_text(CONFIGS[name] + REST)
    result = ppsim.simulate(ppsim.load(tmp_path / "x.yaml"))
    with (tmp_path / "trace.json").open("w") as stream:
        that("export")["chrome-trace"].run(result, stream)
    result.tasks.to_csv(tmp_path / "tasks.csv", index=False)
    result.transfers.to_csv(tmp_path / "transfers.csv", index=False)
    found = as_result(read_trace(tmp_path / file))
    keys = ("makespan_s", "bubble_ratio", "bubble_overhead", "max_span_s")
    assert {key: found.summary[key] for key in keys} == {key: result.summary[key] for key in keys}
    rows: list[dict[str, Any]] = result.summary["per_rank"]
    for mine, its in zip(found.summary["per_rank"], rows, strict=True):
        assert mine["waits_s"] == its["waits_s"]
        assert mine["busy_s"] == its["busy_s"]


def test_run_shows_a_trace(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["run", str(PRIMUS), "--out", str(tmp_path / "out")], catch_exceptions=False)
    assert "primus-pp8: primus; 1f1b, p = 8, m = 16" in result.stdout
    assert "step, first F to last B: 3.241 s, the median of 8 (3.234 s to 3.495 s)" in result.stdout
    assert {"gantt.png", "summary.json", "tasks.csv"} <= {path.name for path in (tmp_path / "out").iterdir()}
    plain = CliRunner().invoke(app, ["run", str(PRIMUS), "--json", "--no-files"], catch_exceptions=False)
    assert json.loads(plain.stdout)["engine"] == "measured (primus)"


def test_measured_beside_simulated(primus: MeasuredResult, tmp_path: Path) -> None:
    from ppsim.analysis.measured.fit import fit

    fitted = fit(primus.measured)
    found = ppsim.compare([primus, fitted.result])
    measured, simulated = found.rows
    assert measured["schedule"] == "measured primus-pp8: 1f1b"
    assert measured["work_s"] is measured["messages"] is None
    assert simulated["compute_span_s"] == pytest.approx(measured["compute_span_s"], rel=0.02)
    picture = tmp_path / "both.png"
    ppsim.plot.save(ppsim.plot.charts(found), picture)
    assert picture.stat().st_size > 10_000


def test_compare_takes_traces_and_experiments(tmp_path: Path) -> None:
    runner = CliRunner()
    runner.invoke(app, ["fit", str(PRIMUS), "-o", str(tmp_path / "fitted.yaml")], catch_exceptions=False)
    both = [str(PRIMUS), str(tmp_path / "fitted.yaml")]
    result = runner.invoke(app, ["compare", *both], catch_exceptions=False)
    assert "from the first forward to the last backward, all that is measured" in result.stdout
    refused = runner.invoke(app, ["compare", *both, "--parts", str(tmp_path / "parts.png")])
    assert "a measured run can't be run again with free links" in str(refused.exception)


def test_plot_draws_a_trace(tmp_path: Path) -> None:
    target = tmp_path / "gantt.png"
    CliRunner().invoke(app, ["plot", str(PRIMUS), "-o", str(target)], catch_exceptions=False)
    assert target.stat().st_size > 10_000
    refused = CliRunner().invoke(app, ["plot", str(PRIMUS), "--kind", "memory"])
    assert "its memory isn't known" in str(refused.exception)


def test_one_rank_alone_is_refused_with_the_stages_that_it_lacks() -> None:
    """Of three ranks that hold a stage each, the file of the last has no stage 0 and 1."""
    path = Path(__file__).parents[1] / "data" / "traces" / "kineto-1f1b" / "rank-2.json.gz"
    with pytest.raises(ppsim.PpsimError, match="no rank of this trace holds stage 0, 1; give the folder"):
        _ = as_result(read_trace(path)).summary


@pytest.mark.parametrize("command", ["run", "fit"])
@pytest.mark.parametrize(
    ("name", "rest", "message"),
    [
        ("kineto-1f1b", ["rank-0.json.gz", "rank-2.json.gz"], "no rank of this trace holds stage 1; give the folder"),
        ("kineto-1f1b", ["rank-2.json.gz"], "no rank of this trace holds stage 0, 1; give the folder"),
    ],
)
def test_ranks_that_are_missing_are_named_by_every_command(
    command: str, name: str, rest: list[str], message: str, tmp_path: Path
) -> None:
    for file in rest:
        (tmp_path / file).write_bytes((DATA / name / file).read_bytes())
    done = CliRunner().invoke(app, [command, str(tmp_path)])
    assert isinstance(done.exception, ppsim.PpsimError) and message in str(done.exception)


@pytest.mark.parametrize("command", ["run", "fit", "explain"])
def test_a_trace_that_is_cut_short_is_refused_with_what_it_lacks(command: str, tmp_path: Path) -> None:
    """Two ranks, two microbatches: 1F1B of rank 0 ends with 0B0 0B1, and the file before its backwards."""
    config, trace = tmp_path / "x.yaml", tmp_path / "cut.csv"
    config.write_text(
        "schedule: 1f1b\npipeline: {ranks: 2, microbatches: 2}\ncosts: {forward: 1 ms, backward: 2 ms}",
        encoding="utf-8",
    )
    CliRunner().invoke(app, ["run", str(config), "--out", str(tmp_path / "out"), "--no-plots"], catch_exceptions=False)
    lines = (tmp_path / "out" / "tasks.csv").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if ",0B" not in line]
    assert len(kept) == len(lines) - 2
    trace.write_text("\n".join(kept), encoding="utf-8")
    done = CliRunner().invoke(app, [command, str(trace)])
    said = (
        "an experiment of it by ppsim fit TRACE"
        if command == "explain"
        else "cut.csv: 0B0, 0B1 are missing: this isn't"
    )
    assert isinstance(done.exception, ppsim.PpsimError) and said in str(done.exception)
