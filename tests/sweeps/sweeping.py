"""Short hands for tests of sweeps: a config, a real process, what is in its file."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from ppsim.config import yamlfile
from ppsim.config.load import load
from ppsim.sweeps.cases import Base
from ppsim.sweeps.pool import Pool
from ppsim.sweeps.work import run_batch

CONFIGS = Path(__file__).parents[2] / "configs"
BASE = """\
schedule: 1f1b
pipeline: {ranks: 4, microbatches: 8}
costs: {per: model, forward: 64 ms, backward: 128 ms, activation: 16 GiB, weights: 8 GiB}
"""
# 432 cases of 512 to 2048 ops, some milliseconds each: long enough to be interrupted, short enough to wait for.
MANY = (
    BASE
    + """\
cluster: {device: a100-80gb, ranks_per_node: 4, intra_node: nvlink3, inter_node: ib-hdr}
sweep:
  grid:
    schedule: [gpipe, 1f1b, {name: interleaved_1f1b, virtual_stages: 2}]
    pipeline.ranks: [4, 8]
    pipeline.microbatches: [32, 64]
    cluster.inter_node.latency: [1 us, 2 us, 3 us, 4 us, 5 us, 6 us, 7 us, 8 us, 9 us, 10 us, 11 us, 12 us]
    cluster.intra_node.bandwidth: [100 GB/s, 200 GB/s, 300 GB/s]
"""
)


HELD = MANY.replace("{name: interleaved_1f1b, virtual_stages: 2}", "held")
"""The same, but the last third of the cases waits until a gate is opened: so long the sweep isn't over."""
WAITING = """
import os, time
from pathlib import Path
from typing import Literal
from ppsim.schedules.gpipe import GPipe

class Held(GPipe):
    '''GPipe, once the gate is open.'''
    name: Literal["held"] = "held"
    def orders(self, problem):
        while not Path(os.environ["GATE"]).exists():
            time.sleep(0.02)
        return super().orders(problem)
"""


class Gate:
    """What ``HELD`` waits for: a package with a schedule that looks for a file."""

    def __init__(self, folder: Path) -> None:
        site = plugin(folder / "site", "held", "Held", WAITING)
        path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
        self.file = folder / "open"
        self.env = {**os.environ, "PYTHONPATH": path, "GATE": str(self.file)}

    def open(self) -> None:
        """Let all cases through."""
        self.file.touch()


def plugin(site: Path, name: str, schedule: str, source: str) -> Path:
    """A folder for PYTHONPATH with an installed package that adds a schedule."""
    about = site / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (site / f"{name}_plugin.py").write_text(source, encoding="utf-8")
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    points = f"[ppsim.schedules]\n{name} = {name}_plugin:{schedule}\n"
    (about / "entry_points.txt").write_text(points, encoding="utf-8")
    return site


def written(folder: Path, text: str, name: str = "x.yaml") -> Path:
    """A config file."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "ppsim.cli", *map(str, arguments)]


def call(*arguments: str | Path, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    return subprocess.run(
        command(*arguments), cwd=cwd, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        timeout=600, **options,
    )  # type: ignore[no-any-return]  # fmt: skip


@contextmanager
def started(*arguments: str | Path, cwd: Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """The command line, while it runs; killed at the end of the block with all that it has started."""
    process = subprocess.Popen(
        command(*arguments), cwd=cwd, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True, **options,
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(ValueError):  # its output has been read already
            process.communicate()


def rows(file: Path, query: str) -> list[tuple[Any, ...]]:
    """What a query finds in a sweep's file, also while it is being written."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10)) as db:
        return db.execute(query).fetchall()


def seconds(file: Path) -> dict[str, float]:
    """How long each finished case took, by its id: another value would mean that it ran again."""
    return dict(rows(file, "SELECT id, seconds FROM cases WHERE status = 'ok'"))


def finished(file: Path) -> int:
    """How many cases are finished; 0 where there is no file yet."""
    try:
        return int(rows(file, "SELECT count(*) FROM cases WHERE status = 'ok'")[0][0])
    except sqlite3.OperationalError:
        return 0


def wait_until(
    holds: Callable[[], bool], what: str, process: subprocess.Popen[str] | None = None, patience: float = 120
) -> None:
    """Look again and again; an AssertionError that says what didn't happen, at once where the process has ended."""
    end = time.monotonic() + patience
    while not holds():
        if process is not None and process.poll() is not None and not holds():
            raise AssertionError(f"{what}: the process ended before\n{process.communicate()[1]}")
        assert time.monotonic() < end, f"{what}: not within {patience} s"
        time.sleep(0.02)


def workers_of(process: int) -> list[int]:
    """The worker processes that a sweep has started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"popen_loky" in (entry / "cmdline").read_bytes():
                status = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(status[1]) == process:
                    found.append(int(entry.name))
        except OSError:
            continue
    return found


def base_of(path: Path) -> Base:
    """What all cases of a config start from."""
    return Base.of(yamlfile.read(path), path)


def sweep_of(path: Path) -> Any:
    """The sweep of a config."""
    return load(path).sweep


class Here(Pool):
    """A pool without workers: a batch runs where it is submitted."""

    width = 1
    breaks_whole = False

    def submit(self, base: Base, tasks: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(run_batch(base, tasks))
        return future

    def died(self, error: BaseException) -> bool:
        return False

    def restart(self) -> None: ...

    def close(self) -> None: ...
