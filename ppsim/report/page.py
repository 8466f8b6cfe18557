"""The page: figures, tables and settings of one result or several in one file."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from ppsim._version import __version__
from ppsim.analysis.compare import compare
from ppsim.analysis.result import Result
from ppsim.errors import PpsimError, printable
from ppsim.plot.looks import KINDS, Look
from ppsim.report import _looks as looks
from ppsim.report._content import Content

if TYPE_CHECKING:
    from ppsim.analysis.compare import Some

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; connect-src 'none'"
)
"""What a browser lets the page do: run what is in it, ask nobody for anything."""
HEIGHT = 900
"""Pixels of a page in a notebook."""


def html(*results: Some) -> str:
    """The page of some results as text, complete in itself; all names escaped.

    Raises PpsimError where there is no result, or bokeh isn't installed.
    """
    contents = [Content(result, label) for result, label in zip(results, _labels(results), strict=True)]
    try:
        import bokeh  # noqa: F401 - asked for once, before anything is made
    except ImportError:
        raise PpsimError("a report needs bokeh: pip install 'ppsim[report]'") from None
    from bokeh.embed import file_html
    from bokeh.resources import INLINE

    roots, names = _roots(contents)
    heading = ", ".join(content.label for content in contents)
    variables = {
        "contents": contents, "names": names, "heading": heading, "legend": _legend(contents), "policy": POLICY,
        "css": _file("page.css"),
    }  # fmt: skip
    title = f"{heading} – ppsim {__version__}"
    page = file_html(roots, INLINE, escape(title), template=_file("page.html"), template_variables=variables)
    return _same_every_time(page)


class View:
    """A page in a notebook, as the value of a cell."""

    def __init__(self, page: str) -> None:
        self.page = page

    def _repr_html_(self) -> str:
        frame = f"width:100%;height:{HEIGHT}px;border:0"
        return f'<iframe style="{frame}" sandbox="allow-scripts" srcdoc="{escape(self.page)}"></iframe>'


def view(*results: Some) -> View:
    """Show in a notebook what ``ppsim report`` writes of these results. Raises PpsimError as ``html`` does."""
    return View(html(*results))


def _labels(results: Sequence[Some]) -> list[str]:
    """What the page calls each result."""
    compare(results)  # which refuses what is no result
    names = [
        f"{result.experiment.name}: {result.schedule.label}"
        if isinstance(result, Result)
        else f"{result.name}, measured"
        for result in results
    ]
    return [printable(f"{name} ({number})" if names.count(name) > 1 else name) for number, name in enumerate(names, 1)]


def _roots(contents: Sequence[Content]) -> tuple[list[Any], dict[str, Any]]:
    """All of Bokeh's models that stand on the page, and their names by where."""
    from ppsim.report import _figures, _tables

    time = _figures.axis(contents)
    made = [_figures.figures(content, time) for content in contents]
    named: dict[str, Any] = {}
    for part in ("gantt", "memory", "links"):
        for number, found in enumerate(made):
            named[f"{part}{number}"] = getattr(found, part)
            if part == "gantt":
                named[f"chain{number}"] = found.chain
    figures = [name for name, model in named.items() if model is not None]
    tables = [f"ops{number}" for number in range(len(made))]
    named |= {name: _tables.ops(found.ops, time) for name, found in zip(tables, made, strict=True)}
    named |= {"summary": _tables.summary(contents), "ranks": _tables.ranks(contents), "ports": _tables.ports(contents)}
    for name, model in named.items():
        if model is not None:
            model.name = name
    names = {"figures": figures, "ops": tables, "ports": named["ports"] is not None}
    return [model for model in named.values() if model is not None], names


def _legend(contents: Sequence[Content]) -> Iterator[dict[str, Any]]:
    """The looks that there are on the page."""
    kinds = {int(kind) for content in contents for kind in np.unique(content.run.plan.ops.kind)}
    found: list[tuple[Look, bool]] = [
        (look, False) for kind, look in {**KINDS, **looks.OTHERS}.items() if kind in kinds
    ]
    causes = {cause for content in contents for cause in content.causes}
    found += [(look, True) for cause, look in looks.IDLE.items() if cause in causes]
    if any(content.uses_links for content in contents):
        found += [(looks.BUSY, False), (looks.FLIES, False)]
    for look, faint in dict.fromkeys(found):
        yield {"colour": look.colour, "words": f"idle: {look.words}" if faint else look.words, "faint": faint}


def _file(name: str) -> str:
    return files("ppsim.report").joinpath(name).read_text(encoding="utf-8")


def _same_every_time(page: str) -> str:
    """The page with its random numbers replaced by counted ones."""
    number = count(1)
    known: defaultdict[str, str] = defaultdict(lambda: f"00000000-0000-4000-8000-{next(number):012d}")

    def counted(match: re.Match[str]) -> str:
        return known[match[0]]

    return re.sub(r"\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b", counted, page)
