"""Sweeps that are killed, stopped, crowded or cut in parts end up with the same table, byte for byte."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sweeps.sweeping import BASE, MANY, call, finished, rows, seconds, started, wait_until, workers_of, written

pytestmark = pytest.mark.slow
CASES = 432


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bytes]:
    """``results.csv`` of the sweep that nobody disturbs."""
    folder = tmp_path_factory.mktemp("whole")
    written(folder, MANY)
    done = call("sweep", "x.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    text = (folder / "results/x/results.csv").read_bytes()
    assert text.count(b"\n") == CASES + 1
    yield text


def in_file(folder: Path) -> Path:
    return folder / "results/x/sweep.sqlite"


def check_whole(folder: Path, before: dict[str, float], whole: bytes) -> None:
    """Every case once; what was finished before has not run again; the same bytes."""
    assert len(before) < CASES
    after = seconds(in_file(folder))
    assert len(after) == CASES
    assert after.items() >= before.items()
    assert (folder / "results/x/results.csv").read_bytes() == whole


def test_killed_and_resumed(whole: bytes, tmp_path: Path) -> None:
    """kill -9 of the sweep in the middle; its workers end by themselves."""
    written(tmp_path, MANY)
    with started("sweep", "x.yaml", cwd=tmp_path) as sweep:
        wait_until(lambda: finished(in_file(tmp_path)) >= 20, "20 finished cases", sweep)
        workers = workers_of(sweep.pid)
        os.kill(sweep.pid, signal.SIGKILL)
        sweep.wait()
        assert workers
        wait_until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in workers), "the workers' end")
    before = seconds(in_file(tmp_path))
    done = call("sweep", "x.yaml", cwd=tmp_path)
    assert f"{len(before)} ok, {CASES - len(before)} pending" in done.stderr
    check_whole(tmp_path, before, whole)


def test_ctrl_c_keeps_what_is_finished(whole: bytes, tmp_path: Path) -> None:
    """Ctrl-C reaches the whole process group, as from a terminal; nobody prints a traceback."""
    written(tmp_path, MANY)
    with started("sweep", "x.yaml", cwd=tmp_path) as sweep:
        wait_until(lambda: finished(in_file(tmp_path)) >= 20, "20 finished cases", sweep)
        os.killpg(sweep.pid, signal.SIGINT)
        _, errors = sweep.communicate(timeout=60)
    assert sweep.returncode == 130
    before = seconds(in_file(tmp_path))
    assert f"interrupted: {len(before)} of {CASES} are kept; the same command goes on" in errors
    assert "Traceback" not in errors
    assert call("sweep", "x.yaml", cwd=tmp_path).returncode == 0
    check_whole(tmp_path, before, whole)


def test_a_dead_worker_costs_nothing(whole: bytes, tmp_path: Path) -> None:
    written(tmp_path, MANY)
    with started("sweep", "x.yaml", cwd=tmp_path) as sweep:
        wait_until(lambda: finished(in_file(tmp_path)) >= 20, "20 finished cases", sweep)
        before = seconds(in_file(tmp_path))
        os.kill(workers_of(sweep.pid)[0], signal.SIGKILL)
        _, errors = sweep.communicate(timeout=300)
    assert sweep.returncode == 0, errors
    assert "a worker died once, its cases were redone" in errors
    check_whole(tmp_path, before, whole)


def test_a_second_sweep_in_the_folder_is_refused(tmp_path: Path) -> None:
    written(tmp_path, MANY)
    with started("sweep", "x.yaml", cwd=tmp_path) as sweep:
        wait_until(lambda: in_file(tmp_path).exists(), "the sweep's file", sweep)
        second = call("sweep", "x.yaml", cwd=tmp_path)
        assert second.returncode == 2
        assert f"results/x/sweep.sqlite: another sweep is writing there (process {sweep.pid} on " in second.stderr
        fresh = call("sweep", "x.yaml", "--fresh", cwd=tmp_path)
        assert fresh.returncode == 2
        assert sweep.poll() is None  # and undisturbed


def test_shards_make_the_whole(whole: bytes, tmp_path: Path) -> None:
    """Two parts at the same time in two processes, on one folder."""
    written(tmp_path, MANY)
    with (
        started("sweep", "x.yaml", "--shard", "1/2", "--jobs", "1", cwd=tmp_path) as first,
        started("sweep", "x.yaml", "--shard", "2/2", "--jobs", "1", cwd=tmp_path) as second,
    ):
        for part in (first, second):
            _, errors = part.communicate(timeout=600)
            assert part.returncode == 0, errors
    parts = [len(seconds(tmp_path / f"results/x/sweep-{i}-of-2.sqlite")) for i in (1, 2)]
    assert sum(parts) == CASES
    assert min(parts) > CASES / 3  # by a checksum: about half each
    done = call("collect", "results/x", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results/x/results.csv").read_bytes() == whole
    assert call("collect", "results/x", cwd=tmp_path).returncode == 0  # once more changes nothing
    assert (tmp_path / "results/x/results.csv").read_bytes() == whole


def test_shards_that_are_missing_or_wrong(tmp_path: Path) -> None:
    written(tmp_path, BASE + "sweep: {grid: {pipeline.microbatches: [4, 8]}}\n")
    assert call("sweep", "x.yaml", "--shard", "1/3", cwd=tmp_path).returncode == 0
    done = call("collect", "results/x", cwd=tmp_path)
    assert (done.returncode, "of 3 shards, missing: 2, 3" in done.stderr) == (2, True)
    written(tmp_path, BASE + "sweep: {grid: {pipeline.microbatches: [4, 8, 16]}}\n")
    for shard in ("2/3", "3/3"):
        assert call("sweep", "x.yaml", "--shard", shard, cwd=tmp_path).returncode == 0
    done = call("collect", "results/x", cwd=tmp_path)
    assert (done.returncode, "sweep-2-of-3.sqlite: of another sweep than sweep-1-of-3.sqlite" in done.stderr) == (
        2,
        True,
    )
    for shard in ("0/3", "4/3", "1", "a/b"):
        done = call("sweep", "x.yaml", "--shard", shard, cwd=tmp_path)
        assert (done.returncode, "parts are 1/N to N/N" in done.stderr) == (2, True)


PLUGIN = """
import os
from typing import Literal
from ppsim.schedules import Schedule

