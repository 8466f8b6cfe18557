"""What ``ppsim reproduce`` shows: a table per paper, what was assumed, misses with their reasons, and a summary."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ppsim.display.console import table_of
from ppsim.display.sweep import spinner
from ppsim.papers.crew import reproduced
from ppsim.papers.paper import Paper, named
from ppsim.papers.report import summary, tiers
from ppsim.papers.reproduce import Row, Table

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 40
"""Rows of one figure that are shown; of a longer one those that are farthest off."""


def watched(papers: Sequence[Paper]) -> list[Table]:
    """Reproduce papers, with a line on stderr that says what is at work."""
    with spinner("reproducing") as show:
        return reproduced(papers, show)


def tables(found: Sequence[Table], console: Console) -> None:
    """Every figure's rows under its paper, then one line per figure."""
    for name, of_paper in groupby(found, key=lambda table: table.paper):
        paper = named(name)
        console.print(f"{name}: {paper.title}", style="bold", markup=False, soft_wrap=True)
        for assumption in paper.assumes:
            console.print(f"assumed: {assumption}", markup=False, soft_wrap=True)
        for table in of_paper:
            _figure(table, console)
    _summary(found, console)


def _figure(table: Table, console: Console) -> None:
    figure = table.figure
    console.print(f"\n{figure.name}: {figure.what}", markup=False, soft_wrap=True)
    for assumption in figure.assumes:
        console.print(f"assumed: {assumption}", markup=False, soft_wrap=True)
    for group, constants in table.constants:
        said = ", ".join(f"{key} = {value:.4g}" for key, value in constants.items())
        where = f" to {figure.constants_of}" if figure.constants_of else ""
        console.print(f"fitted{where}{f' for {group}' if group else ''}: {said}", markup=False, soft_wrap=True)
    rows = list(table.rows)
    if len(rows) > SHOWN:
        rows = sorted(rows, key=lambda row: -abs(row.error or 0))[:SHOWN]
        console.print(f"the {SHOWN} of {len(table.rows)} rows that are farthest off", markup=False)
    table_of([_cells(row) for row in rows], console, tight=True)
    for why in dict.fromkeys(row.note for row in table.missed if row.note):
        console.print(f"missed: {why}", markup=False, soft_wrap=True)


def _cells(row: Row) -> dict[str, Any]:
    verdict = {True: "met", False: "MISSED", None: row.note or "shown"}[row.met]
    return {
        "row": row.label,
        "published": f"{row.published:.5g}",
        "simulated": "–" if row.simulated is None else f"{row.simulated:.5g}",
        "error": "–" if row.error is None else f"{row.error:+.1%}",
        "": verdict,
    }


def _summary(found: Sequence[Table], console: Console) -> None:
    console.print()
    table_of([_line(summary(table)) for table in found], console, tight=True)
    console.print()
    table_of([_tier(of) for of in tiers(found)], console, tight=True)
    targets, missed = sum(len(table.judged) for table in found), sum(len(table.missed) for table in found)
    console.print(f"{targets - missed} of {targets} targets met", markup=False)


def _tier(of: dict[str, Any]) -> dict[str, Any]:
    return {"tier": of["tier"], "met": f"{of['met']}/{of['targets']}", "mean": _part(of["mean_error"], "")}


def _part(value: float | None, sign: str) -> str:
    return "–" if value is None else f"{value:{sign}.2%}"


def _line(of: dict[str, Any]) -> dict[str, Any]:
    return {
        "paper": of["paper"],
        "figure": of["figure"],
        "kind": of["kind"],
        "within": of["tolerance"] or "–",
        "met": f"{of['met']}/{of['targets']}",
        "mean": _part(of["mean_error"], ""),
        "worst": _part(of["worst_error"], "+"),
    }
