"""Where text goes: a console that prints it as it is, and tables that fit its width."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ppsim.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


def console(width: int = 120) -> Console:
    """A console that prints text as it is; where it isn't a terminal, so many columns wide."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else width)


def stderr_console() -> Console:
    """The same on standard error, as wide as that is."""
    from rich.console import Console

    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def table_of(rows: list[dict[str, Any]], console: Console, title: str = "", tight: bool = False) -> None:
    """Print plain rows as a table; ``tight``: a line each, in as many tables below each other as the width asks for."""
    from rich.table import Table
    from rich.text import Text

    if not rows:
        put("nothing", console)
        return
    cells = [{key: printable(str(value)) for key, value in row.items()} for row in rows]
    for columns in _side_by_side(cells, console.width) if tight else [list(rows[0])]:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="cyan", title=title or None, title_justify="left")
        table.pad_edge = not tight
        for key in columns:
            table.add_column(key, overflow="fold", no_wrap=tight or key == columns[0])
        for row in cells:
            table.add_row(*(Text(row[key]) for key in columns))
        put(table, console)


def put(shown: Table | Text | str, console: Console) -> None:
    """Print text or a table without blanks at the ends of its lines."""
    from rich.text import Text

    for line in console.render_lines(shown, pad=False):
        text = Text.assemble(*((segment.text, segment.style or "") for segment in line))
        text.rstrip()
        console.print(text, no_wrap=True, overflow="ignore", crop=False)


def _side_by_side(rows: Sequence[dict[str, str]], width: int) -> list[list[str]]:
    """As few tables as the width allows, of about equal width: the columns of each, which the first column begins."""
    widths = {key: 2 + max(len(key), *(len(row[key]) for row in rows)) for key in rows[0]}
    name, *rest = widths

    def within(limit: int) -> list[list[str]]:
        tables = [[name]]
        for key in rest:
            if len(tables[-1]) > 1 and sum(widths[k] for k in (*tables[-1], key)) - 2 > limit:
                tables.append([name])
            tables[-1].append(key)
        return tables

    least = len(within(width))
    return within(next(limit for limit in range(width + 1) if len(within(limit)) <= least))
