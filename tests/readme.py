"""The blocks of the README and of the pages in docs, and a place to run them in: what a reader has after the installation."""

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
DOCS = ROOT / "docs"
PAGES = [README, *sorted(DOCS.glob("*.md")), *sorted((DOCS / "howto").glob("*.md"))]
"""All pages that are written by hand, but for CONTRIBUTING.md and ARCHITECTURE.md, which have tests of their own."""


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


def workspace(folder: Path, page: Path = README) -> Path:
    """A folder with the repository's configs and the page's own, and where the README's pictures go."""
    shutil.copytree(ROOT / "configs", folder / "configs")
    (folder / REFERENCE).mkdir(parents=True)
    for block in blocks(page):
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
