"""Which line a character of a text is on."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from ppsim.errors import printable


class Line(int):
    """The number of a line in another file than the one that was asked for: ``label``."""

    label: str

    def __new__(cls, number: int, label: str) -> Line:
        """With its file."""
        line = super().__new__(cls, number)
        line.label = label
        return line

    def __str__(self) -> str:
        return f"{int(self)} of {printable(self.label)}"

    __format__ = lambda self, _: str(self)  # noqa: E731


class Lines:
    """Which line each character of a text is on; ``starts`` are (offset, line) of where that changes."""

    def __init__(self, starts: Sequence[tuple[int, int]]) -> None:
        self._offsets, self._lines = [offset for offset, _ in starts], [line for _, line in starts]

    @classmethod
    def of(cls, text: str, first: int = 1, label: str | None = None) -> Lines:
        """Of a text whose first line has this number; ``label`` names a file other than the one that was asked for."""
        offsets = [0, *(match.end() for match in re.finditer("\n", text))]
        numbers = range(int(first), int(first) + len(offsets))
        return cls([(at, n if label is None else Line(n, label)) for at, n in zip(offsets, numbers, strict=True)])

    def at(self, offset: int) -> int:
        """The line of a character."""
        return self._lines[max(0, bisect_right(self._offsets, offset) - 1)]
