"""A paper's figures simulated: every row beside its published value, judged as its page says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from ppsim.errors import ConfigError, PpsimError, printable
from ppsim.papers.paper import PAGE, Figure, Fit, Paper, cells, rows_of
from ppsim.papers.runs import Runs, Values

STEP = 0.001
"""Of the logarithm of a constant, for slopes: much larger than the nanoseconds that times round to."""


@dataclass(frozen=True)
class Row:
    """One published value and the simulated one; ``judged`` is False for rows that only show or fit."""

    label: str
    columns: Values
    published: float
    simulated: float | None
    """None where the run can't be made; ``note`` says why."""
    judged: bool
    met: bool | None
    note: str = ""

    @property
    def error(self) -> float | None:
        """(simulated - published) / published."""
        return None if self.simulated is None or not self.published else self.simulated / self.published - 1


@dataclass(frozen=True)
class Table:
    """One figure, reproduced: its rows, and the constants that were fitted (by the values of ``fit.each``)."""

    paper: str
    figure: Figure
    rows: tuple[Row, ...]
    constants: tuple[tuple[str, dict[str, float]], ...] = ()

    @property
    def judged(self) -> list[Row]:
        """The rows that are targets."""
        return [row for row in self.rows if row.judged]

    @property
    def missed(self) -> list[Row]:
        """The targets that are missed."""
        return [row for row in self.judged if not row.met]

    @property
    def mean_error(self) -> float | None:
        """The mean of the absolute relative errors of the targets."""
        errors = [abs(error) for error in self.errors]
        return sum(errors) / len(errors) if errors else None

    @property
    def worst_error(self) -> float | None:
        """The relative error of the target that is farthest off."""
        errors = self.errors
        return max(errors, key=abs) if errors else None

    @property
    def errors(self) -> list[float]:
        """The relative errors of the targets; an order has none."""
        judged = [] if self.figure.kind == "order" else self.judged
        return [row.error for row in judged if row.error is not None]


def reproduce(paper: Paper, watch: Callable[[str], None] = lambda _: None) -> list[Table]:
    """Every figure of a paper; ``watch`` is told which one is at work. Raises ConfigError where a page is wrong."""
    runs = Runs(paper)
    tables: dict[str, Table] = {}
    for figure in paper.figures:
        watch(f"{paper.folder.name}: {figure.name}")
        try:
            tables[figure.name] = _table(paper, figure, runs, tables.get(figure.constants_of or ""))
        except ValueError as error:
            raise ConfigError(f"{printable(str(paper.folder / PAGE))}: figures.{figure.name}: {error}") from None
    return list(tables.values())


def _table(paper: Paper, figure: Figure, runs: Runs, fitted: Table | None) -> Table:
    """``fitted``: the figure whose constants hold here, too."""
    rows: list[dict[str, Any]] = [dict(row) for row in rows_of(paper, figure)]
    constants: tuple[tuple[str, dict[str, float]], ...] = ()
    if figure.fit is not None:
        constants = tuple(_fitted(figure.fit, figure, rows, runs))
    elif fitted is not None and fitted.figure.fit is not None:
        constants = fitted.constants
        for row in rows:
            row.update(dict(constants).get(_name(fitted.figure.fit, _group(fitted.figure.fit.each, row)), {}))
    for row in rows:
        for name, expression in figure.derive.items():
            row[name] = expression.value(cells(row))
    values = [_pair(figure, row, runs) for row in rows]
    values = _relative(figure, rows, values)
    made = tuple(_row(figure, row, *pair) for row, pair in zip(rows, values, strict=True))
    if figure.kind == "order":
        made = tuple(_ordered(figure, made))
    return Table(paper.folder.name, figure, made, constants)


Pair = tuple[float, float | None, str]
"""Published, simulated (None: no run), and why there is none."""


def _pair(figure: Figure, row: dict[str, Any], runs: Runs) -> Pair:
    published = float(figure.published.value(cells(row)))
    try:
        return published, runs.value(figure, row), ""
    except PpsimError as error:
        return published, None, str(error).partition("\n")[0]


def _relative(figure: Figure, rows: Sequence[Values], values: list[Pair]) -> list[Pair]:
    """Both values over those of the group's reference row."""
    if figure.relative_to is None:
        return values
    bases: dict[tuple[str, ...], Pair] = {}
    for row, pair in zip(rows, values, strict=True):
        if figure.relative_to.holds(cells(row)):
            bases[_group(figure.among, row)] = pair
    out: list[Pair] = []
    for row, (published, simulated, note) in zip(rows, values, strict=True):
        base = bases.get(_group(figure.among, row))
        if base is None or base[1] is None:
            out.append((published, None, "its group has no reference row"))
        else:
            out.append((published / base[0], None if simulated is None else simulated / base[1], note))
    return out


