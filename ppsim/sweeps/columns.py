"""What a sweep varied, as columns of plain values: a name or a number for each setting, text with units in SI."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, get_args

from ppsim._latest import Latest
from ppsim.config.condition import quantity
from ppsim.config.keys import NAMES
from ppsim.config.sweep import Sweep
from ppsim.sweeps.cases import REMEMBERED, setting
from ppsim.units import Dimension, parse

Cell = int | float | str | bool | None
SI: dict[Dimension, str] = {"time": "s", "size": "B", "bandwidth": "B/s", "rate": "FLOP/s", "flops": "FLOP"}
DIMENSIONS: dict[str, Dimension] = {unit: dimension for dimension, unit in SI.items()}


class Column(NamedTuple):
    """A column of a sweep's table: its name, parameter or figure, the type of its values, their unit ('': none)."""

    name: str
    role: str
    kind: str
    unit: str = ""


def parameters(sweep: Sweep) -> list[Column]:
    """A column for each setting that varies, and for each part of those that are given as mappings."""
    found: dict[str, list[Any]] = {}
    for key in sweep.swept():
        for value in sweep.values_of(key):
            for name, part in _flat(key, value):
                found.setdefault(name, []).append(part)
    return [_column(name, values) for name, values in found.items()]


def _column(name: str, values: list[Any]) -> Column:
    given = [value for value in values if value is not None]
    units = {_unit(value) for value in given}
    if len(units) == 1 and (unit := units.pop()):
        return Column(name, "parameter", "float", unit)
    kinds = {type(value).__name__ for value in given}
    kind = kinds.pop() if len(kinds) == 1 else "float" if kinds == {"int", "float"} else "str"
    return Column(name, "parameter", kind if kind in ("int", "float", "bool") else "str")


def _flat(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A setting's name or value, then its parts where it is a mapping."""
    if not isinstance(value, Mapping):
        yield key, value
        return
    for part, inner in value.items():
        yield from ((key, inner),) if part in NAMES else _flat(f"{key}.{part}", inner)


def _unit(value: Any) -> str:
    if isinstance(value, str):
        for dimension in get_args(Dimension):
            try:
                parse(value, dimension)
            except ValueError:
                continue
            return SI[dimension]
    return ""


class Cells:
    """Cases' values in a sweep's columns; of a section that cases share they are worked out once."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._names = [column.name for column in columns]
        self._of_section: dict[str, list[Column]] = {}
        for column in columns:
            self._of_section.setdefault(column.name.partition(".")[0], []).append(column)
        self._known: Latest[tuple[dict[str, Cell], Any]] = Latest(REMEMBERED)

    def of(self, settings: Mapping[str, Any]) -> dict[str, Cell]:
        """A case's value in each column; where it sets none, what holds by default."""
        found: dict[str, Cell] = {}
        for section, columns in self._of_section.items():
            plain = {section: settings[section]} if section in settings else {}
            key = (section, *map(id, plain.values()))
            found |= self._known.of(key, lambda: (_cells(plain, columns), plain))[0]  # noqa: B023 - called at once
        return {name: found[name] for name in self._names}


def _cells(settings: Mapping[str, Any], columns: Iterable[Column]) -> dict[str, Cell]:
    return {column.name: _cell(setting(settings, column.name), column) for column in columns}


def _cell(value: Any, column: Column) -> Cell:
    value = quantity(value) if column.unit else value
    if isinstance(value, Fraction):
        return float(value)
    if value is None or (isinstance(value, int | float) and column.kind != "str"):
        return value
    return value if isinstance(value, str) else json.dumps(value)
