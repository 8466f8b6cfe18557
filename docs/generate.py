"""Pages that are made of the product itself: gallery, reference, papers, notebooks. So nothing is written twice."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import gallery
import reference
from pieces import toctree


def everything(docs: Path) -> None:
    """Write all generated pages into ``docs/generated``."""
    out = docs / "generated"
    shutil.rmtree(out, ignore_errors=True)
    (out / "gallery").mkdir(parents=True)
    gallery.pages(out)
    pages = {
        "config": reference.settings(),
        "commands": reference.commands(),
        "metrics": reference.figures(),
        "python": reference.python(),
        "papers": reference.published(docs.parent / "results" / "reference" / "papers.csv"),
        "architecture": _moved((docs.parent / "ARCHITECTURE.md").read_text("utf-8")),
        "contributing": _moved((docs.parent / "CONTRIBUTING.md").read_text("utf-8")),
    }
    for name, text in pages.items():
        (out / f"{name}.md").write_text(text, encoding="utf-8")
    notebooks(docs.parent / "notebooks", out)


def _moved(text: str) -> str:
    """A page of the repository's root, with its links as they are from here."""
    for name in ("ARCHITECTURE", "CONTRIBUTING"):
        text = text.replace(f"]({name}.md", f"]({name.lower()}.md")
    return text.replace("](docs/", "](../")


def notebooks(folder: Path, out: Path) -> None:
    """Every notebook with what it prints and draws: those that are kept without are run where they lie."""
    import nbclient
    import nbformat

    (out / "notebooks").mkdir()
    for path in sorted(folder.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        if not any(cell.get("outputs") for cell in notebook.cells):
            resources = {"metadata": {"path": str(folder)}}
            nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = _plain_formulas(cell.source)
        nbformat.write(notebook, out / "notebooks" / path.name)
    names = "\n".join(f"notebooks/{path.stem}" for path in sorted(folder.glob("*.ipynb")))
    page = f"# Notebooks\n\nThe tests run each of them from its first cell to its last.\n\n{toctree(names)}"
    (out / "notebooks.md").write_text(page, encoding="utf-8")


TEX = {
    r"\\frac\{([^{}]*)\}\{([^{}]*)\}": r"(\1) / (\2)",
    r"(?<!\w)\((\w+)\)": r"\1",
    r"\\sqrt\{([^{}]*)\}": r"√(\1)",
    r"\\q?quad|\\,": " ",
    r"\\text\{([^{}]*)\}": r"\1",
    r"\\cdot": "·",
    r"\^\*": "*",
    r"\\(?:left|right)|\\(?=max|%)": "",
    r" +": " ",
    r" ,": ",",
}
"""What formulas in notebooks use of TeX, as text: what sets it in a browser would have to be loaded from elsewhere."""


def _plain_formulas(text: str) -> str:
    return re.sub(r"\$\$?([^$]+?)\$\$?", lambda found: f"`{_plain(found[1])}`", text)


def _plain(formula: str) -> str:
    for tex, plain in TEX.items():
        formula = re.sub(tex, plain, formula)
    return formula.strip()
