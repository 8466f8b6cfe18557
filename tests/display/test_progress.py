"""What a run shows while it works: nothing where it is short or nobody looks, else the stage and how far it is."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

import ppsim
from ppsim.display import progress
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


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("make", [progress.one, progress.many])
def test_a_bar_is_one_line_of_any_terminal(make: Callable[[Console], Progress], width: int) -> None:
    """Words that don't fit end in '…', and the bar leaves room for them."""
    out = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    with make(out) as bars:
        bars.add_task(
            "160 cases/s, best 41.3 ms: interleaved_1f1b, p = 64, m = 1024, v = 2", total=123_456, completed=12_345
        )
        (line,) = out.render_lines(bars.get_renderable(), pad=False)
    text = "".join(segment.text for segment in line)
    assert len(text) <= width
    assert "160 cas" in text or width < 60
    assert ("…" in text) == (width < 100)


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
