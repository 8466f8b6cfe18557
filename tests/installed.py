"""ppsim away from its repository: a copy of what git holds, and whether packages can be had."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def needs_an_index(folder: Path) -> None:
    """Skip the test where pip finds no packages."""
    reachable = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), "simpy"]
    if subprocess.run(reachable, capture_output=True, check=False).returncode:
        pytest.skip("no package index within reach")


def clone(folder: Path) -> Path:
    """A copy of what git holds or would hold."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (source := ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / name)
    return folder
