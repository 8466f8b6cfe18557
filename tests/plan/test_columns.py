"""Every column of the tables says what it is about, in which unit, and the page on them is current."""

from __future__ import annotations

from dataclasses import fields

from tests.columns import COLUMNS, PAGE, page

ARRAYS = ("Ints", "Longs", "Kinds", "Column")


def test_every_column_of_a_table_says_what_it_is_about() -> None:
    silent = [
        f"{table.__name__}.{field.name}"
        for table in COLUMNS
        for field in fields(table)
        if str(field.type).removesuffix(" | None") in ARRAYS
    ]
    # Where ranks begin, which rows update, what is held throughout: of other lengths than the table's; or not there.
    not_rows = ["OpTable.offsets", "Plan.static", "Versions.updates", "Timeline.transfer_left", "Timeline.room"]
    assert silent == not_rows


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8").splitlines() == list(page()), "write it anew: python -m tests.columns"
