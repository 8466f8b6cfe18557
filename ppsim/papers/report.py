"""Reproduced tables as text: CSV with a row per published value, JSON with a summary per figure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any, get_args

from ppsim.papers.paper import Kind, named
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
    fit = table.figure.fit
    return {
        "paper": table.paper,
        "figure": table.figure.name,
        "tier": table.figure.tier or table.figure.kind,
        "what": table.figure.what,
        "kind": table.figure.kind,
        "tolerance": None if table.figure.tolerance is None else str(table.figure.tolerance),
        "targets": len(table.judged),
        "met": len(table.judged) - len(table.missed),
        "shown": len(table.rows) - len(table.judged),
        "mean_error": table.mean_error,
        "worst_error": table.worst_error,
        "assumes": table.figure.assumes,
        "constants_of": table.figure.constants_of,
        "constants": [{"of": group, **constants} for group, constants in table.constants],
        "constants_are": {} if fit is None else {name: constant.what for name, constant in fit.constants.items()},
    }


def as_json(tables: Sequence[Table]) -> str:
    """A summary and the rows of every figure, and what each tier comes to."""
    found = [{**summary(table), "rows": [_plain(row) for row in table.rows]} for table in tables]
    papers = [
        {"paper": name, "title": paper.title, "source": paper.source, "assumes": paper.assumes}
        for name in dict.fromkeys(table.paper for table in tables)
        for paper in (named(name),)
    ]
    return json.dumps({"papers": papers, "figures": found, "tiers": tiers(tables)}, indent=2)


def tiers(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """Targets, how many are met, and the mean of all errors, for each kind of figure or tier of its own."""
    found: dict[str, list[Table]] = {kind: [] for kind in get_args(Kind) if kind != "shown"}
    for table in tables:
        if table.figure.kind != "shown":
            found.setdefault(table.figure.tier or table.figure.kind, []).append(table)
    out = []
    for tier, of in found.items():
        errors = [abs(error) for table in of for error in table.errors]
        if targets := sum(len(table.judged) for table in of):
            met = targets - sum(len(table.missed) for table in of)
            mean = sum(errors) / len(errors) if errors else None
            out.append({"tier": tier, "targets": targets, "met": met, "mean_error": mean})
    return out


def _plain(row: Row) -> dict[str, Any]:
    return {
        "row": row.label, "published": row.published, "simulated": row.simulated, "error": row.error,
        "judged": row.judged, "met": row.met, "note": row.note,
    }  # fmt: skip
