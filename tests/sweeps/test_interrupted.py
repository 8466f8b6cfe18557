"""Sweeps that are killed, stopped, crowded or cut in parts end up with the same table, byte for byte."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sweeps.sweeping import (
    BASE,
    HELD,
    Gate,
    call,
    finished,
    plugin,
    rows,
    seconds,
    started,
    wait_until,
    workers_of,
    written,
)

pytestmark = pytest.mark.slow
CASES = 432


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bytes]:
    """``results.csv`` of the sweep that nobody disturbs."""
    folder = tmp_path_factory.mktemp("whole")
    gate = Gate(folder)
    gate.open()
    written(folder, HELD)
    done = call("sweep", "x.yaml", cwd=folder, env=gate.env)
    assert done.returncode == 0, done.stderr
    text = (folder / "results/x/results.csv").read_bytes()
    assert text.count(b"\n") == CASES + 1
    yield text


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """Closed: a sweep of ``HELD`` isn't over before the test opens it, however fast or slow the machine is."""
    written(tmp_path, HELD)
    return Gate(tmp_path)


def in_file(folder: Path) -> Path:
    return folder / "results/x/sweep.sqlite"


def check_whole(folder: Path, before: dict[str, float], whole: bytes) -> None:
    """Every case once; what was finished before has not run again; the same bytes."""
    assert len(before) < CASES
    after = seconds(in_file(folder))
    assert len(after) == CASES
    assert after.items() >= before.items()
    assert (folder / "results/x/results.csv").read_bytes() == whole


def test_killed_and_resumed(whole: bytes, gate: Gate, tmp_path: Path) -> None:
    """kill -9 of the sweep in the middle; its workers end by themselves."""
    with started("sweep", "x.yaml", cwd=tmp_path, env=gate.env) as sweep:
        wait_until(lambda: finished(in_file(tmp_path)) >= 20, "20 finished cases", sweep)
        workers = workers_of(sweep.pid)
        os.kill(sweep.pid, signal.SIGKILL)
        sweep.wait()
        assert workers
        wait_until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in workers), "the workers' end")
    before = seconds(in_file(tmp_path))
    gate.open()
    done = call("sweep", "x.yaml", cwd=tmp_path, env=gate.env)
    assert f"{len(before)} ok, {CASES - len(before)} pending" in done.stderr
    check_whole(tmp_path, before, whole)


def test_ctrl_c_keeps_what_is_finished(whole: bytes, gate: Gate, tmp_path: Path) -> None:
    """Ctrl-C reaches the whole process group, as from a terminal; nobody prints a traceback."""
    with started("sweep", "x.yaml", cwd=tmp_path, env=gate.env) as sweep:
        wait_until(lambda: finished(in_file(tmp_path)) >= 20, "20 finished cases", sweep)
        os.killpg(sweep.pid, signal.SIGINT)
        _, errors = sweep.communicate()
    assert sweep.returncode == 130
    before = seconds(in_file(tmp_path))
    assert f"interrupted: {len(before)} of {CASES} are kept; the same command goes on" in errors
    assert "Traceback" not in errors
    gate.open()
    assert call("sweep", "x.yaml", cwd=tmp_path, env=gate.env).returncode == 0
    check_whole(tmp_path, before, whole)


def test_a_dead_worker_costs_nothing(whole: bytes, gate: Gate, tmp_path: Path) -> None:
    with started("sweep", "x.yaml", cwd=tmp_path, env=gate.env) as sweep:
        wait_until(lambda: finished(in_file(tmp_path)) >= 20, "20 finished cases", sweep)
        before = seconds(in_file(tmp_path))
        os.kill(workers_of(sweep.pid)[0], signal.SIGKILL)
        gate.open()
        _, errors = sweep.communicate()
    assert sweep.returncode == 0, errors
    assert "a worker died once, its cases were redone" in errors
    check_whole(tmp_path, before, whole)


def test_a_second_sweep_in_the_folder_is_refused(gate: Gate, tmp_path: Path) -> None:
    with started("sweep", "x.yaml", cwd=tmp_path, env=gate.env) as sweep:
        wait_until(lambda: finished(in_file(tmp_path)) >= 1, "a finished case", sweep)
        second = call("sweep", "x.yaml", cwd=tmp_path, env=gate.env)
        assert second.returncode == 2
        assert f"results/x/sweep.sqlite: another sweep is writing there (process {sweep.pid} on " in second.stderr
        fresh = call("sweep", "x.yaml", "--fresh", cwd=tmp_path, env=gate.env)
        assert fresh.returncode == 2
        assert sweep.poll() is None  # and undisturbed


def test_shards_make_the_whole(whole: bytes, gate: Gate, tmp_path: Path) -> None:
    """Two parts at the same time in two processes, on one folder."""
    with (
        started("sweep", "x.yaml", "--shard", "1/2", "--jobs", "1", cwd=tmp_path, env=gate.env) as first,
        started("sweep", "x.yaml", "--shard", "2/2", "--jobs", "1", cwd=tmp_path, env=gate.env) as second,
    ):
        files = [tmp_path / f"results/x/sweep-{i}-of-2.sqlite" for i in (1, 2)]
        wait_until(lambda: all(finished(file) for file in files), "a finished case of each")
        gate.open()
        for part in (first, second):
            _, errors = part.communicate(0)
            assert part.returncode == 0, errors
    parts = [len(seconds(tmp_path / f"results/x/sweep-{i}-of-2.sqlite")) for i in (1, 2)]
    assert sum(parts) == CASES
    assert min(parts) > CASES / 3  # by a checksum: about half each
    done = call("collect", "results/x", cwd=tmp_path, env=gate.env)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results/x/results.csv").read_bytes() == whole
    assert call("collect", "results/x", cwd=tmp_path, env=gate.env).returncode == 0  # once more changes nothing
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
    site = plugin(tmp_path / "site", "deadly", "Deadly", PLUGIN)
    written(tmp_path, BASE + "sweep: {grid: {schedule: [1f1b, deadly, gpipe], pipeline.microbatches: [4, 8, 16]}}\n")
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    done = call("sweep", "x.yaml", cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    found = rows(in_file(tmp_path), "SELECT schedule, status, error FROM cases ORDER BY number")
    assert [status for schedule, status, _ in found if schedule != "deadly"] == ["ok"] * 6
    assert {(status, error) for schedule, status, error in found if schedule == "deadly"} == {
        ("failed", "its worker process died: killed, or out of memory")
    }
