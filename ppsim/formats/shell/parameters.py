"""Expansions of parameters, ``${…}``: defaults, lengths, parts, patterns, elements of arrays, indirection.

Source: POSIX.1-2017, Shell Command Language, section 2.6.2; Bash Reference Manual, section 3.5.3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from ppsim.formats.shell.patterns import as_regex, is_plain
from ppsim.formats.shell.pieces import Elements, Missing, Piece, Spot, Variables, lost, missing_in, text_of
from ppsim.formats.shell.words import Scanner

_FORM = re.compile(
    r"(?P<mark>[#!]?)(?P<name>[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*])(?P<index>\[[^\]]*\])?(?P<rest>.*)", re.DOTALL
)
_SUBSTRING = re.compile(r":\s*([^:]+?)\s*(?::\s*(.+?)\s*)?", re.DOTALL)


class Store(Variables, Protocol):
    """Variables that can be looked up by element, and assigned."""

    def element(self, name: str, index: str, text: str, line: int) -> Elements | Missing:
        """What ``${name[index]}`` is."""

    def assign(self, name: str, value: Sequence[Sequence[Piece]]) -> None:
        """Set a variable, for ``${name:=default}``."""


def parameter(store: Store, inside: str, spot: Spot) -> Elements | Missing:
    """What ``${inside}`` stands for, or why that isn't known."""
    text, line, _, depth = spot
    form = _FORM.fullmatch(inside)
    if form is None:
        return _unread(text, line)
    mark, name, index, rest = form["mark"], form["name"], form["index"], form["rest"]
    if index in ("[@]", "[*]") or index is None:
        found = store.value(name, text, line)
    else:
        found = store.element(name, index[1:-1], text, line)
    if mark == "#":
        return _length(found, index, line) if not rest else _unread(text, line)
    if mark == "!":
        return _indirect(store, found, rest, text, line) if index is None else _unread(text, line)
    if not rest:
        return found
    if default := re.fullmatch(r"(:?)([-=?+])(.*)", rest, re.DOTALL):
        return _default(store, name, found, default, spot)
    if isinstance(found, Missing):
        return found
    if (missing := missing_in(piece for element in found for piece in element)) is not None:
        return missing
    changed = [_changed(store, text_of(element), rest, line, depth) for element in found or [[]]]
    return (
        [[Piece(value, line)] for value in changed if value is not None] if None not in changed else _unread(text, line)
    )


def _unread(text: str, line: int) -> Missing:
    return lost(text, line, "an expansion that isn't read")


def _length(found: Elements | Missing, index: str | None, line: int) -> Elements | Missing:
    if isinstance(found, Missing):
        return found
    if index in ("[@]", "[*]"):
        return [[Piece(str(len(found)), line)]]
    element = found[0] if found else []
    return missing_in(element) or [[Piece(str(len(text_of(element))), line)]]


def _indirect(store: Store, found: Elements | Missing, rest: str, text: str, line: int) -> Elements | Missing:
    if isinstance(found, Missing):
        return found
    element = found[0] if found else []
    name = text_of(element)
    if missing_in(element) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+", name):
        return missing_in(element) or _unread(text, line)
    return parameter(store, f"{name}{rest}", Spot(text, line, True, 1)) if rest else store.value(name, text, line)


def _default(store: Store, name: str, found: Elements | Missing, form: re.Match[str], spot: Spot) -> Elements | Missing:
    """``${A:-B}``, ``${A-B}``, ``${A:+B}``, ``${A:=B}``, ``${A:?B}``."""
    text, line, quoted, depth = spot
    colon, operator, word = form.groups()
    pieces = [] if isinstance(found, Missing) else [piece for element in found for piece in element]
    unknown = found if isinstance(found, Missing) else missing_in(pieces)
    text_known = any(piece.text for piece in pieces if piece.missing is None)
    if unknown is not None and not unknown.unset and not text_known:
        return unknown
    empty = isinstance(found, Missing) or bool(colon and not text_known)
    if operator == "?" and empty:
        return found if isinstance(found, Missing) else _unread(text, line)
    if empty == (operator == "+"):
        return [[]] if operator == "+" or isinstance(found, Missing) else found
    store.spend(len(word), line)
    scanner = Scanner(word, store, line, depth)
    made = scanner.rest() if quoted else scanner.word("")
    if operator == "=":
        store.assign(name, [made])
    return [made]


def _changed(store: Store, value: str, rest: str, line: int, depth: int) -> str | None:
    """A text cut, replaced or in other letters; None where that isn't read."""
    if rest in ("^^", ",,", "^", ","):
        part = value.upper() if rest[0] == "^" else value.lower()
        return part if len(rest) == 2 else part[:1] + value[1:]
    if rest[0] in "#%":
        longest, pattern = rest[:2] in ("##", "%%"), rest[2 if rest[:2] in ("##", "%%") else 1 :]
        regex = _pattern(store, pattern, line, depth)
        return None if regex is None else _cut(value, regex, rest[0] == "#", longest)
    if rest[0] == "/":
        every, body = rest[:2] == "//", rest[2 if rest[:2] == "//" else 1 :]
        parts = re.split(r"(?<!\\)/", body, maxsplit=1)
        regex = _pattern(store, parts[0], line, depth)
        into = Scanner(parts[1], store, line, depth).word("") if len(parts) > 1 else []
        if regex is None or missing_in(into) or body[:1] in "#%":
            return None
        return re.sub(regex, lambda _: text_of(into), value, count=0 if every else 1)
    if rest[0] == ":" and (form := _SUBSTRING.fullmatch(rest)):
        numbers = [Scanner("", store, line, depth).arithmetic(part, line, part) for part in form.groups() if part]
        if any(number.missing for number in numbers):
            return None
        start, *length = (int(number.text) for number in numbers)
        start = max(0, len(value) + start) if start < 0 else start
        end = len(value) if not length else start + length[0] if length[0] >= 0 else len(value) + length[0]
        return value[start:end]
    return None


def _pattern(store: Store, text: str, line: int, depth: int) -> str | None:
    pieces = Scanner(text, store, line, depth).word("")
    return None if missing_in(pieces) else as_regex(pieces)


def _cut(value: str, regex: str, front: bool, longest: bool) -> str:
    ends = range(len(value) + 1)
    fitting = [
        end for end in ends if re.fullmatch(regex, value[:end] if front else value[len(value) - end :], re.DOTALL)
    ]
    if not fitting:
        return value
    end = max(fitting) if longest else min(fitting)
    return value[end:] if front else value[: len(value) - end]


def spelt_out(words: list[list[Piece]]) -> list[list[Piece]] | None:
    """The words that a loop takes, its braces ``{1..4}`` and ``{a,b}`` spelt out; None where one isn't known."""
    found: list[list[Piece]] = []
    for word in words:
        braces = word[0].text if len(word) == 1 and word[0].missing is not None else ""
        if span := re.fullmatch(r"\{(-?\d{1,6})\.\.(-?\d{1,6})\}", braces):
            first, last = int(span[1]), int(span[2])
            numbers = range(first, last + 1) if first <= last else range(first, last - 1, -1)
            found += [[Piece(str(number), word[0].line)] for number in numbers[:1000]]
        elif listed := re.fullmatch(r"\{([^{}$]*,[^{}$]*)\}", braces):
            found += [[Piece(part, word[0].line)] for part in listed[1].split(",")]
        elif missing_in(word) or not is_plain(word):
            return None
        else:
            found.append(word)
    return found
