"""The README's tables of published experiments are those of the run that is kept."""

from __future__ import annotations

from ppsim.papers.paper import known, named, rows_of
from tests import readme
from tests.reference_papers import BEGIN, END, kept, tables


def test_they_are_what_the_command_left() -> None:
    """Made by ``python -m tests.reference_papers``."""
    shown = readme.README.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert shown == tables(kept())


def test_what_is_kept_is_every_row_of_every_page() -> None:
    """Kept by ``ppsim reproduce``, which is to be run again where a page has changed."""
    rows: dict[tuple[str, str], int] = {}
    for row in kept():
        rows[row["paper"], row["figure"]] = rows.get((row["paper"], row["figure"]), 0) + 1
    papers = {name: named(name) for name in known()}
    assert rows == {
        (name, figure.name): len(rows_of(paper, figure)) for name, paper in papers.items() for figure in paper.figures
    }


def test_every_miss_has_its_reason() -> None:
    assert [row for row in kept() if row["met"] == "False" and not row["note"]] == []
