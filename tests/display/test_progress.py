"""What a run shows while it works: nothing where it is short or nobody looks, else the stage and how far it is."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ppsim
from ppsim.engine.watch import Watch
from tests.simulated import experiment

CONFIG = "schedule: 1f1b\npipeline: {ranks: 8, microbatches: %d}\ncosts: {forward: 10 ms, backward: 20 ms}\n"


def on_terminal(folder: Path, microbatches: int) -> tuple[str, str]:
    """Standard output and what a terminal as standard error gets of a run by SimPy."""
    (folder / "x.yaml").write_text(CONFIG % microbatches, encoding="utf-8")
    reading, writing = pty.openpty()
    program = [sys.executable, "-m", "ppsim.cli", "run", "x.yaml", "--json", "--no-files", "--engine", "simpy"]
    with subprocess.Popen(program, cwd=folder, stdout=subprocess.PIPE, stderr=writing) as process:
        os.close(writing)
        seen = b""
        while True:
            try:
                part = os.read(reading, 65536)
            except OSError:  # the other end of a terminal is closed
                break
            if not part:
                break
            seen += part
        assert process.stdout is not None
        out = process.stdout.read().decode()
    os.close(reading)
    assert process.returncode == 0
    return out, seen.decode()


def test_a_short_run_shows_nothing(tmp_path: Path) -> None:
    out, seen = on_terminal(tmp_path, 8)
    assert seen == ""
    assert out.startswith("{")


@pytest.mark.slow
def test_a_long_run_shows_how_far_it_is(tmp_path: Path) -> None:
    """720,000 ops are some seconds of SimPy: the share of ops that have ended rises."""
    out, seen = on_terminal(tmp_path, 45_000)
    shares = [int(share) for share in re.findall(r"simulation.*?(\d+)%", seen)]
    assert len(set(shares)) > 2
    assert shares == sorted(shares)
    assert out.startswith("{")


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_a_watch_is_told_every_stage(engine: str) -> None:
    """The last share of the simulation is all of it."""
    if engine == "compiled":
        pytest.importorskip("numba", reason="Numba is not installed")
    told: list[tuple[str, float | None]] = []

    class Noting(Watch):
        def at(self, stage: str, share=None) -> None:
            told.append((self.stage, self.share))
            super().at(stage, share)

    ppsim.simulate(experiment("1f1b", 2, 4), engine=engine, watch=Noting())  # type: ignore[arg-type]
    assert told == [("orders", None), ("plan", None), ("simulation", 1.0)]
