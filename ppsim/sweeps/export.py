"""A sweep's table, out of its file: CSV, Parquet, DataFrame."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ppsim.errors import PpsimError, printable
from ppsim.sweeps.columns import Column
from ppsim.sweeps.db import SweepFile
from ppsim.sweeps.folder import CSV, FILE, PARQUET, shards

if TYPE_CHECKING:
    import pandas as pd

_NOT_IN_CSV = ("number", "seconds")
"""What depends on the sweep that a case is in, and on the clock."""


def ordered(columns: list[Column]) -> list[Column]:
    """Parameters in the order of the sweep, then figures by name."""
    figures = sorted((column for column in columns if column.role == "figure"), key=lambda column: column.name)
    return [*(column for column in columns if column.role == "parameter"), *figures]


def write_tables(file: SweepFile, folder: Path) -> list[str]:
    """Write ``results.csv``, a row per case in the order of their ids; where pyarrow is installed, in Parquet, too.

    The same cases give the same bytes, whoever ran them and in which order: times of running are left out.
    Returns the files' names.
    """
    table = _table(file)
    fresh = folder / f"{CSV}.new"
    _write_csv(table, fresh)
    fresh.replace(folder / CSV)
    if not find_spec("pyarrow"):
        return [CSV]
    fresh = folder / f"{PARQUET}.new"
    _write_parquet(table, fresh)
    fresh.replace(folder / PARQUET)
    return [CSV, PARQUET]


def _write_csv(table: _Table, path: Path) -> None:
    """What follows from the cases alone, in the order of their ids."""
    names = [name for name in table.columns if name not in _NOT_IN_CSV]
    names = [*(name for name in names if name != "error"), "error"]
    rows = list(zip(*(table.columns[name][1] for name in names), strict=True))
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(sorted(rows))  # by their ids, which come first


def read_sweep(path: str | Path) -> pd.DataFrame:
    """The table of a sweep: a row per case; id, number, status, error, seconds, parameters by their keys, figures.

    ``path`` is the sweep's folder or its file. Parameters with units are numbers in SI. ``attrs`` names the columns
    that are ``parameters`` and the ``units`` of those that have one.
    """
    with SweepFile(file_in(Path(path))) as file:
        return frame(file)


def file_in(path: Path) -> Path:
    """The sweep's file in a folder. Raises PpsimError where there is none."""
    if path.is_file():
        return path
    if (path / FILE).is_file():
        return path / FILE
    if found := shards(path):
        raise PpsimError(
            f"{printable(str(path))}: holds {len(found)} of {next(iter(found)).of} shards of a sweep; "
            f"put them together first: ppsim collect {printable(str(path))}"
        )
    raise PpsimError(f"{printable(str(path))}: no {FILE} in it; `ppsim sweep` makes one")


class _Table(NamedTuple):
    """A sweep's table: by column pandas' type and the cells, and what is said beside them."""

    columns: dict[str, tuple[str, Sequence[Any]]]
    about: dict[str, Any]


def _table(file: SweepFile) -> _Table:
    """The rows of an open file, in the order of the sweep."""
    columns = ordered(file.columns())
    first = ["id", "number", "status", "error", "seconds"]
    names = [*first, *(column.name for column in columns)]
    values = list(zip(*file.rows(names, order="number"), strict=True)) or [()] * len(names)
    kinds = ["str", "int", "str", "str", "float", *(column.kind for column in columns)]
    typed = {name: _typed(cells, kind) for name, cells, kind in zip(names, values, kinds, strict=True)}
    parameters = [column.name for column in columns if column.role == "parameter"]
    units = {column.name: column.unit for column in columns if column.unit}
    return _Table(typed, {"parameters": parameters, "name": file.about("name") or "", "units": units})


def _typed(cells: Sequence[Any], kind: str) -> tuple[str, Sequence[Any]]:
    """pandas' type of a column's cells, and these as it takes them."""
    if kind == "bool":
        return "boolean", [None if cell is None else bool(cell) for cell in cells]
    if kind == "str":
        return "str", cells
    types = set(map(type, cells))
    if kind == "int" and types <= {int, type(None)}:
        return ("int64" if types <= {int} else "Int64"), cells
    return "float64", cells


def frame(file: SweepFile) -> pd.DataFrame:
    """The rows of an open file."""
    import pandas as pd

    table = _table(file)
    arrays: Any = {name: pd.array(cells, dtype=kind) for name, (kind, cells) in table.columns.items()}  # type: ignore[call-overload]  # any dtype
    found = pd.DataFrame(arrays)
    found.attrs.update(table.about)
    return found


def _write_parquet(table: _Table, path: Path) -> None:
    """The file that pandas would write of the table, so that it reads types and units back, without loading pandas."""
    import pyarrow as pa
    from pyarrow import parquet

    def described(name: str, kind: str) -> dict[str, Any]:
        return {"name": name, "field_name": name, "pandas_type": _ARROW[kind][1], "numpy_type": kind, "metadata": None}

    described_all = [described(name, kind) for name, (kind, _) in table.columns.items()]
    for_pandas = {
        "index_columns": [], "column_indexes": [], "columns": described_all, "attributes": table.about,
        "creator": {"library": "pyarrow", "version": pa.__version__}, "pandas_version": version("pandas"),
    }  # fmt: skip
    arrays = [
        # A number of an integer's size that is among others is rounded, as pandas does it.
        pa.array(np.array(cells, float), from_pandas=True) if kind == "float64" else pa.array(cells, _ARROW[kind][0])
        for kind, cells in table.columns.values()
    ]
    metadata = {"pandas": json.dumps(for_pandas), "PANDAS_ATTRS": json.dumps(table.about)}
    parquet.write_table(pa.table(arrays, names=list(table.columns), metadata=metadata), path)


_ARROW = {
    "str": ("large_string", "object"), "boolean": ("bool", "bool"), "int64": ("int64", "int64"),
    "Int64": ("int64", "int64"), "float64": ("double", "float64"),
}  # fmt: skip
"""Arrow's names of pandas' types: the one that it keeps, and the one that pandas reads it back by."""
