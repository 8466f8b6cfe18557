"""One style for every figure: sizes, text as it was written, files that are the same every time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np

from ppsim.errors import PpsimError, did_you_mean, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ft2font import FT2Font

SizeName = Literal["notebook", "slide", "paper"]
Entries = tuple[list[Any], list[str]]
"""A legend's: what is shown, and what it is called."""
STYLE = "ppsim.plot.ppsim"
INCH = 72
"""Points of an inch; text is measured in points."""
OURS = "ppsim"
"""The label of figures that ppsim made; it isn't drawn."""
SMALL = 0.833
"""Matplotlib's 'small', which ticks and legends are set in, over the font size."""


@dataclass(frozen=True)
class Size:
    """A figure's width, largest height of its axes and height of a row of them (inches); font (points); dpi."""

    width: float
    most_height: float
    row: float
    font: float
    dpi: int

    @property
    def inside(self) -> float:
        """Points of the width that text may take."""
        return self.width * INCH - 3 * self.font

    def around(self, heading: str, labels: list[str]) -> float:
        """Inches that the title, the time axis' text and the legend take of a figure's height."""
        legend_rows = -(-len(labels) // legend_columns(labels, self.inside, SMALL * self.font))
        lines = 4.5 + 1.3 * (heading.count("\n") + 1) + 1.45 * SMALL * legend_rows
        return (lines * self.font + 12) / INCH


SIZES: dict[str, Size] = {
    "notebook": Size(width=10.0, most_height=8.0, row=0.40, font=9.0, dpi=150),
    "slide": Size(width=12.8, most_height=5.0, row=0.60, font=13.0, dpi=150),
    "paper": Size(width=3.4, most_height=4.0, row=0.22, font=6.5, dpi=300),
}
"""A notebook's cell, a 16:9 slide, a column of a two-column paper."""

# Nothing of a file says when it was made, nor by which release of matplotlib.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
FORMATS = tuple(_METADATA)


def size_of(name: str) -> Size:
    """The size of that name. Raises PpsimError where there is none."""
    if name not in SIZES:
        hint = did_you_mean(str(name), SIZES) or ";"
        raise PpsimError(f"size: unknown size '{printable(str(name))}'{hint} known: {', '.join(SIZES)}")
    return SIZES[name]


@contextmanager
def styled(size: Size | None = None) -> Iterator[None]:
    """Ppsim's style and nothing of the user's own within the block; the user's is back after it."""
    from matplotlib import style

    sheets: list[str | dict[str, Any]] = [STYLE]
    if size is not None:
        sheets.append({"font.size": size.font, "figure.dpi": size.dpi})
    with style.context(sheets, after_reset=True):
        yield


def new_figure(size: Size, height: float) -> Figure:
    """An empty figure of that height (inches) that pyplot knows nothing of; its layout is constrained."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(size.width, height), dpi=size.dpi, layout="constrained")
    figure.set_label(OURS)
    FigureCanvasAgg(figure)
    return figure


def is_ours(drawn: Figure | Axes) -> bool:
    """Whether it is a figure that ppsim made, or in one, which pyplot won't show."""
    return drawn.figure is not None and drawn.figure.figure.get_label() == OURS


def save(figure: Figure | Axes, path: str | Path, format: str | None = None) -> None:  # noqa: A002 - matplotlib's word
    """Write the figure (or the one that the Axes are in) as png, svg or pdf; two saves give the same bytes.

    ``format`` is by default the path's ending. Raises PpsimError for another format or a path that can't be written.
    """
    path = Path(path)
    kind = (format or path.suffix[1:]).lower()
    if kind not in _METADATA:
        what = f"'.{printable(kind)}' files" if kind else "a file without an ending"
        raise PpsimError(f"{printable(str(path))}: a figure can't be written as {what}; use {', '.join(FORMATS)}")
    try:
        with styled():
            figure.figure.savefig(path, format=kind, metadata=_METADATA[kind])  # type: ignore[union-attr]
    except OSError as error:
        reason = error.strerror or str(error)
        raise PpsimError(f"{printable(str(path))}: the figure can't be written: {reason}") from None


def write(figure: Figure | Axes, stream: BinaryIO, format: str = "png") -> None:  # noqa: A002 - matplotlib's word
    """Write the figure (or the one that the Axes are in) into an open binary file."""
    with styled():
        figure.figure.savefig(stream, format=format, metadata=_METADATA[format])  # type: ignore[union-attr]


@cache
def _font() -> FT2Font:
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.ft2font import FT2Font

    font = FT2Font(findfont(FontProperties(family="DejaVu Sans")))
    font.set_size(100, INCH)
    return font


@cache
def _advance(character: str) -> float:
    """Width of a character over the font size."""
    return float(_font().load_char(ord(character)).linearHoriAdvance) / 65536 / 100


def text_width(text: str, font: float) -> float:
    """Width in points of one line of text at a font size."""
    return font * sum(map(_advance, text))


def plain(text: str) -> str:
    """Text as it was written, on one line; what the font can't draw is shown by its code, as in '\\u4e2d'."""
    known = _font().get_charmap()
    shown = printable(text)
    return "".join(c if ord(c) in known else c.encode("unicode_escape").decode() for c in shown)


def wrapped(text: str, width: float, font: float, most_lines: int = 3) -> str:
    """Text broken into lines of at most ``width`` points, in a word where need be; too much of it ends in '…'."""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        if line and text_width(f"{line} {word}", font) <= width:
            line = f"{line} {word}"
            continue
        if line:
            lines.append(line)
        line = ""
        for character in word:
            if line and text_width(line + character, font) > width:
                lines.append(line)
                line = ""
            line += character
    lines.append(line)
    if len(lines) > most_lines:
        last = lines[most_lines - 1]
        while last and text_width(f"{last}…", font) > width:
            last = last[:-1]
        lines[most_lines - 1 :] = [f"{last}…"]
    return "\n".join(lines)


def legend_columns(labels: list[str], width: float, font: float) -> int:
    """The most columns in which a legend of these labels stays within ``width`` points (ppsim.mplstyle's spacings)."""
    widths = [text_width(label, font) + 2.6 * font for label in labels]
    for columns in range(len(labels), 1, -1):
        split = np.array_split(widths, columns)  # as matplotlib does
        if sum(column.max() for column in split) + (1.6 * (columns - 1) + 0.4) * font <= width:
            return columns
    return 1


def add_legend(axes: Axes, entries: Entries, width: float, font: float, own: bool) -> None:
    """A legend of at most ``width`` points: at the foot of a figure of ours, beneath the axes in a user's figure."""
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.transforms import ScaledTranslation

    handles, labels = entries
    columns = legend_columns(labels, width, SMALL * font)
    looks: dict[str, Any] = {"ncols": columns, "fontsize": SMALL * font, "handler_map": {tuple: HandlerTuple(None, 0)}}
    figure = figure_of(axes)
    if own:
        legend = figure.legend(handles, labels, loc="outside lower left", **looks)
    else:
        below = axes.transAxes + ScaledTranslation(0, -3.8 * font / INCH, figure.dpi_scale_trans)
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, 0), "bbox_transform": below}
        legend = axes.legend(handles, labels, borderaxespad=0, **place, **looks)
    for text in legend.get_texts():
        text.set_parse_math(False)


def figure_of(axes: Axes) -> Figure:
    """The whole figure, also where the axes are in a part of one."""
    return axes.figure.figure


def points_of(axes: Axes) -> tuple[float, float]:
    """Width and height of the axes in points."""
    scale = INCH / figure_of(axes).dpi
    return axes.bbox.width * scale, axes.bbox.height * scale


def settle(axes: Axes) -> None:
    """Let the figure's layout, if it has one, give the axes their place: pixels are counted from then on."""
    from matplotlib.layout_engine import PlaceHolderLayoutEngine

    engine = figure_of(axes).get_layout_engine()
    if engine is not None and not isinstance(engine, PlaceHolderLayoutEngine):
        engine.execute(figure_of(axes))  # as drawing does, but without drawing


def fix(figure: Figure) -> None:
    """Leave everything in a figure of ours where it is; with a layout it would be drawn twice to be saved."""
    with styled():
        figure.set_layout_engine(None)
