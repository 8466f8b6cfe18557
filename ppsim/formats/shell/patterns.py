"""Patterns of the shell, as in ``case`` and ``${A%pattern}``, as regular expressions.

Source: POSIX.1-2017, Shell Command Language, section 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ppsim.formats.shell.pieces import Piece


def as_regex(pieces: Iterable[Piece]) -> str | None:
    """The regular expression of a pattern whose quoted pieces stand for themselves; None for what isn't read."""
    out: list[str] = []
    text = "".join(piece.text if not piece.quoted else "".join(f"\0{c}" for c in piece.text) for piece in pieces)
    at = 0
    while at < len(text):
        c = text[at]
        at += 1
        if c == "\0":
            out.append(re.escape(text[at]))
            at += 1
        elif c in "?*+@!" and text[at : at + 1] == "(":
            return None
        elif c in "*?":
            out.append(".*" if c == "*" else ".")
        elif c == "[" and (bracket := re.compile(r"([!^]?)(\]?[^\]\0]*)\]").match(text, at)):
            if "[:" in bracket[2]:
                return None
            inside = re.sub(r"([\\\[&~|])", r"\\\1", bracket[2])
            out.append(f"[{'^' if bracket[1] else ''}{inside}]")
            at = bracket.end()
        else:
            out.append(re.escape(c))
    pattern = "".join(out)
    try:
        re.compile(pattern)
    except re.error:
        return None
    return pattern


def is_plain(pieces: Iterable[Piece]) -> bool:
    """Whether a pattern is a text that only equals itself."""
    return not any(set(piece.text) & set("*?[") for piece in pieces if not piece.quoted)
