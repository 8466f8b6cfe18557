"""Measured runs: a CSV table with a column per setting that differs, and each run's step time.

    pipeline.microbatches, costs.tensor_parallel, step_time
    8,                     2,                     1387 ms
    32,                    2,                     5480 ms

An empty cell leaves the config's setting. The time carries its unit, or its column's name ends in it (``step_ms``).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppsim import _textfile as textfile
from ppsim.config import keys
from ppsim.config.experiment import Experiment
from ppsim.config.sweep import meant
from ppsim.errors import ConfigError, printable, shown
from ppsim.units import parse

LIMIT = 4 << 20
TIME = "step_time"
UNITS = {f"{name}_{unit}": unit for name in (TIME, "step") for unit in ("s", "ms", "us")}


@dataclass(frozen=True)
class MeasuredRun:
    """One run: its line of the file, what it sets, as KEY=VALUE, and its step time."""

    line: int
    labels: dict[str, Any]
    """What it sets, as the file has it."""
    assignments: Sequence[str]
    seconds: float


def read(path: Path) -> list[MeasuredRun]:
    """The runs of a CSV file. Raises ConfigError, a line per mistake, each as file:line: what is wrong."""
    label = printable(str(path))
    text = textfile.read(path, "a CSV file of runs", LIMIT)
    rows = [(n, cells) for n, cells in _rows(text, label) if any(cells) and not cells[0].startswith("#")]
    if not rows:
        raise ConfigError(f"{label}: no runs; the columns are settings that differ, and {TIME}")
    (line, header), body = rows[0], rows[1:]
    columns, mistakes = _columns(header)
    if mistakes or not body:
        raise ConfigError("\n".join(f"{label}:{line}: {text}" for text in mistakes or ["no runs below the columns"]))
    runs = []
    for number, cells in body:
        try:
            runs.append(_run(number, cells, columns))
        except ValueError as error:
            mistakes.append(f"{label}:{number}: {error}")
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return runs


def _rows(text: str, label: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    try:
        for cells in reader:
            yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise ConfigError(f"{label}:{reader.line_num}: {error}") from None


def _columns(header: list[str]) -> tuple[list[str], list[str]]:
    """(each column's setting, or what the time's is called; what is wrong)."""
    found, mistakes = [], []
    for name in header:
        if name == TIME or name in UNITS:
            found.append(name)
            continue
        paths = meant(name, Experiment, {})
        if len(paths) == 1:
            found.append(paths[0])
        elif paths:
            mistakes.append(f"{shown(name)} could be {' or '.join(paths[:4])}; write the whole key")
        else:
            mistakes.append(f"column {shown(name)}: {keys.problem(name, Experiment)}")
    times = [name for name in found if name == TIME or name in UNITS]
    if len(times) != 1:
        mistakes.append(f"{'no' if not times else 'more than one'} column {TIME} (or step_ms, …)")
    if len(set(found)) < len(found):
        mistakes.append("a setting has two columns")
    return found, mistakes


def _run(number: int, cells: list[str], columns: list[str]) -> MeasuredRun:
    if len(cells) != len(columns):
        raise ValueError(f"{len(cells)} values, where the first row names {len(columns)} columns")
    labels = {key: cell for key, cell in zip(columns, cells, strict=True) if cell and key != TIME and key not in UNITS}
    timed = next(key for key in columns if key == TIME or key in UNITS)
    cell = cells[columns.index(timed)]
    seconds = parse(f"{cell} {UNITS[timed]}" if timed in UNITS and cell else cell or None, "time")
    if not seconds:
        raise ValueError(f"{TIME}: a step of no time can't have been measured")
    return MeasuredRun(number, labels, [f"{key}={cell}" for key, cell in labels.items()], float(seconds))
