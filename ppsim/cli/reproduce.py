"""``ppsim reproduce``: published experiments, simulated beside what was published."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MISSED = 1
FOLDER = Path("results") / "reference"


def reproduce(
    papers: Annotated[
        list[str] | None, typer.Argument(metavar="[PAPER]…", help="Which (default: all; see `ppsim list papers`).")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for papers.csv and the plots.")] = FOLDER,
    plots: Annotated[bool, typer.Option("--plots", help="Draw every figure, published beside simulated.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print only the tables, as JSON.")] = False,
) -> None:
    """Simulate published tables and figures; exit code 1 where a target misses its tolerance."""
    from ppsim.cli.files import written
    from ppsim.display import papers as display
    from ppsim.display.console import console
    from ppsim.papers.paper import known, named
    from ppsim.papers.report import as_csv, as_json

    chosen = [named(name) for name in papers or known()]
    tables = display.watched(chosen)
    out.mkdir(parents=True, exist_ok=True)
    if not papers:  # the file is of all papers, or it would change with what was asked for last
        written(out / "papers.csv", lambda path: path.write_text(as_csv(tables), encoding="utf-8", newline="\n"))
    if plots:
        from ppsim.plot.papers import draw

        (out / "papers").mkdir(exist_ok=True)
        for table in tables:
            draw(table, out / "papers" / f"{table.paper}-{table.figure.name}.png")
    if json:
        typer.echo(as_json(tables))
    else:
        display.tables(tables, console())
    if any(table.missed for table in tables):
        raise SystemExit(MISSED)
