"""One screen of text about a run, and why an op started when it did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ppsim._words import seconds
from ppsim.analysis.alternatives import what_if
from ppsim.analysis.limit import lines
from ppsim.display.console import put, table_of
from ppsim.display.headline import COLUMNS, headline, rank_rows
from ppsim.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ppsim.analysis.explain import Link
    from ppsim.analysis.result import Result


NARROWER: tuple[tuple[int, tuple[str, ...]], ...] = (
    (2, ()), (1, ()), (1, ("stages",)), (1, ("stages", "in flight")), (1, ("stages", "in flight", "busy", "idle")),
)  # fmt: skip
"""How the table per rank gets narrower: the causes that are told of the idle time, the columns that are left out."""


def screen(result: Result, console: Console, files: list[str] | None = None, folder: str = "") -> None:
    """Print one screen: what was simulated, the headline, the table per rank, what limits it, warnings, files."""
    from rich.table import Table
    from rich.text import Text

    s = result.summary
    stages = f", v = {s['virtual_stages']}" if s["virtual_stages"] > 1 else ""
    copies = result.experiment.pipeline.data_parallel
    stages += f", data_parallel = {copies}" if copies > 1 else ""
    title = (
        f"{printable(s['name'])}: {s['schedule']}, p = {s['ranks']}, m = {s['microbatches']}{stages}; "
        f"{len(result.plan.ops):,} ops, engine {s['engine']}"
    )
    put(Text(title, style="bold"), console)
    figures = Table.grid(padding=(0, 2))
    for name, value in headline(result):
        figures.add_row(Text(name, style="cyan"), Text(value))
    put(figures, console)
    put(_rank_table(result, console), console)
    for cause in lines(result):
        put("limit: " + cause, console)
    for warning in s["warnings"]:
        put(Text(f"warning: {printable(warning['key'])}: {printable(warning['message'])}", style="yellow"), console)
    if files:
        console.print(Text(f"files: {printable(folder)}/{{{', '.join(files)}}}"), soft_wrap=True)
    if line := what_if(result):
        put(line, console)


def _rank_table(result: Result, console: Console) -> Table:
    """The table per rank, as much of it as fits into a line of the console."""
    from rich.table import Table
    from rich.text import Text

    anything = console.options.update(width=1000)
    for causes, without in NARROWER:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="cyan", pad_edge=console.width >= 100)
        kept = [place for place, column in enumerate(COLUMNS) if column not in without]
        for column in (COLUMNS[place] for place in kept):
            words = column in ("mostly", "stages")
            head = column if causes > 1 else column.replace(" ", "\n")
            table.add_column(head, justify="left" if words else "right", no_wrap=True)
        for row in rank_rows(result, causes):
            table.add_row(*(Text(row[place]) for place in kept))
        if console.measure(table, options=anything).maximum <= console.width:
            break
    return table


def chain(result: Result, row: int, links: Sequence[Link], console: Console) -> None:
    """Print why an op started when it did, latest first."""
    plan, timeline = result.plan, result.timeline
    put(f"{plan.ops[row]} on rank {plan.ops.rank[row]} started at {seconds(timeline.start[row] / 1e9)}", console)
    rows = [
        {
            "": "because of" if number == 0 else "after",
            "what": link.what,
            "from": seconds(link.start_s),
            "to": seconds(link.end_s),
            "slack": seconds(link.slack_s),
        }
        for number, link in enumerate(links)
    ]
    if rows:
        table_of(rows, console)
        put("slack: were this link's end earlier by that much, the op would start earlier by as much", console)
    else:
        put("nothing held it: it is the first op of its rank and has no input", console)
