"""The notebooks run from the first cell to the last, as a reader would run them, and are kept without outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="pip install 'ppsim[notebook]'")
nbclient = pytest.importorskip("nbclient", reason="pip install 'ppsim[notebook]'")

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SECONDS = 60
"""A cell may take so long, of which a whole notebook needs a fraction where nothing else runs."""
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_all_are_there() -> None:
    names = [
        "01_quickstart", "02_sweep_p_m", "03_memory", "04_schedules", "05_real_runs", "06_your_trace", "07_papers",
    ]  # fmt: skip
    assert [path.stem for path in NOTEBOOKS] == names


@each
def test_kept_without_outputs(path: Path) -> None:
    """Outputs would grow with every run, and a change of them would hide one of the text."""
    notebook = read(path)
    assert [cell for cell in code(notebook) if cell.outputs or cell.execution_count is not None] == []
    assert set(notebook.metadata) == {"kernelspec", "language_info"}


@each
def test_ends_with_something_to_change(path: Path) -> None:
    *_, text, last = read(path).cells
    assert (text.cell_type, last.cell_type) == ("markdown", "code")
    assert "## Your turn" in text.source


@pytest.mark.slow
@each
# nbclient runs its kernel on an event loop of the policy that Python will do without; and zmq prefers another on Windows.
@pytest.mark.filterwarnings("default::DeprecationWarning", "default::ResourceWarning")
def test_runs_whole(path: Path) -> None:
    """With no error and nothing on stderr; its figures are shown; nothing is left in its folder."""
    before = sorted(FOLDER.rglob("*"))
    notebook = read(path)
    client = nbclient.NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}
    )
    client.execute()
    outputs = [output for cell in code(notebook) for output in cell.outputs]
    assert [output for output in outputs if output.output_type == "error"] == []
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
    pictures = [output for output in outputs if "image/png" in output.get("data", {}) or _page(output)]
    assert len(pictures) >= 3
    assert sorted(FOLDER.rglob("*")) == before


def _page(output: Any) -> bool:
    return "<img" in output.get("data", {}).get("text/html", "")