class Deadly(Schedule):
    '''Ends the process that asks for its orders.'''
    name: Literal["deadly"] = "deadly"
    def orders(self, problem):
        os._exit(1)
"""


def test_a_case_that_kills_its_worker_is_a_row(tmp_path: Path) -> None:
    """As one that runs out of memory would: after some tries it runs alone, and that is its result; the rest goes on."""
    site = tmp_path / "site"
    (site / "deadly-1.0.dist-info").mkdir(parents=True)
    (site / "deadly_plugin.py").write_text(PLUGIN, encoding="utf-8")
    (site / "deadly-1.0.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: deadly\nVersion: 1.0\n", encoding="utf-8"
    )
    (site / "deadly-1.0.dist-info/entry_points.txt").write_text(
        "[ppsim.schedules]\ndeadly = deadly_plugin:Deadly\n", encoding="utf-8"
    )
    written(tmp_path, BASE + "sweep: {grid: {schedule: [1f1b, deadly, gpipe], pipeline.microbatches: [4, 8, 16]}}\n")
    begun = time.monotonic()
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    done = call("sweep", "x.yaml", cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begun < 300
    found = rows(in_file(tmp_path), "SELECT schedule, status, error FROM cases ORDER BY number")
    assert [status for schedule, status, _ in found if schedule != "deadly"] == ["ok"] * 6
    assert {(status, error) for schedule, status, error in found if schedule == "deadly"} == {
        ("failed", "its worker process died: killed, or out of memory")
    }
