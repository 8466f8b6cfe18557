"""What is held over time as a few steps: every change, or where those are denser than pixels the most and the mean.

A line that goes up and down within a pixel makes stripes that mean nothing. What a reader wants to know there is how
much is held at most, and how much most of the time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ppsim.ops import Longs
from ppsim.plot.bars import Floats
from ppsim.plot.density import smooth


class Steps(NamedTuple):
    """Step i holds ``held[i]`` (bytes, a column per category) from ``edges[i]`` to ``edges[i + 1]`` (ns)."""

    edges: Floats
    held: Floats


def exact(time: Longs, held: Longs, end: int) -> Steps:
    """A step per change; the last lasts until the end."""
    return Steps(np.append(time, end).astype(float), held.astype(float))


def dense(time: Longs, held: Longs, end: int, columns: int, reach: float) -> tuple[Steps, Steps]:
    """A step per column of pixels: the moment at which most is held in all, and the mean around it.

    ``reach``: over how many columns to either side is averaged, the further away the less.
    """
    # Nothing before the first change; floats, as bytes times ns don't fit into an integer.
    time, held = np.append(0, time), np.concatenate([np.zeros((1, held.shape[1])), held])
    lasts = np.append(time[1:], end) > time
    time, held = time[lasts], held[lasts]
    edges = np.linspace(0, end, columns + 1)
    # What a column begins with holds in it, too.
    begins = np.searchsorted(time, edges[:-1], "right") - 1
    row = np.concatenate([begins, np.arange(len(time))])
    column = np.concatenate([np.arange(columns), np.clip(np.searchsorted(edges, time, "right") - 1, 0, columns - 1)])
    order = np.lexsort((held.sum(axis=1)[row], column))
    highest = held[row[order[np.searchsorted(column[order], np.arange(columns), "right") - 1]]]

    until = np.concatenate([np.zeros((1, held.shape[1])), np.cumsum(held * np.diff(time, append=end)[:, None], axis=0)])
    at_edges = np.stack([np.interp(edges, np.append(time, end), category) for category in until.T])
    width = max(round(reach), 1)
    mean = (smooth(np.diff(at_edges) / (end / columns), width) / smooth(np.ones((1, columns)), width)).T
    # Averaging spreads what is held beyond the moment when it is first held. What would lie above the most is cut off
    # the top of the stack: what is held all the time, at its bottom, stays as high as it is.
    upper = np.minimum(np.cumsum(mean, axis=1), highest.sum(axis=1)[:, None])
    mean = np.diff(upper, axis=1, prepend=0)
    return Steps(edges, highest), Steps(edges, mean)
