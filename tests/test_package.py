"""What others build on: one version everywhere, types that a checker sees, a wheel that works away from here."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from ruamel.yaml import YAML

import ppsim

ROOT = Path(__file__).parent.parent


def test_one_version_everywhere() -> None:
    """In Python, on the command line, in a run's summary and in what a paper cites."""
    said = subprocess.run([sys.executable, "-m", "ppsim", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"ppsim {ppsim.__version__}\n"
    experiment = ppsim.load(ROOT / "configs" / "quickstart.yaml")
    assert ppsim.simulate(experiment).summary["version"] == ppsim.__version__
    cited = YAML(typ="safe", pure=True).load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == ppsim.__version__


def test_a_citation_has_what_the_format_asks_for() -> None:
    """Citation File Format 1.2.0: cff-version, message, title and authors are required."""
    cited = YAML(typ="safe", pure=True).load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(cited)


NOT_EVERYWHERE = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "msvcrt", "winreg"}


def test_nothing_is_imported_that_some_systems_lack() -> None:
    """Modules of Unix or Windows alone, and os.sched_…, which Linux alone has."""
    found = []
    for path in (ROOT / "ppsim").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [node.attr] if isinstance(node, ast.Attribute) else []
            found += [f"{path}: {name}" for name in names if name in NOT_EVERYWHERE or name.startswith("sched_")]
    assert found == []
