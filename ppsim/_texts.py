"""Columns as text, without Python going through the rows: each different value is written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Texts = NDArray[np.object_]
FEW = 4
"""Whole numbers that span so many times fewer values than there are of them are looked up, not sorted."""


def each(values: NDArray[Any], write: Callable[[NDArray[Any]], list[str]]) -> Texts:
    """The text of every number; ``write`` makes that of different ones."""
    low = int(values.min(initial=0)) if values.dtype.kind == "i" else 0
    if values.dtype.kind == "i" and FEW * (int(values.max(initial=0)) - low) < len(values):
        different, place = np.arange(low, int(values.max(initial=0)) + 1), values - low
    else:
        different, place = np.unique(values, return_inverse=True)
    texts: Texts = np.array(write(different), object)[place]
    return texts


def words(values: NDArray[Any], before: str = "", after: str = "") -> Texts:
    """Numbers as text, in the shortest form that reads back as the number."""
    return each(values, lambda different: [f"{before}{number!r}{after}" for number in different.tolist()])


class Known:
    """Numbers with their text, made once: most times of a run are in several columns, of several tables."""

    def __init__(self, numbers: NDArray[np.float64]) -> None:
        """Of ``numbers``, which increase."""
        self._numbers = np.append(numbers, np.inf)
        self._texts = np.array([*map(repr, numbers.tolist()), ""], object)

    def texts(self, column: NDArray[np.float64]) -> Texts:
        """The text of each, in the shortest form that reads back as the number."""
        place = np.searchsorted(self._numbers, column)
        if np.array_equal(self._numbers[place], column):
            found: Texts = self._texts[place]
            return found
        return words(column)
