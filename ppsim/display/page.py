"""What a notebook shows of results, comparisons and figures: HTML and PNG; all text escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ppsim.analysis.limit import lines
from ppsim.display.comparison import compared, notes
from ppsim.display.headline import COLUMNS, headline, rank_rows
from ppsim.errors import printable

if TYPE_CHECKING:
    from ppsim.analysis.compare import Comparison
    from ppsim.analysis.result import Result


def of_result(result: Result) -> str:
    """A result as HTML for a notebook: headline, table per rank, what limits it, Gantt chart; all text escaped."""
    from ppsim import plot

    name = f"{printable(result.experiment.name)}: {result.schedule.label}"
    notes = [*(f"limit: {line}" for line in lines(result)), *(f"warning: {n.key}: {n.message}" for n in result.notices)]
    return (
        f"<b>{html.escape(name)}</b>{_table(headline(result))}{_table(rank_rows(result), COLUMNS)}"
        f"{''.join(f'<p>{html.escape(printable(note))}</p>' for note in notes)}{_picture(plot.gantt(result))}"
    )


def of_comparison(found: Comparison) -> str:
    """Results side by side as HTML for a notebook: one table, Gantt charts under one time axis; all text escaped."""
    from ppsim import plot

    rows = [compared(row) for row in found.rows]
    columns = [*rows[0], "limit"]
    cells = ([*row.values(), of["limit"]] for row, of in zip(rows, found.rows, strict=True))
    below = "".join(f"<p>{html.escape(note)}</p>" for note in notes(found))
    return f"{_table(cells, columns)}{below}{_picture(plot.charts(found))}"


def of_figure(drawn: Any) -> bytes | None:
    """A Figure of ours, or the one around Axes of ours, as PNG for a notebook; None for others, which pyplot shows."""
    from ppsim import plot

    return _png(drawn) if plot.is_ours(drawn) else None


def _table(rows: Iterable[Sequence[str]], columns: Sequence[str] = ()) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        inside = (f"<{tag} style='text-align:left'>{html.escape(printable(cell))}</{tag}>" for cell in cells)
        return f"<tr>{''.join(inside)}</tr>"

    head = line(columns, "th") if columns else ""
    return f"<table>{head}{''.join(line(row, 'td') for row in rows)}</table>"


def _picture(drawn: Any) -> str:
    import base64

    return f"<img style='max-width:100%' src='data:image/png;base64,{base64.b64encode(_png(drawn)).decode()}'>"


def _png(drawn: Any) -> bytes:
    import io

    from ppsim import plot

    picture = io.BytesIO()
    plot.write(drawn, picture)
    return picture.getvalue()
