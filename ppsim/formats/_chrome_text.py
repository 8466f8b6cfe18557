"""Many lines of text at once, from columns, without going through the lines: each different text is made once.

What stands before and after a number in every line is made one text with it: half as many pieces to put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from ppsim._texts import Texts, each

PLACES = [f".{place:03d}" for place in range(1000)]


def column(values: Sequence[str]) -> Texts:
    """A column of texts."""
    return np.array(values, dtype=object)


def us(ns: NDArray[np.signedinteger], before: str = "", after: str = "") -> Texts:
    """Nanoseconds as µs: the whole ones, and the three places."""
    return each(ns, lambda different: _us(different, before, after))


def _us(ns: NDArray[np.signedinteger], before: str, after: str) -> list[str]:
    whole, places = np.divmod(ns, 1000)
    numbers = zip(whole.tolist(), places.tolist(), strict=True)
    return [f"{before}{number}{PLACES[place]}{after}" for number, place in numbers]


def joined(*columns: Texts | list[str] | str) -> list[str]:
    """The columns' texts, row by row; a text alone stands in every row."""
    parts: list[Iterable[str]] = [
        repeat(texts) if isinstance(texts, str) else texts.tolist() if isinstance(texts, np.ndarray) else texts
        for texts in columns
    ]
    return [*map("".join, zip(*parts, strict=False))]
