"""Reproduced tables as text: CSV with a row per published value, JSON with a summary per figure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from ppsim.papers.reproduce import Row, Table

COLUMNS = (
    "paper", "figure", "kind", "row", "published", "simulated", "error", "unit", "tolerance", "judged", "met", "note",
)  # fmt: skip


def as_csv(tables: Sequence[Table]) -> str:
    """Every row of every figure; numbers to six digits."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for table in tables:
        writer.writerows(_cells(table, row) for row in table.rows)
    return out.getvalue()


def _cells(table: Table, row: Row) -> dict[str, Any]:
    figure = table.figure
    return {
        "paper": table.paper,
        "figure": figure.name,
        "kind": figure.kind,
        "row": row.label,
        "published": _six(row.published),
        "simulated": _six(row.simulated),
        "error": "" if row.error is None else f"{row.error:+.4f}",
        "unit": figure.unit,
        "tolerance": "" if figure.tolerance is None else str(figure.tolerance),
        "judged": row.judged,
        "met": "" if row.met is None else row.met,
        "note": row.note,
    }


def _six(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def summary(table: Table) -> dict[str, Any]:
    """One figure in a line: how many targets, how many are met, the mean and the worst error."""
    return {
        "paper": table.paper,
        "figure": table.figure.name,
        "what": table.figure.what,
        "kind": table.figure.kind,
        "tolerance": None if table.figure.tolerance is None else str(table.figure.tolerance),
        "targets": len(table.judged),
        "met": len(table.judged) - len(table.missed),
        "shown": len(table.rows) - len(table.judged),
        "mean_error": table.mean_error,
        "worst_error": table.worst_error,
        "constants": [{"of": group, **constants} for group, constants in table.constants],
    }


def as_json(tables: Sequence[Table]) -> str:
    """A summary and the rows of every figure."""
    found = [{**summary(table), "rows": [_plain(row) for row in table.rows]} for table in tables]
    return json.dumps({"figures": found}, indent=2)


def _plain(row: Row) -> dict[str, Any]:
    return {
        "row": row.label, "published": row.published, "simulated": row.simulated, "error": row.error,
        "judged": row.judged, "met": row.met, "note": row.note,
    }  # fmt: skip
