"""The notebooks are kept as they ran, with their pictures, and run again to the same figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nbformat", reason="pip install 'ppsim[notebook]'")
pytest.importorskip("nbclient", reason="pip install 'ppsim[notebook]'")

from tests.notebooks import FOLDER, MADE_OF, NOTEBOOKS, code, executed, read, source_of

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
AGAIN = "run `python -m tests.notebooks`"


def test_all_are_there() -> None:
    names = [
        "01_quickstart", "02_sweep_p_m", "03_memory", "04_schedules", "05_real_runs", "06_your_trace", "07_papers",
    ]  # fmt: skip
    assert [path.stem for path in NOTEBOOKS] == names


@each
def test_kept_as_it_ran(path: Path) -> None:
    """From the first cell to the last, with no error, nothing on stderr, its pictures, and by its present text."""
    notebook = read(path)
    cells = code(notebook)
    assert [cell.metadata.get(MADE_OF, {}).get("source") for cell in cells] == [source_of(cell) for cell in cells], (
        AGAIN
    )
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert [output for output in outputs if output.output_type == "error"] == []
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
    assert len([output for output in outputs if "image/png" in output.get("data", {}) or _page(output)]) >= 3
    assert set(notebook.metadata) == {"kernelspec", "language_info"}


@each
def test_takes_the_way_of_a_reader(path: Path) -> None:
    """By Python, where a reader learns from it: no notebook calls a command."""
    assert not [cell.source for cell in code(read(path)) if "subprocess" in cell.source or cell.source[:1] == "!"]


@each
def test_ends_with_something_to_change(path: Path) -> None:
    *_, text, last = read(path).cells
    assert (text.cell_type, last.cell_type) == ("markdown", "code")
    assert "## Your turn" in text.source


@pytest.mark.slow
@each
# nbclient runs its kernel on an event loop of the policy that Python will do without; and zmq prefers another on Windows.
@pytest.mark.filterwarnings("default::DeprecationWarning", "default::ResourceWarning")
def test_runs_to_the_same_figures(path: Path) -> None:
    """Figures by their data, since the bytes of a picture depend on who draws it; nothing is left in its folder."""
    before = sorted(FOLDER.rglob("*"))
    now = code(executed(path))
    assert [output for cell in now for output in cell.outputs if output.get("name") == "stderr"] == []
    figures = [[cell.metadata[MADE_OF]["figures"] for cell in cells] for cells in (now, code(read(path)))]
    assert figures[0] == figures[1], AGAIN
    assert sum(map(len, figures[0])) >= 3
    assert sorted(FOLDER.rglob("*")) == before


def _page(output: Any) -> bool:
    return "<img" in output.get("data", {}).get("text/html", "")