def _group(columns: Iterable[str], row: Values) -> tuple[str, ...]:
    return tuple(str(row[column]) for column in columns)


def _row(figure: Figure, row: Values, published: float, simulated: float | None, note: str) -> Row:
    """One row, judged unless it only shows: was fitted on, is the reference of others, or wasn't read (``status``)."""
    status = str(row.get("status", ""))
    fitted = figure.fit is not None and figure.fit.rows.holds(cells(row))
    base = figure.relative_to if figure.kind != "order" else None
    reference = base is not None and base.holds(cells(row))
    judged = figure.kind not in ("shown", "order") and not (status or fitted or reference)
    met = None
    if judged:
        met = simulated is not None and figure.tolerance is not None and figure.tolerance.holds(published, simulated)
    why = status or note or ("fitted on" if fitted else "reference" if reference else "")
    if met is False:
        why = next((miss.why for miss in figure.misses if miss.rows.holds(cells(row))), why)
    names = figure.label or [name for name in row if any(f"{{{name}" in text for text in figure.set.values())]
    alone = len(names) == 1 and isinstance(row[names[0]], str)
    label = row[names[0]] if alone else ", ".join(f"{name} {_shown(row[name])}" for name in names)
    return Row(label, dict(row), published, simulated, judged, met, why)


def _ordered(figure: Figure, rows: Sequence[Row]) -> Iterator[Row]:
    """Each row, met where it stands to all others of its group as published; values nearly equal may change places."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, row in enumerate(rows):
        if row.simulated is not None and not row.note:
            groups.setdefault(_group(figure.among, row.columns), []).append(place)
    wrong: dict[int, str] = {}
    for places in groups.values():
        for a, b in combinations(places, 2):
            first, second = sorted((rows[a], rows[b]), key=lambda row: row.published)
            if second.published <= first.published * (1 + figure.apart):
                continue
            if (second.simulated or 0) < (first.simulated or 0):
                wrong[a] = wrong[b] = f"{first.label} before {second.label}, simulated the other way"
    judged = {place for places in groups.values() for place in places}
    for place, row in enumerate(rows):
        met = place not in wrong if place in judged else None
        known = next((miss.why for miss in figure.misses if miss.rows.holds(cells(row.columns))), "")
        note = (known or wrong[place]) if place in wrong else row.note
        yield replace(row, judged=place in judged, met=met, note=note)


def _fitted(fit: Fit, figure: Figure, rows: list[dict[str, Any]], runs: Runs) -> Iterator[tuple[str, dict[str, float]]]:
    """Fit the constants, anew for each group, and write them into the rows of that group."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(_group(fit.each, row), []).append(row)
    for group, members in groups.items():
        on = [row for row in members if fit.rows.holds(cells(row))]
        constants = _solved(fit, figure, on, runs) if on else {}
        for row in members:
            row.update(constants)
        yield _name(fit, group), constants


def _name(fit: Fit, group: tuple[str, ...]) -> str:
    """What a group of rows with constants of their own is called."""
    return ", ".join(f"{name} {value}" for name, value in zip(fit.each, group, strict=True))


def _solved(fit: Fit, figure: Figure, on: list[dict[str, Any]], runs: Runs) -> dict[str, float]:
    """The constants with the least squares of relative errors over these rows."""
    from scipy.optimize import least_squares

    names = list(fit.constants)
    starts = [constant.start for constant in fit.constants.values()]

    def at(logs: Sequence[float]) -> dict[str, float]:
        return {name: start * 2 ** float(log) for name, start, log in zip(names, starts, logs, strict=True)}

    def errors(logs: Sequence[float]) -> list[float]:
        constants = at(logs)
        out = []
        for row in on:
            filled = {**row, **constants}
            for name, expression in figure.derive.items():
                filled[name] = expression.value(cells(filled))
            published = float(figure.published.value(cells(filled)))
            out.append(runs.value(figure, filled) / published - 1)
        return out

    def slopes(logs: Sequence[float]) -> np.ndarray:
        here = np.array(errors(logs))
        steps = STEP * np.eye(len(names))
        return np.stack([(np.array(errors(logs + step)) - here) / STEP for step in steps], axis=1)

    found = least_squares(errors, np.zeros(len(names)), slopes, xtol=1e-7)
    return at(found.x)


def _shown(value: Any) -> str:
    return f"{float(value):g}" if isinstance(value, Fraction | float) else str(value)
