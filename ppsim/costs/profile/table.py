"""Profiles as a CSV table of our own: a layer per row, its times and sizes in columns.

    layer,     forward, input_grad, weight_grad, activation, message, parameters
    embedding, 0.1 ms,  0 ms,       0.2 ms,      32 MiB,     32 MiB,  524 M
    block 0,   3.2 ms,  3.1 ms,     2.9 ms,      700 MiB,    32 MiB,  218112000

``backward`` may stand for the two halves. A value carries its unit, or its column's name ends in it (``forward_ms``,
``activation_mib``). ``parameters`` is a number, or a size where their bytes are given. Rows that begin with # are
comments.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from fractions import Fraction

from ppsim.costs.profile.measured import MeasuredLayer, listed
from ppsim.errors import ConfigError, did_you_mean, printable, shown
from ppsim.units import Dimension, parse

COLUMNS: dict[str, Dimension | None] = {
    "layer": None, "forward": "time", "backward": "time", "input_grad": "time", "weight_grad": "time",
    "activation": "size", "message": "size", "parameters": None,
}  # fmt: skip
UNITS = {
    "time": {unit: unit for unit in ("s", "ms", "us", "ns")},
    "size": {"bytes": "B", "b": "B"}
    | {unit.lower(): unit for unit in ("kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")},
}
"""By dimension: the end of a column's name -> the unit that it stands for."""
THOUSANDS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
MOST_PARAMETERS = 10**18


def read(text: str, label: str) -> list[MeasuredLayer]:
    """The layers of a CSV profile. Raises ConfigError, a line per mistake, each as file:line: what is wrong."""
    rows = [
        (number, [cell.strip() for cell in cells])
        for number, cells in _rows(text, label)
        if any(cell.strip() for cell in cells) and not cells[0].lstrip().startswith("#")
    ]
    if not rows:
        raise ConfigError(f"{label}: no rows; the columns are {', '.join(COLUMNS)}")
    (line, header), body = rows[0], rows[1:]
    mistakes: list[str] = []
    columns = _columns(header, mistakes)
    if mistakes or not body:
        found = mistakes or ["no layers below the columns' names"]
        raise ConfigError("\n".join(f"{label}:{line}: {mistake}" for mistake in found))
    layers = []
    for line, cells in body:
        wrong: list[str] = []
        if len(cells) != len(header):
            wrong.append(f"{len(cells)} values, where the first row names {len(header)} columns")
        else:
            layers.append(_layer(dict(zip(columns, cells, strict=True)), wrong))
        mistakes += [f"{label}:{line}: {mistake}" for mistake in wrong]
    if mistakes:
        raise ConfigError(listed(mistakes))
    return layers


def _rows(text: str, label: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise ConfigError(f"{label}:{reader.line_num}: {error}") from None


def _columns(header: list[str], mistakes: list[str]) -> list[tuple[str, str]]:
    """(column, unit that its name gives) of each; what is wrong with them goes to ``mistakes``."""
    found: list[tuple[str, str]] = []
    for cell in header:
        name, _, end = cell.lower().rpartition("_")
        unit = UNITS.get(COLUMNS.get(name) or "", {}).get(end, "")
        column = (name, unit) if unit else (cell.lower(), "")
        if column[0] not in COLUMNS:
            hint = did_you_mean(column[0], COLUMNS) or f"; known: {', '.join(COLUMNS)}"
            mistakes.append(f"unknown column {shown(cell)}{hint}")
        elif column[0] in (other for other, _ in found):
            mistakes.append(f"two columns {shown(column[0])}")
        found.append(column)
    names = {name for name, _ in found}
    mistakes += [f"no column '{name}'" for name in ("layer", "forward") if name not in names]
    halves = {"input_grad", "weight_grad"} & names
    if halves and "backward" in names:
        mistakes.append("columns for the backward and for its halves; leave 'backward' out, it is their sum")
    elif len(halves) == 1:
        mistakes.append(f"a column '{halves.pop()}' alone; a backward's two halves are given together, or neither")
    elif not halves and "backward" not in names:
        mistakes.append("no column 'backward', nor input_grad and weight_grad")
    return found


def _layer(cells: dict[tuple[str, str], str], mistakes: list[str]) -> MeasuredLayer:
    """One row; what is wrong goes to ``mistakes``."""
    values: dict[str, Fraction] = {}
    parameters: int | Fraction = 0
    name = ""
    for (column, unit), cell in cells.items():
        dimension = COLUMNS[column]
        try:
            if column == "layer":
                name = cell
            elif column == "parameters":
                parameters = _parameters(cell) if cell else 0
            elif dimension == "time" or (dimension is not None and cell):  # a size that isn't given is none
                values[column] = parse(f"{cell} {unit}" if unit and cell else cell or None, dimension)
        except ValueError as error:
            mistakes.append(f"{column}: {error}")
    backward = values.get("backward")
    return MeasuredLayer(
        name=printable(name),
        forward=values.get("forward", Fraction(0)),
        input_grad=values.get("input_grad", Fraction(0)) if backward is None else backward / 2,
        weight_grad=values.get("weight_grad", Fraction(0)) if backward is None else backward / 2,
        activation=values.get("activation", Fraction(0)),
        message=values.get("message", Fraction(0)),
        parameters=parameters,
        halves_assumed=backward is not None,
    )


def _parameters(cell: str) -> int | Fraction:
    """A number of parameters such as 218112000 or '524 M', or a size such as '872 MB' in exact bytes."""
    number = cell.rstrip("kMGT").rstrip()
    factor = THOUSANDS.get(cell[len(number) :].strip())
    try:
        count = Fraction(number) * factor if factor else None
    except (ValueError, ZeroDivisionError):
        count = None
    if count is None:
        if cell.endswith("B"):
            size = parse(cell, "size")
            if cell.rstrip("B")[-1:] in (" ", *"0123456789"):
                raise ValueError(
                    f"{shown(cell)}: billions, or bytes? write '7 G' for a number, 'kB' or more for a size"
                )
            return size
        raise ValueError(f"{shown(cell)} is neither a number of parameters, e.g. 218112000, nor a size, e.g. '872 MB'")
    if count < 0 or count.denominator != 1 or count > MOST_PARAMETERS:
        raise ValueError(f"{shown(cell)} is not a whole number of parameters")
    return int(count)
