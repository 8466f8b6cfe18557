"""Parts of a shell script's words: text, and what in it isn't known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from ppsim.errors import printable


class Missing(NamedTuple):
    """What the text doesn't tell: an expansion as written, where, and why; ``name`` where a value could be given."""

    text: str
    line: int
    why: str
    name: str | None = None
    unset: bool = False
    """Whether the name has no value at all, so that a default is taken."""


class Piece(NamedTuple):
    """A part of a word that comes from one line. Blanks of one that ``splits`` end the word."""

    text: str
    line: int
    splits: bool = False
    missing: Missing | None = None
    quoted: bool = False
    """Whether ``*`` and its like in it are characters, not patterns."""


Elements = Sequence[Sequence[Piece]]
"""The elements of a variable: one, unless it is an array."""


class Word(NamedTuple):
    """A word, the line that it begins on, what in it is missing, and whether a ``|`` or ``(`` follows at once."""

    text: str
    line: int
    missing: tuple[Missing, ...] = ()
    cut: bool = False


class Spot(NamedTuple):
    """An expansion as it is written, its line, whether it is quoted, and how many others it stands in."""

    text: str
    line: int
    quoted: bool = False
    depth: int = 0


class Variables(Protocol):
    """Where the values of expansions come from."""

    def value(self, name: str, text: str, line: int) -> Elements | Missing:
        """The elements of a variable, or why they aren't known."""

    def parameter(self, inside: str, spot: Spot) -> Elements | Missing:
        """What ``${inside}`` stands for, but for a plain name."""

    def output(self, command: str, text: str, line: int) -> Sequence[Piece] | Missing:
        """What a command in the place of a word prints, where that is plain from its text."""

    def spend(self, characters: int, line: int) -> None:
        """Account for what an expansion adds, so that a few lines can't grow without bounds."""


def fields(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """The words that pieces make, once unquoted expansions are split at their blanks."""
    word: list[Piece] | None = None
    for piece in pieces:
        if not piece.splits:
            word = [] if word is None else word
            word.append(piece)
            continue
        for index, run in enumerate(re.split(r"[ \t\n]+", piece.text)):
            if index and word is not None:
                yield word
                word = None
            if run:
                word = [] if word is None else word
                word.append(Piece(run, piece.line, False, piece.missing, piece.quoted))
    if word is not None:
        yield word


def joined(pieces: Sequence[Piece], cut: bool = False) -> Word:
    """A word of pieces."""
    missing = dict.fromkeys(piece.missing for piece in pieces if piece.missing is not None)
    return Word(text_of(pieces), pieces[0].line if pieces else 0, tuple(missing), cut)


def text_of(pieces: Iterable[Piece]) -> str:
    """The pieces' text; what is missing as it is written."""
    return "".join(piece.text for piece in pieces)


def missing_in(pieces: Iterable[Piece]) -> Missing | None:
    """The first hole."""
    return next((piece.missing for piece in pieces if piece.missing is not None), None)


def lost(text: str, line: int, why: str, name: str | None = None) -> Missing:
    """What isn't known, its text as written but on one line."""
    return Missing(printable(text if len(text) <= 60 else f"{text[:60]}…"), line, why, name)


def hole(text: str, line: int, why: str, name: str | None = None) -> Piece:
    """A hole in a word."""
    return Piece(text, line, missing=lost(text, line, why, name))
