"""The same sweep on a Dask cluster, by its address: same bytes, also where one of its workers dies."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.sweeps.sweeping import BASE, MANY, call, finished, seconds, started, wait_until, written

pytestmark = pytest.mark.slow
needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None,
    reason="Dask is not installed (extra: cluster)",
)


@contextmanager
def process(*arguments: str, cwd: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Dask's command line, killed at the end."""
    with (cwd / f"{arguments[0]}-{len(list(cwd.iterdir()))}.log").open("wb") as log:
        running = subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments], cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield running
        finally:
            running.kill()
            running.wait()


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler on a free port and so many workers: its address, and the workers' processes."""
    folder.mkdir()
    about = folder / "scheduler.json"
    with ExitStack() as stack:
        stack.enter_context(
            process("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(about), cwd=folder)
        )  # fmt: skip
        wait_until(lambda: about.exists() and about.read_text().rstrip().endswith("}"), "the scheduler's address")
        address = json.loads(about.read_text())["address"]
        running = [
            stack.enter_context(
                process("worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", cwd=folder)
            )
            for _ in range(workers)
        ]
        yield address, running


def workers_ready(address: str, count: int) -> bool:
    import distributed

    with distributed.Client(address, timeout=30, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=60)
    return True


@needs_dask
def test_a_dask_cluster_gives_the_same_table_and_a_dead_worker_costs_nothing(tmp_path: Path) -> None:
    written(tmp_path, MANY)
    local = call("sweep", "x.yaml", "--out", "local", cwd=tmp_path)
    assert local.returncode == 0, local.stderr
    whole = (tmp_path / "local/results.csv").read_bytes()
    with cluster(tmp_path / "dask", 2) as (address, workers):
        assert workers_ready(address, 2)
        done = call("sweep", "x.yaml", "--cluster", address, "--out", "dask1", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "dask1/results.csv").read_bytes() == whole

        file = tmp_path / "dask2/sweep.sqlite"
        with started("sweep", "x.yaml", "--cluster", address, "--out", "dask2", cwd=tmp_path) as sweep:
            wait_until(lambda: finished(file) >= 20, "20 finished cases", sweep)
            before = seconds(file)
            os.kill(workers[0].pid, signal.SIGKILL)
            _, errors = sweep.communicate(timeout=300)
        assert sweep.returncode == 0, errors
        assert len(before) < 432
        assert seconds(file).items() >= before.items()
        assert (tmp_path / "dask2/results.csv").read_bytes() == whole


@needs_dask
def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    written(tmp_path, BASE + "sweep: {grid: {pipeline.microbatches: [4]}}\n")
    for address in ("tcp://127.0.0.1:1", "nonsense"):
        done = call("sweep", "x.yaml", "--cluster", address, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert f"--cluster: no Dask scheduler answers at '{address}'" in done.stderr
        assert "Traceback" not in done.stderr


@needs_dask
def test_a_cluster_without_workers(tmp_path: Path) -> None:
    written(tmp_path, BASE + "sweep: {grid: {pipeline.microbatches: [4]}}\n")
    with cluster(tmp_path / "dask", 0) as (address, _):
        done = call("sweep", "x.yaml", "--cluster", address, cwd=tmp_path)
    assert (done.returncode, "has no workers; start some: `dask worker" in done.stderr) == (2, True), done.stderr
