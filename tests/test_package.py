"""What others build on: one version everywhere, types that a checker sees, a wheel that works away from here."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import ppsim
from tests import installed

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


@pytest.mark.slow
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


def done(*command: str | Path, cwd: Path) -> str:
    """What a command prints, in an environment without this repository."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    process = subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.slow
def test_a_wheel_works_away_from_here(tmp_path: Path) -> None:
    """Built by ``python -m build``, installed into a clean environment, the quickstart run from another folder."""
    installed.needs_an_index(tmp_path)
    clone = installed.clone(tmp_path / "clone")
    done(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "dist", cwd=clone)
    (wheel,) = (tmp_path / "dist").iterdir()
    assert wheel.name.startswith(f"ppsim-{ppsim.__version__}-py3-none-any")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = {path.relative_to(clone).as_posix() for path in (clone / "ppsim").rglob("*") if path.is_file()}
    assert packed == source
    assert "ppsim/py.typed" in packed
    venv.create(tmp_path / "env", with_pip=True)
    scripts = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin")
    done(scripts / "python", "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "quickstart.yaml").write_bytes((ROOT / "configs" / "quickstart.yaml").read_bytes())
    assert "quickstart: 1f1b, p = 4, m = 8; 64 ops" in done(scripts / "ppsim", "run", "quickstart.yaml", cwd=elsewhere)
    assert (elsewhere / "results" / "quickstart" / "gantt.png").is_file()
    code = "import ppsim; print(ppsim.__version__, ppsim.__file__)"
    version, file = done(scripts / "python", "-c", code, cwd=elsewhere).split()
    assert (version, Path(file).is_relative_to(tmp_path / "env")) == (ppsim.__version__, True)


def test_the_workflow_runs_what_everyone_runs() -> None:
    """On the Pythons that the package says it supports, by the same script."""
    flow = YAML(typ="safe", pure=True).load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    (job,) = flow["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
