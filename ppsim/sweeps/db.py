"""A sweep's file: an SQLite database with a row per case, written by one process.

No write-ahead log, which fails on network file systems. What is committed survives a kill at any moment.

Its tables: ``about``, the sweep's base settings and the version of this layout; ``columns``, the type and unit of every
parameter and figure; ``cases``, a row per case: ``id``, ``number`` (in the sweep; null: not in it any more, but it may
come back), ``status`` (pending, ok, failed, skipped), ``error``, ``seconds``, ``changes`` (what it sets, as JSON), then
the parameters and the figures.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from ppsim.errors import PpsimError, printable
from ppsim.sweeps.cases import Case
from ppsim.sweeps.columns import Cells, Column

LAYOUT = "1"
ABOUT = ("name", "base", "sweep")
OWN = ("id", "number", "status", "error", "seconds", "changes")
_TABLES = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS columns (
    place INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, role TEXT NOT NULL, kind TEXT NOT NULL, unit TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS cases (
    id TEXT PRIMARY KEY, number INTEGER, status TEXT NOT NULL, error TEXT, seconds REAL, changes TEXT NOT NULL
);
"""


@dataclass(frozen=True)
class Row:
    """What became of a case: its figures, or its error."""

    id: str
    seconds: float
    figures: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True)
class Listed:
    """How a listing went: cases, and those that equal an earlier one."""

    cases: int
    equal: int


