"""Where commands write: into new folders, and never through a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_cli import BASE, call
from tests.marks import rest_slow

SWEEP = "sweep: {grid: {pipeline.microbatches: [4, 8]}}\n"
OUTPUTS = [
    pytest.param(("plot", "x.yaml", "-o"), marks=pytest.mark.slow),
    ("export", "x.yaml", "--format", "torch-csv", "-o"),
    pytest.param(("compare", "x.yaml", "--schedules", "gpipe,1f1b", "-o"), marks=pytest.mark.slow),
    pytest.param(("compare", "x.yaml", "--schedules", "gpipe,1f1b", "--parts"), marks=pytest.mark.slow),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "x.yaml").write_text(BASE + SWEEP, encoding="utf-8")
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("command", OUTPUTS, ids=" ".join)
def test_a_file_in_a_new_folder(command: tuple[str, ...], folder: Path) -> None:
    done = call(*command, "new/er/x.svg", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "new/er/x.svg").stat().st_size > 0


@pytest.mark.parametrize("command", [*OUTPUTS, ("run", "x.yaml", "--out"), ("sweep", "x.yaml", "--out")], ids=" ".join)
def test_a_path_through_a_file(command: tuple[str, ...], folder: Path) -> None:
    done = call(*command, "file/x.svg", cwd=folder)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "file/x.svg: can't be written: file is a file, not a folder"
    assert (folder / "file").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("command", rest_slow(["run", "compare", "report"]))
def test_a_sweep_is_no_run(tmp_path: Path, command: str) -> None:
    (tmp_path / "grid").mkdir()
    (tmp_path / "grid" / "sweep.sqlite").touch()
    done = call(command, "grid", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("grid: holds a sweep, where one run is due; `ppsim plot` draws it")


@pytest.mark.parametrize("command", [("check",), ("explain", "--op", "0B0")])
def test_a_results_folder_names_its_config(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "done").mkdir()
    (tmp_path / "done" / "config.yaml").touch()
    done = call(command[0], "done", *command[1:], cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() == f"done: a directory, where a YAML file is due; give {Path('done', 'config.yaml')}"


@pytest.mark.parametrize(
    ("command", "more"),
    rest_slow(
        [("run {}", ""), ("report {}", ""), ("run x.yaml --out {}", ""), ("report x.yaml -o {}", ".html")], several=True
    ),
)
def test_a_name_that_is_too_long(command: str, more: str, folder: Path) -> None:
    """Names of files have 255 bytes at most, here as elsewhere."""
    name = "x" * 300 + more
    done = call(*command.format(name).split(), cwd=folder)
    assert (done.returncode, done.stderr.count("Traceback")) == (2, 0)
    assert done.stderr.rstrip().endswith("File name too long")
    assert name in done.stderr
