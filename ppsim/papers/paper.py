"""A paper's page: which of its tables and figures are reproduced, from which experiment, and how they are judged."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from ppsim import _textfile as textfile
from ppsim._model import Model
from ppsim.config import yamlfile
from ppsim.config.condition import Condition
from ppsim.errors import ConfigError, did_you_mean, printable

Kind = Literal["exact", "measured", "fitted", "order", "shown"]
"""How a figure is judged: follows from stated rules; measured, all inputs known; measured, with constants fitted on
named rows and judged on the others; its order alone; or not at all, only shown."""
PAGE = "paper.yaml"
LARGEST = 16 << 20
"""The most bytes that a figure's rows may have."""


def _condition(value: object) -> object:
    return value if isinstance(value, Condition) else Condition(str(value))


Expression = Annotated[Condition, BeforeValidator(_condition)]
"""Arithmetic over columns of the row and figures of the run, as in ``microbatches / (step_time_s * ranks)``."""


def _tolerance(value: object) -> object:
    """'2 %' is relative; a number, as 0.0001, is absolute."""
    if isinstance(value, str) and value.endswith("%"):
        return {"relative": float(value[:-1]) / 100}
    return {"absolute": value} if isinstance(value, int | float) else value


class Tolerance(Model):
    """How far a simulated value may be from the published one."""

    relative: float | None = None
    """As a part of the published value."""
    absolute: float | None = None
    """In the published value's unit."""

    def holds(self, published: float, simulated: float) -> bool:
        """Whether the two are near enough."""
        allowed = self.absolute if self.absolute is not None else (self.relative or 0) * abs(published)
        return abs(simulated - published) <= allowed * (1 + 1e-9)

    def __str__(self) -> str:
        return f"{100 * self.relative:g} %" if self.relative is not None else f"{self.absolute:g}"


class Constant(Model):
    """A constant that the paper doesn't give, fitted on named rows; those rows aren't judged."""

    start: float = Field(gt=0)
    """Where the fit starts."""
    what: str
    """What it stands for, with its unit."""


class Fit(Model):
    """Constants that are fitted to some rows by least squares of their relative errors."""

    constants: dict[str, Constant] = Field(min_length=1)
    """By the name that settings and expressions call them."""
    rows: Expression
    """On which rows."""
    each: list[str] = Field([])
    """Columns; the constants are fitted anew for each of their values."""


class Miss(Model):
    """Rows that are known to miss, and the reason that was found."""

    rows: Expression
    """Which rows."""
    why: str
    """The effect that is outside the model, and how large it would have to be."""


class Lines(Model):
    """How a figure of lines is drawn."""

    x: str
    """The column along."""
    by: list[str] = Field(min_length=1)
    """Columns; a line for each of their values."""
    doubling: bool = False
    """Along in steps of twice as much."""


class Figure(Model):
    """One published table or figure: its rows, the experiment, and what is compared."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_]*$")
    """Its rows are in NAME.csv."""
    what: str
    """What it shows, with its number in the paper."""
    kind: Kind
    """How it is judged."""
    tolerance: Annotated[Tolerance, BeforeValidator(_tolerance)] | None = None
    """How near is near enough."""
    tier: str | None = None
    """With which figures it is counted in the summary (default: those of its kind)."""
    config: str | None = None
    """The experiment, a config beside the page."""
    trace: str | None = None
    """Or a measured run beside the page, of which its constants, its replay and its slowdown are taken."""
    rows: str | None = None
    """The CSV that holds the rows, where several figures share one (default: NAME.csv)."""
    where: Expression | None = None
    """Which of the CSV's rows belong to it."""
    set: dict[str, str] = Field({})
    """Settings of each row's experiment: text in which {column} stands for the row's value."""
    less: dict[str, str] = Field({})
    """Settings of a second run, over ``set``, whose value is taken off the first one's: for slopes."""
    over: dict[str, str] = Field({})
    """Settings of a second run, over ``set``, by whose value the first one's is divided: for speedups."""
    derive: dict[str, Expression] = Field({})
    """Columns that follow from others."""
    published: Expression
    """The published value."""
    simulated: Expression
    """The same of the simulated run."""
    unit: str = ""
    """Unit of both."""
    relative_to: Expression | None = None
    """Both values are divided by those of the row for which this holds, among rows that agree in ``among``."""
    among: list[str] = Field([])
    """Columns by which rows are grouped, for ``relative_to`` and for orders."""
    apart: float = 0.0
    """Of an order: published values that differ by a smaller part are taken for equal."""
    fit: Fit | None = None
    """Constants that are fitted."""
    constants_of: str | None = None
    """An earlier figure of the paper, whose fitted constants hold here, too."""
    misses: list[Miss] = Field([])
    """Known misses, with their reasons."""
    label: list[str] = Field([])
    """Columns that name a row (default: all that settings use)."""
    plot: Lines | None = None
    """Drawn as lines, as the paper draws it (default: bars side by side, or points of many rows)."""
    assumes: list[str] = Field([])
    """What the paper doesn't say and was assumed."""

    @model_validator(mode="after")
    def _judged(self) -> Figure:
        if (self.config is None) == (self.trace is None):
            raise ValueError("a figure has a 'config' or a 'trace'")
        if self.trace is not None and (self.set or self.less or self.over):
            raise ValueError("'set', 'less' and 'over' change an experiment; a trace is as it was measured")
        if self.kind in ("exact", "measured", "fitted") and self.tolerance is None:
            raise ValueError(f"a figure of kind '{self.kind}' needs a tolerance")
        if (self.kind == "fitted") != (self.fit is not None) and self.constants_of is None:
            raise ValueError("'fit' belongs to the kind 'fitted', and to no other")
        if self.fit is not None and self.constants_of is not None:
            raise ValueError("constants are fitted here ('fit') or elsewhere ('constants_of')")
        return self