class SweepFile:
    """An open sweep file; use it in a ``with``."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        if not create and not path.is_file():
            raise PpsimError(f"{printable(str(path))}: no such file; `ppsim sweep` makes one")
        try:
            self._db = sqlite3.connect(path, isolation_level=None)
        except sqlite3.Error as error:
            raise self._trouble(error) from None
        try:
            self._prepare(create)
            self._known = {column.name: column for column in self.columns()}
        except BaseException:
            self._db.close()
            raise

    def _prepare(self, create: bool) -> None:
        """Make the tables, or see that they are of this layout."""
        try:
            self._db.execute("PRAGMA temp_store = MEMORY")
            if create:
                with self._writing():
                    for statement in filter(str.strip, _TABLES.split(";")):
                        self._db.execute(statement)
                    self._db.execute("INSERT OR IGNORE INTO about VALUES ('layout', ?)", (LAYOUT,))
            layout = self.about("layout")
        except sqlite3.Error as error:
            raise self._trouble(error) from None
        if layout != LAYOUT:
            file = printable(str(self.path))
            raise PpsimError(f"{file}: written by another version of ppsim; start anew with --fresh")

    def __enter__(self) -> SweepFile:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._db.close()

    def _trouble(self, error: sqlite3.Error) -> PpsimError:
        return PpsimError(f"{printable(str(self.path))}: can't be used as a sweep's file: {error}")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it or nothing."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._trouble(error) from None

    def _read(self, query: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        try:
            return self._db.execute(query, values)
        except sqlite3.Error as error:
            raise self._trouble(error) from None

    def about(self, key: str) -> str | None:
        """What the file says about its sweep: ``name``, ``base`` (the settings of all cases), ``sweep``, ``layout``."""
        row = self._read("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def is_new(self) -> bool:
        """Whether no case was ever listed in it."""
        return self._read("SELECT 1 FROM cases LIMIT 1").fetchone() is None

    def columns(self) -> list[Column]:
        """Parameters and figures, in the order in which they came."""
        rows = self._read("SELECT name, role, kind, unit FROM columns ORDER BY place")
        return [Column(*row) for row in rows]

    def _add(self, db: sqlite3.Connection, column: Column) -> None:
        known = self._known.get(column.name)
        if known is None:
            db.execute(f"ALTER TABLE cases ADD COLUMN {_quoted(column.name)}")
        if known is None or (known != column and column.role == "parameter"):
            db.execute(
                "INSERT INTO columns (name, role, kind, unit) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE "
                "SET role = excluded.role, kind = excluded.kind, unit = excluded.unit",
                column,
            )
            self._known[column.name] = column

    def list_cases(self, about: Mapping[str, str], parameters: Sequence[Column], cases: Iterable[Case]) -> Listed:
        """Make the sweep's cases the rows of the file; those that are finished stay so."""
        total = 0
        names = [column.name for column in parameters]
        update = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in ("number", "changes", *names))
        insert = (
            f"INSERT INTO cases ({', '.join(map(_quoted, ('id', 'number', 'status', 'error', 'changes', *names)))}) "
            f"VALUES ({', '.join('?' * (5 + len(names)))}) ON CONFLICT (id) DO UPDATE SET {update} "
            "WHERE cases.number IS NULL"
        )

        def rows() -> Iterator[tuple[Any, ...]]:
            nonlocal total
            cells = Cells(parameters)
            for total, case in enumerate(cases, start=1):  # noqa: B007 - how many there were
                status = "pending" if case.reason is None else "skipped"
                yield case.id, case.number, status, case.reason, case.text, *cells.of(case.settings).values()

        with self._writing() as db:
            for column in parameters:
                self._add(db, column)
            db.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", about.items())
            db.execute("UPDATE cases SET number = NULL")
            new = db.executemany(insert, rows()).rowcount
        return Listed(total, total - max(new, 0))

    def retry_failed(self) -> int:
        """Make failed cases pending again; how many."""
        with self._writing() as db:
            return db.execute(
                "UPDATE cases SET status = 'pending', error = NULL, seconds = NULL WHERE status = 'failed'"
            ).rowcount

    def pending(self, limit: int | None = None) -> list[tuple[str, str]]:
        """(id, changes as JSON) of the cases that are still to run, in order."""
        query = "SELECT id, changes FROM cases WHERE status = 'pending' AND number IS NOT NULL ORDER BY number LIMIT ?"
        return self._read(query, (-1 if limit is None else limit,)).fetchall()

    def save(self, rows: Sequence[Row]) -> None:
        """Write finished cases."""
        alike: dict[tuple[str, ...], list[tuple[Any, ...]]] = {}
        with self._writing() as db:
            for row in rows:
                for name, value in row.figures.items():
                    if value is not None and name not in self._known:
                        self._add(db, Column(name, "figure", type(value).__name__))
                figures = {
                    name: value
                    for name, value in row.figures.items()
                    if value is not None and self._known[name].role == "figure"
                }
                status = "failed" if row.error else "ok"
                alike.setdefault(tuple(figures), []).append((status, row.error, row.seconds, *figures.values(), row.id))
            for names, values in alike.items():
                assigned = "".join(f", {_quoted(name)} = ?" for name in names)
                db.executemany(f"UPDATE cases SET status = ?, error = ?, seconds = ?{assigned} WHERE id = ?", values)

    def counts(self) -> dict[str, int]:
        """How many cases of the sweep have each status."""
        query = "SELECT status, count(*) FROM cases WHERE number IS NOT NULL GROUP BY status ORDER BY status"
        return dict(self._read(query).fetchall())

    def reasons(self, status: str) -> list[tuple[str, str]]:
        """(reason, what the case sets) of all skipped or failed cases, in the order of the sweep."""
        query = "SELECT error, changes FROM cases WHERE status = ? AND number IS NOT NULL ORDER BY number"
        return self._read(query, (status,)).fetchall()

    def rows(self, columns: Sequence[str], where: str = "1", order: str = "id", limit: int = -1) -> sqlite3.Cursor:
        """The sweep's rows, of those columns."""
        names = ", ".join(map(_quoted, columns))
        query = f"SELECT {names} FROM cases WHERE number IS NOT NULL AND ({where}) ORDER BY {order} LIMIT {limit}"
        return self._read(query)

    def span(self, column: str) -> tuple[Any, Any]:
        """The least and the largest value of a column, (None, None) where there are none."""
        if column not in self._known:
            return None, None
        name = _quoted(column)
        query = f"SELECT min({name}), max({name}) FROM cases WHERE number IS NOT NULL"
        low, high = self._read(query).fetchone()
        return low, high

    def merge(self, other: SweepFile) -> None:
        """Take in another file's cases; of the same case, the one that comes first in the sweep stays."""
        columns = other.columns()
        names = [*OWN, *(column.name for column in columns)]
        with self._writing() as db:
            for column in columns:
                self._add(db, column)
            for key in ABOUT:
                db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (key, other.about(key)))
            update = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in names[1:])
            db.executemany(
                f"INSERT INTO cases ({', '.join(map(_quoted, names))}) VALUES ({', '.join('?' * len(names))}) "
                f"ON CONFLICT (id) DO UPDATE SET {update} WHERE excluded.number < cases.number",
                other.rows(names),
            )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
