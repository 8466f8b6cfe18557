"""The page on the tables' columns: ``python -m tests.columns`` writes docs/columns.md from what the classes say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ppsim.engine.timeline import Timeline
from ppsim.ops import OpTable, columns_of
from ppsim.plan.table import Holdings, Plan, Routes, Transfers, Versions

PAGE = Path(__file__).parent.parent / "docs" / "columns.md"
TABLES = (OpTable, Plan, Transfers, Routes, Holdings, Versions, Timeline)
COLUMNS = {table: columns_of(table) for table in TABLES}
"""Of each table's class its columns, with what each is about."""


def page() -> Iterator[str]:
    """The lines of the page."""
    yield "# The columns of ppsim's tables"
    yield ""
    yield "Made from the classes by `python -m tests.columns`. Orders, Plan and Timeline share the rows of the op table;"
    yield "*nothing* is what stands where there is nothing to say. An event's number is explained in `ppsim/plan/table.py`."
    for table, columns in COLUMNS.items():
        yield from ("", f"## {table.__name__}", "", str(table.__doc__).splitlines()[0], "")
        yield from ("| column | meaning | unit | nothing |", "|---|---|---|---|")
        for name, (meaning, unit, nothing) in columns.items():
            yield f"| `{name}` | {meaning} | {unit} | {nothing} |"


if __name__ == "__main__":
    PAGE.write_text("\n".join(page()) + "\n", encoding="utf-8")
