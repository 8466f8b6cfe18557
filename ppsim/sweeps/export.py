"""A sweep's table, out of its file: CSV, Parquet, DataFrame."""

from __future__ import annotations

import csv
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppsim.errors import PpsimError, printable
from ppsim.sweeps.columns import Column
from ppsim.sweeps.db import SweepFile
from ppsim.sweeps.folder import CSV, FILE, PARQUET, shards

if TYPE_CHECKING:
    import pandas as pd


def ordered(columns: list[Column]) -> list[Column]:
    """Parameters in the order of the sweep, then figures by name."""
    figures = sorted((column for column in columns if column.role == "figure"), key=lambda column: column.name)
    return [*(column for column in columns if column.role == "parameter"), *figures]


def write_tables(file: SweepFile, folder: Path) -> list[str]:
    """Write ``results.csv``, a row per case in the order of their ids; where pyarrow is installed, in Parquet, too.

    The same cases give the same bytes, whoever ran them and in which order: times of running are left out.
    Returns the files' names.
    """
    columns = ordered(file.columns())
    fresh = folder / f"{CSV}.new"
    with fresh.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["id", "status", *(column.name for column in columns), "error"])
        truths = [column.kind == "bool" for column in columns]
        for identity, status, *values, error in file.rows(["id", "status", *(c.name for c in columns), "error"]):
            shown = (bool(v) if truth and v is not None else v for v, truth in zip(values, truths, strict=True))
            writer.writerow([identity, status, *shown, error])
    fresh.replace(folder / CSV)
    if not find_spec("pyarrow"):
        return [CSV]
    fresh = folder / f"{PARQUET}.new"
    frame(file).to_parquet(fresh, index=False)
    fresh.replace(folder / PARQUET)
    return [CSV, PARQUET]


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


def frame(file: SweepFile) -> pd.DataFrame:
    """The rows of an open file."""
    import pandas as pd

    columns = ordered(file.columns())
    first = ["id", "number", "status", "error", "seconds"]
    names = [*first, *(column.name for column in columns)]
    values = list(zip(*file.rows(names, order="number"), strict=True)) or [()] * len(names)
    kinds = ["str", "int", "str", "str", "float", *(column.kind for column in columns)]
    table = pd.DataFrame({name: _typed(cells, kind) for name, cells, kind in zip(names, values, kinds, strict=True)})
    table.attrs["parameters"] = [column.name for column in columns if column.role == "parameter"]
    table.attrs["name"] = file.about("name") or ""
    table.attrs["units"] = {column.name: column.unit for column in columns if column.unit}
    return table


def _typed(cells: tuple[Any, ...], kind: str) -> pd.api.extensions.ExtensionArray | Any:
    import pandas as pd

    if kind == "bool":
        return pd.array([None if cell is None else bool(cell) for cell in cells], dtype="boolean")
    if kind == "str":
        return pd.array(cells, dtype="str")
    if kind == "int" and all(type(cell) is int for cell in cells):
        return pd.array(cells, dtype="int64")
    if kind == "int" and all(cell is None or type(cell) is int for cell in cells):
        return pd.array(cells, dtype="Int64")
    return pd.array([float("nan") if cell is None else cell for cell in cells], dtype="float64")
