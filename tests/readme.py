"""The README's blocks, and a place to run them in: what a reader has after the installation."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
REFERENCE = Path("results") / "reference"
NEW_SCHEDULE = "# ppsim/schedules/"
"""How a block begins that is a new file of the package."""
TABLE = ("|---|---|---|\n", "<!-- end of the table -->")


class Block(NamedTuple):
    """A fenced block: its language, its text, the line that it begins at."""

    language: str
    text: str
    line: int

    @property
    def title(self) -> str:
        """Its language and first words, as a test's name."""
        words = re.sub(r"[^\w.-]+", "-", self.text.partition("\n")[0])[:40].strip("-")
        return f"{self.line}-{self.language}-{words}"


def blocks(page: Path = README) -> list[Block]:
    """All fenced blocks of a page, from the top."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in found]


def workspace(folder: Path) -> Path:
    """A folder with the repository's configs and the README's own, and where its pictures go."""
    shutil.copytree(ROOT / "configs", folder / "configs")
    (folder / REFERENCE).mkdir(parents=True)
    for block in blocks():
        if block.language == "yaml" and (name := re.match(r"# ([\w-]+\.yaml)\n", block.text)):
            (folder / name[1]).write_text(block.text, encoding="utf-8")
    return folder


def run(block: Block, folder: Path, package: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a block of shell or Python in a workspace, with the package of this environment or a copy in ``package``."""
    command = ["bash", "-euo", "pipefail", "-c"] if block.language == "sh" else [sys.executable, "-W", "error", "-c"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, **({"PYTHONPATH": str(package)} if package else {})}
    return subprocess.run(
        [*command, block.text], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def schedule_rows() -> dict[str, str]:
    """The row of every schedule in the README's table, in the schedule's own words."""
    from ppsim.schedules import known

    return {name: _row(name, schedule.__doc__ or "") for name, schedule in sorted(known().items())}


def _row(name: str, doc: str) -> str:
    what, _, source = doc.replace("``", "`").partition("Source:")
    words = what.strip().partition("\n")[0]
    source = re.split(r"\. (?=[A-Z])", " ".join(source.split()))[0].rstrip(".")
    source = re.sub(r"arXiv (\d{4}\.\d{5})", r"[arXiv \1](https://arxiv.org/abs/\1)", source)
    return f"| `{name}` | {words} | {source or '–'} |"
