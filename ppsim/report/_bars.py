"""Bars of a page: one per op or transfer; in runs of many, those narrower than a pixel as averages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppsim.ops import NONE, Longs

MOST = 50_000
"""A page shows up to so many bars of a kind one by one."""
PIXELS = 1600
"""The width of a large screen; of many lines less, so that merged bars stay about ``MOST``."""
LEAST = 100
"""Merged bars on a line are at least so many, where they don't last."""
Colours = NDArray[np.uint8]
"""Red, green, blue and opacity, shape (bars, 4)."""


@dataclass(frozen=True, eq=False)
class Bars:
    """Columns: the line, start and end in ns, the colour, the row (-1: merged), of how many it is made."""

    line: Longs
    start: Longs
    end: Longs
    colour: Colours
    row: Longs
    count: Longs

    def __len__(self) -> int:
        return len(self.line)

    @property
    def rgba(self) -> NDArray[np.uint32]:
        """The colour as a number, 0xRRGGBBAA."""
        return np.ascontiguousarray(self.colour).view(">u4").ravel().astype(np.uint32)

    @classmethod
    def single(cls, line: Longs, start: Longs, end: Longs, colour: Colours) -> Bars:
        """A bar for every row."""
        number = np.arange(len(line))
        return cls(line.astype(np.int64), start, end, colour, number, np.ones(len(line), np.int64))


def pixel(makespan: int, lines: int) -> int:
    """The ns below which bars are merged, where there are so many lines."""
    return -(-makespan // min(PIXELS, max(MOST // max(lines, 1), LEAST)))


def merged(bars: Bars, width: int) -> Bars:
    """Bars that are at least ``width`` ns as they are; behind them the others, those that start in one width as one.

    A merged bar has their mean colour, by time, and is as opaque as the part of its time that they take.
    """
    lasts = bars.end - bars.start
    wide, thin = np.flatnonzero(lasts >= width), np.flatnonzero((lasts < width) & (lasts > 0))
    key = bars.line[thin] * (int(bars.start.max(initial=0)) // width + 1) + bars.start[thin] // width
    groups, group = np.unique(key, return_inverse=True)
    count = len(groups)
    start, end = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(start, group, bars.start[thin])
    np.maximum.at(end, group, bars.end[thin])
    busy = np.bincount(group, lasts[thin], count)
    colour = np.empty((count, 4))
    for channel in range(3):
        colour[:, channel] = np.bincount(group, lasts[thin] * bars.colour[thin, channel], count) / busy
    colour[:, 3] = 255 * np.minimum(busy / np.maximum(end - start, 1), 1)
    line = np.zeros(count, np.int64)
    line[group] = bars.line[thin]
    return Bars(
        np.concatenate([bars.line[wide], line]),
        np.concatenate([bars.start[wide], start]),
        np.concatenate([bars.end[wide], end]),
        np.concatenate([bars.colour[wide], colour.round().astype(np.uint8)]),
        np.concatenate([bars.row[wide], np.full(count, NONE)]),
        np.concatenate([bars.count[wide], np.bincount(group, minlength=count)]),
    )
