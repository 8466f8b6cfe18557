"""Run the notebooks and keep them with their outputs: ``python -m tests.notebooks``.

Beside its outputs each cell keeps what they were made of: a digest of its source, and one of the data of each figure
that it shows. By these ``tests/test_notebooks.py`` tells whether a notebook is current; the bytes of a picture differ
from one release of matplotlib to the next and say nothing.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SECONDS = 300
"""A cell may take so long, of which a whole notebook needs a fraction where nothing else runs."""
MADE_OF = "ppsim"
"""The key in a cell's metadata that holds what its outputs were made of."""
FIGURE = "application/vnd.ppsim.figure"
COLOURS = 256
"""Pictures are kept with so many colours, at a third of their size."""
TEACH = f"""
from IPython.core.formatters import BaseFormatter as _Formatter
from traitlets import ObjectName as _Name, Unicode as _Text
from tests.figures import digest as _digest

class _Data(_Formatter):
    format_type, print_method = _Text({FIGURE!r}), _Name("_repr_ppsim_figure_")

    def __call__(self, shown):
        return _digest(shown)

_shell = get_ipython()
_shell.display_formatter.formatters[{FIGURE!r}] = _Data(parent=_shell)
"""
"""Run in the kernel before the first cell: what is shown carries the digest of its data as well."""


def read(path: Path) -> Any:
    """The notebook in a file."""
    return nbformat.read(path, as_version=4)


def code(notebook: Any) -> list[Any]:
    """Its code cells."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def source_of(cell: Any) -> str:
    """A digest of a cell's source."""
    return hashlib.sha256(cell.source.encode()).hexdigest()[:16]


def executed(path: Path) -> Any:
    """The notebook with fresh outputs; each code cell's metadata say what they were made of."""
    notebook = read(path)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(TEACH))
    client = nbclient.NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}
    )
    client.execute(env=_environment())
    notebook.cells.pop(0)
    for number, cell in enumerate(code(notebook), 1):
        figures = [output.data.pop(FIGURE) for output in cell.outputs if FIGURE in output.get("data", {})]
        cell.outputs = _joined([_kept(output, number) for output in cell.outputs])
        cell.execution_count = number
        cell.metadata = nbformat.from_dict({MADE_OF: {"source": source_of(cell), "figures": figures}})
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    return notebook


def _environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "120"}


def _kept(output: Any, number: int) -> Any:
    """An output of a cell of that number, its pictures with fewer colours, without the speed of this machine."""
    if "execution_count" in output:
        output.execution_count = number
    data = output.get("data", {})
    if "text/plain" in data:
        data["text/plain"] = re.sub(r"[\d.,]+ cases/s, ", "", data["text/plain"])
    if "image/png" in data:
        data["image/png"] = _smaller(data["image/png"])
    if "text/html" in data:
        embedded = r"(?<=base64,)[A-Za-z0-9+/=]+"
        data["text/html"] = re.sub(embedded, lambda found: _smaller(found[0]), data["text/html"])
    return output


def _joined(outputs: list[Any]) -> list[Any]:
    """What is printed comes in pieces, by chance: pieces of one stream that follow each other are one."""
    found: list[Any] = []
    for output in outputs:
        if found and output.output_type == found[-1].output_type == "stream" and output.name == found[-1].name:
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def _smaller(picture: str) -> str:
    from PIL import Image

    out = io.BytesIO()
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    image.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return base64.b64encode(out.getvalue()).decode()


def main(names: list[str]) -> None:
    """Run all notebooks, or those of the given names, and write them back."""
    for path in NOTEBOOKS:
        if not names or path.stem in names:
            nbformat.write(executed(path), path)


if __name__ == "__main__":
    main(sys.argv[1:])
