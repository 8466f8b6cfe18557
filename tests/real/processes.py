"""Processes that run together and end together."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(commands: Sequence[Sequence[str]], seconds: float, environment: Mapping[str, str]) -> None:
    """All commands at once; none of them outlives this call.

    Raises RuntimeError with what it said where one fails, or where they take longer than that.
    """
    running: list[subprocess.Popen[str]] = []
    deadline = time.monotonic() + seconds
    own = {**os.environ, **environment}
    try:
        running.extend(
            subprocess.Popen(command, cwd=ROOT, env=own, text=True, stderr=subprocess.PIPE) for command in commands
        )
        for process in running:
            _, said = process.communicate(timeout=max(deadline - time.monotonic(), 0))
            if process.returncode:
                raise RuntimeError(f"{process.args} failed:\n{said}")
    except subprocess.TimeoutExpired as late:
        raise RuntimeError(f"not done after {seconds:.0f} s: {late.cmd}") from late
    finally:
        for process in running:
            process.kill()
            process.wait()