class Paper(Model):
    """A paper and what of it is reproduced."""

    title: str
    """Its title, authors and year."""
    source: str
    """Where the figures were read."""
    figures: list[Figure] = Field(min_length=1)
    """Its tables and figures."""
    assumes: list[str] = Field([])
    """What holds for all of them and isn't in the paper."""
    folder: Path
    """Where its page lies."""

    @model_validator(mode="after")
    def _fitted_before(self) -> Paper:
        fitted: set[str] = set()
        for figure in self.figures:
            if figure.constants_of is not None and figure.constants_of not in fitted:
                raise ValueError(f"{figure.name}: 'constants_of' names no figure before it that has a 'fit'")
            fitted |= {figure.name} if figure.fit is not None else set()
        return self


def read(folder: Path) -> Paper:
    """The page in a folder. Raises ConfigError, a line per mistake."""
    from pydantic import ValidationError

    from ppsim.config.mistakes import from_pydantic

    document = yamlfile.read(folder / PAGE)
    try:
        return Paper(**document.data, folder=folder)
    except ValidationError as error:
        lines = [f"{document.where(mistake.place)}: {mistake}" for mistake in from_pydantic(error, Paper)]
        raise ConfigError("\n".join(lines)) from None


@cache
def known() -> dict[str, Path]:
    """The folder of every paper, by its name."""
    with as_file(files("ppsim.papers")) as room:
        return {page.parent.name: page.parent for page in sorted(room.glob(f"*/{PAGE}"))}


def named(name: str) -> Paper:
    """The paper of that name. Raises ConfigError with the nearest one."""
    if name not in known():
        hint = did_you_mean(name, known()) or ";"
        raise ConfigError(f"unknown paper '{printable(name)}'{hint} known: {', '.join(known())}")
    return read(known()[name])


def rows_of(paper: Paper, figure: Figure) -> list[dict[str, str | int | Fraction]]:
    """The published rows: numbers as numbers, all else as text. Lines that start with # say where they are from.

    Raises ConfigError where the file can't be read, or has no column that ``where`` names.
    """
    path = paper.folder / (figure.rows or f"{figure.name}.csv")
    lines = [line for line in textfile.read(path, "a figure's rows", LARGEST).splitlines() if not line.startswith("#")]
    found = [{key: _value(cell or "") for key, cell in row.items()} for row in csv.DictReader(lines)]
    try:
        return [row for row in found if figure.where is None or figure.where.holds(cells(row))]
    except ValueError as error:
        raise ConfigError(f"{printable(str(paper.folder / PAGE))}: figures.{figure.name}.where: {error}") from None


def cells(row: Mapping[str, Any]) -> Callable[[str], Any]:
    """The cells of a row by the names of their columns. Raises ValueError for any other name."""

    def cell(name: str) -> Any:
        if name not in row:
            hint = did_you_mean(name, row) or ";"
            raise ValueError(f"'{printable(name)}' is no column of its rows{hint} columns: {', '.join(row)}")
        return row[name]

    return cell


def _value(cell: str) -> str | int | Fraction:
    for number in (int, Fraction):
        try:
            return number(cell)
        except ValueError:
            continue
    return cell
