"""`ppsim sweep` from start to end, as processes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import ppsim
from tests.sweeps.sweeping import BASE, CONFIGS, call, rows, seconds, written

SMALL = BASE + "sweep: {grid: {schedule: [gpipe, 1f1b], pipeline.microbatches: [4, 8]}}\n"


def numbered(screen: str) -> list[list[str]]:
    """The words of a table's numbered rows."""
    return [words.split() for line in screen.splitlines() if (words := re.sub(r"^[0-9]+  +", "", line)) != line]


def test_a_sweep_writes_its_table_and_ranks_it(tmp_path: Path) -> None:
    """p = 4: the bubble is 3/11 at m = 8 and 3/7 at m = 4, for GPipe and 1F1B alike."""
    written(tmp_path, SMALL)
    done = call("sweep", "x.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 cases, 4 pending" in done.stderr
    assert "ranked by bubble_ratio, less is better: the cases do different amounts of work" in done.stdout
    assert "files: results/x/{sweep.sqlite, results.csv" in done.stdout
    table = ppsim.read_sweep(tmp_path / "results" / "x")
    assert table.set_index(["schedule", "pipeline.microbatches"])["bubble_ratio"].to_dict() == {
        ("gpipe", 4): 3 / 7, ("gpipe", 8): 3 / 11, ("1f1b", 4): 3 / 7, ("1f1b", 8): 3 / 11,
    }  # fmt: skip
    # Equal bubbles: the one that needs less memory comes first. 1F1B: 4 of GPipe's 8 activations.
    assert [row[0] for row in numbered(done.stdout)[:2]] == ["1f1b", "gpipe"]


@pytest.mark.slow
def test_the_seeds_question(tmp_path: Path) -> None:
    """p = 2 … 16, every m from 1 to 128, the seeds' schedules, free links: each equals its closed form.

    GPipe, 1F1B and BPipe lose (p-1)/(m+p-1), interleaved (p-1)/(vm+p-1) where m ≥ p; less than 5 % from m > 19 (p-1).
    """
    grid = "sweep.grid.pipeline.microbatches={first: 1, last: 128}"
    done = call("sweep", CONFIGS / "seed-sweep.yaml", "--set", grid, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = ppsim.read_sweep(tmp_path / "out")
    assert table["status"].eq("ok").all()
    assert len(table) == 4 * 4 * 128
    p, m, v = table["ranks"], table["microbatches"], table["virtual_stages"]
    closed = (p - 1) / (v * m + p - 1)
    holds = (v == 1) | (m >= p)
    assert (table["bubble_ratio"] - closed)[holds].abs().max() < 1e-12
    # What the program itself calls the closed form, and where it says that there is one.
    assert (table["theory.bubble_ratio"] - closed)[holds].abs().max() < 1e-12
    assert table["theory.bubble_ratio"].notna().tolist() == holds.tolist()
    small = table[holds & (v == 1)]
    assert (small["bubble_ratio"] < 0.05).tolist() == (small["microbatches"] > 19 * (small["ranks"] - 1)).tolist()


@pytest.mark.slow
def test_a_second_start_runs_nothing_again_and_a_larger_grid_only_what_is_new(tmp_path: Path) -> None:
    written(tmp_path, SMALL)
    call("sweep", "x.yaml", cwd=tmp_path)
    file, results = tmp_path / "results/x/sweep.sqlite", tmp_path / "results/x/results.csv"
    before, text = seconds(file), results.read_bytes()
    again = call("sweep", "x.yaml", cwd=tmp_path)
    assert "4 cases, 4 ok" in again.stderr
    assert (seconds(file), results.read_bytes()) == (before, text)

    written(tmp_path, SMALL.replace("[4, 8]", "[4, 8, 16]"))
    more = call("sweep", "x.yaml", cwd=tmp_path)
    assert "6 cases, 4 ok, 2 pending" in more.stderr
    assert seconds(file).items() >= before.items()
    written(tmp_path, SMALL)
    less = call("sweep", "x.yaml", cwd=tmp_path)
    assert "4 cases, 4 ok" in less.stderr
    assert results.read_bytes() == text


@pytest.mark.slow
def test_fresh_forgets_and_limit_stops_early(tmp_path: Path) -> None:
    written(tmp_path, SMALL)
    first = call("sweep", "x.yaml", "--limit", "3", cwd=tmp_path)
    assert first.returncode == 0
    assert [row["status"] for _, row in ppsim.read_sweep(tmp_path / "results/x").iterrows()].count("ok") == 3
    before = seconds(tmp_path / "results/x/sweep.sqlite")
    call("sweep", "x.yaml", "--fresh", cwd=tmp_path)
    after = seconds(tmp_path / "results/x/sweep.sqlite")
    assert len(after) == 4
    assert all(after[case] != before[case] for case in before)


@pytest.mark.slow
def test_the_number_of_workers_changes_no_byte(tmp_path: Path) -> None:
    written(tmp_path, SMALL)
    for jobs in ("1", "2"):
        assert call("sweep", "x.yaml", "--jobs", jobs, "--out", f"out{jobs}", cwd=tmp_path).returncode == 0
    assert (tmp_path / "out1/results.csv").read_bytes() == (tmp_path / "out2/results.csv").read_bytes()


def test_dry_run_shows_and_writes_nothing(tmp_path: Path) -> None:
    written(tmp_path, SMALL.replace("1f1b]", "dualpipe]").replace("[4, 8]", "[9, 10]"))
    done = call("sweep", "x.yaml", "--dry-run", cwd=tmp_path)
    assert "3 cases would run" in done.stdout
    assert "skipped, 1: pipeline.microbatches: dualpipe needs an even number" in done.stderr
    assert not (tmp_path / "results").exists()


FAILING = (
    BASE
    + """\
sweep:
  grid: {schedule: [1f1b, {name: interleaved_1f1b, virtual_stages: 2, group: 1}], pipeline.microbatches: [8]}
"""
)


@pytest.mark.slow
def test_a_case_that_fails_is_a_row_with_its_error(tmp_path: Path) -> None:
    """Groups of one microbatch on four ranks deadlock; the other case is simulated all the same."""
    written(tmp_path, FAILING)
    done = call("sweep", "x.yaml", cwd=tmp_path)
    assert done.returncode == 0
    assert "failed, 1: deadlock: " in done.stderr
    table = ppsim.read_sweep(tmp_path / "results/x").set_index("schedule")
    assert table["status"].to_dict() == {"1f1b": "ok", "interleaved_1f1b": "failed"}
    assert "schedule.group: groups of 1 microbatches are the cause" in table.loc["interleaved_1f1b", "error"]
    # It stays as it is, unless one asks for another try.
    file = tmp_path / "results/x/sweep.sqlite"
    took = rows(file, "SELECT seconds FROM cases WHERE status = 'failed'")
    call("sweep", "x.yaml", cwd=tmp_path)
    assert rows(file, "SELECT seconds FROM cases WHERE status = 'failed'") == took
    call("sweep", "x.yaml", "--retry-failed", cwd=tmp_path)
    assert rows(file, "SELECT seconds FROM cases WHERE status = 'failed'") != took


@pytest.mark.slow
def test_exit_codes(tmp_path: Path) -> None:
    """1 where every case deadlocked, 2 where none is legal, none is left, or there is no sweep."""
    written(tmp_path, FAILING.replace("[1f1b, {", "[{"))
    assert call("sweep", "x.yaml", cwd=tmp_path).returncode == 1
    for text, words in (
        (BASE + "sweep: {grid: {schedule: [dualpipe], pipeline.microbatches: [7]}}\n", "no case is legal"),
        (BASE + "sweep: {grid: {schedule: [nonsense]}}\n", "x.yaml:4:27: sweep.grid.schedule.0: unknown schedule"),
        (BASE + "sweep: {grid: {pipeline.ranks: [2]}, where: ranks > 2}\n", "where: leaves no case"),
        (BASE, "no sweep: in it"),
    ):
        written(tmp_path, text)
        done = call("sweep", "x.yaml", "--out", "other", cwd=tmp_path)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
        assert not (tmp_path / "other/sweep.sqlite").exists()


@pytest.mark.slow
def test_equal_work_is_ranked_by_step_time_and_unequal_work_never(tmp_path: Path) -> None:
    """One global batch of 32: p = 4 takes (m+3)/(4m) of the model's 192 ms · 32, p = 2 (m+1)/(2m) of it."""
    text = BASE.replace("microbatches: 8", "micro_batch_size: 1, global_batch: 32").replace(
        "per: model,", "per: model, micro_batch_size: 1,"
    )
    written(tmp_path, text + "sweep: {grid: {pipeline.ranks: [2, 4], pipeline.micro_batch_size: [1, 2, 4]}}\n")
    done = call("sweep", "x.yaml", cwd=tmp_path)
    assert "ranked by step_time_s, less is better: every case does the same work in a step" in done.stdout
    table = ppsim.read_sweep(tmp_path / "results/x").sort_values("step_time_s")
    m, p = table["microbatches"], table["ranks"]
    assert (table["step_time_s"] - 0.192 * 32 * (m + p - 1) / (m * p)).abs().max() < 1e-9
    assert numbered(done.stdout)[0][:2] == ["4", "1"]  # p = 4, micro_batch_size = 1: the most microbatches

    written(tmp_path, SMALL)
    call("sweep", "x.yaml", "--out", "unequal", cwd=tmp_path)
    for figure, words in (
        ("step_time_s", "--rank-by: step_time_s is not ranked: the cases do different amounts of work"),
        ("step_tim_s", "--rank-by: there is no figure 'step_tim_s'; did you mean 'step_time_s'?"),
        ("fits", "--rank-by: fits is not ranked: neither less nor more of it is better"),
    ):
        refused = call("sweep", "x.yaml", "--out", "unequal", "--rank-by", figure, cwd=tmp_path)
        assert (refused.returncode, words in refused.stderr) == (2, True), refused.stderr
    ranked = call("sweep", "x.yaml", "--out", "unequal", "--rank-by", "peak_memory_bytes", cwd=tmp_path)
    assert "ranked by peak_memory_bytes" in ranked.stdout
    # p = 4 ranks do p · (1 - bubble_ratio) ranks' work: of the one more is better, of the other less.
    least, most = (
        numbered(call("sweep", "x.yaml", "--out", "unequal", "--rank-by", figure, cwd=tmp_path).stdout)
        for figure in ("bubble_ratio", "speedup")
    )
    assert least[0][:2] == most[0][:2] == ["1f1b", "8"]


@pytest.mark.slow
def test_what_does_not_fit_is_never_the_best(tmp_path: Path) -> None:
    """An activation of 16 GiB / 4 per microbatch: GPipe with 8 holds 32 GiB, 1F1B 16 GiB; the device has 24 GiB."""
    written(tmp_path, SMALL.replace("weights: 8 GiB", "weights: 0 B") + "cluster: {device: {memory: 24 GiB}}\n")
    done = call("sweep", "x.yaml", cwd=tmp_path)
    assert "1 of 4 cases don't fit into memory: left out" in done.stdout
    table = ppsim.read_sweep(tmp_path / "results/x")
    assert table.set_index(["schedule", "microbatches"])["fits"].to_dict() == {
        ("gpipe", 4): True, ("gpipe", 8): False, ("1f1b", 4): True, ("1f1b", 8): True,
    }  # fmt: skip
    assert numbered(done.stdout)[0][0] == "1f1b"


@pytest.mark.slow
def test_folders(tmp_path: Path) -> None:
    """A folder with other things in it is left alone, and a run never replaces a sweep."""
    written(tmp_path, SMALL)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("years of work", encoding="utf-8")
    for out, words in (
        ("mine", "ppsim didn't write thesis.tex"),
        (".", "home or working directory"),
        ("a/../b", "'..'"),
    ):
        done = call("sweep", "x.yaml", "--out", out, cwd=tmp_path)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["thesis.tex"]
    call("sweep", "x.yaml", cwd=tmp_path)
    run = call("run", "x.yaml", cwd=tmp_path)
    assert (run.returncode, "holds a sweep" in run.stderr) == (2, True)
    assert (tmp_path / "results/x/sweep.sqlite").is_file()


@pytest.mark.slow
def test_a_sweep_goes_into_the_folder_of_its_base_run(tmp_path: Path) -> None:
    written(tmp_path, SMALL)
    assert call("run", "x.yaml", cwd=tmp_path).returncode == 0
    assert call("sweep", "x.yaml", cwd=tmp_path).returncode == 0
    names = {path.name for path in (tmp_path / "results/x").iterdir()}
    assert {"summary.json", "sweep.sqlite", "results.csv"} <= names


def test_names_of_users_are_plain_text(tmp_path: Path) -> None:
    """Console markup in a value is shown as it is."""
    written(tmp_path, BASE + 'sweep: {grid: {schedule: ["[red]x[/red]", 1f1b]}}\n')
    done = call("sweep", "x.yaml", cwd=tmp_path)
    assert "unknown schedule '[red]x[/red]'" in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.slow
def test_workers_import_neither_pandas_nor_matplotlib(tmp_path: Path) -> None:
    """Half a second of every worker's start, and memory for nothing."""
    import subprocess
    import sys

    path = written(tmp_path, SMALL)
    code = (
        "import sys, json\nfrom pathlib import Path\nfrom tests.sweeps.sweeping import base_of, sweep_of\n"
        "from ppsim.sweeps.cases import listing\nfrom ppsim.sweeps.work import run_batch\n"
        f"path = Path({str(path)!r})\nbase = base_of(path)\n"
        "tasks = [(case.id, json.dumps(case.changes)) for case in listing(base, sweep_of(path))]\n"
        "assert all(row.error is None for row in run_batch(base, tasks))\n"
        "print(sorted({'pandas', 'matplotlib'} & set(sys.modules)))\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.slow
def test_uncertainty_in_a_sweep_gives_columns_of_statistics(tmp_path: Path) -> None:
    """A rank that is always twice as slow on all ops of a pipeline of one rank: exactly twice the time."""
    text = BASE.replace("ranks: 4", "ranks: 1")
    text += "uncertainty: {repeat: 3, slow: {rank: 0, factor: 2}}\n"
    written(tmp_path, text + "sweep: {grid: {pipeline.microbatches: [1, 2]}}\n")
    done = call("sweep", "x.yaml", "--rank-by", "bubble_ratio", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = ppsim.read_sweep(tmp_path / "results/x")
    assert table["step_time_s"].tolist() == [0.192, 0.384]
    for statistic in ("mean", "p50", "p95", "p99", "ci95_low", "ci95_high"):
        assert table[f"step_time_s.{statistic}"].tolist() == [0.384, 0.768]


@pytest.mark.slow
def test_changes_are_kept_as_they_were_given(tmp_path: Path) -> None:
    written(tmp_path, SMALL)
    call("sweep", "x.yaml", cwd=tmp_path)
    changes = [
        json.loads(text)
        for (text,) in rows(tmp_path / "results/x/sweep.sqlite", "SELECT changes FROM cases ORDER BY number")
    ]
    assert changes[0] == {"schedule": "gpipe", "pipeline.microbatches": 4}
