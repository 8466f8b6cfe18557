"""Conditions of the shell, ``[ … ]``, ``[[ … ]]`` and ``test``: true, false, or what they depend on.

Source: POSIX.1-2017, test; Bash Reference Manual, section 6.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ppsim.formats.shell.patterns import as_regex, is_plain
from ppsim.formats.shell.pieces import Missing, Piece, lost, missing_in, text_of
from ppsim.formats.shell.words import Scanner

Token = list[Piece] | str
"""A word's pieces, or an operator."""
_NUMERIC: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b, "-ne": lambda a, b: a != b, "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b, "-gt": lambda a, b: a > b, "-ge": lambda a, b: a >= b,
}  # fmt: skip
_TEXTUAL = ("=", "==", "!=", "=~", "<", ">")
_OF_FILES = frozenset(f"-{letter}" for letter in "abcdefghkprstuwxGLNOS")
_OPERATORS = re.compile(r"&&|\|\||[()<>!](?![^\s()])|[()<>]")


class Undecided(NamedTuple):
    """A condition that the text doesn't decide: what it depends on, and the values that it compares them with."""

    missing: tuple[Missing, ...]
    compared: tuple[tuple[str, str], ...] = ()
    if_empty: bool | None = None
    """What it is where the one name that it depends on is empty or unset."""


Truth = bool | Undecided


def tokens(scanner: Scanner, end: int, double: bool) -> list[Token]:
    """The words and operators up to a place; in ``[[ ]]`` operators are no words."""
    found: list[Token] = []
    after_match = False
    while True:
        scanner.blanks()
        while scanner.ahead == "\n":
            scanner.at += 1
            scanner.blanks()
        if scanner.at >= end:
            return found
        operator = _OPERATORS.match(scanner.text, scanner.at) if double and not after_match else None
        if operator:
            found.append(operator[0])
            scanner.at = operator.end()
            continue
        before = scanner.at
        pieces = scanner.word(" \t\n" if after_match else " \t\r\n;&|<>()" if double else " \t\n;&|<>")
        if scanner.at == before:
            scanner.at += 1
            continue
        after_match = double and text_of(pieces) == "=~"
        bare = len(pieces) == 1 and not pieces[0].quoted and pieces[0].missing is None
        found.append(pieces[0].text if bare and pieces[0].text in ("!", "-a", "-o") else pieces)


def evaluate(found: Sequence[Token], double: bool, line: int) -> Truth:
    """Whether they hold."""
    rest = list(found)
    value = _either(rest, double, line)
    return Undecided((lost("[ … ]", line, "a condition that isn't read"),)) if rest else value


def negated(value: Truth) -> Truth:
    """The other way round."""
    if isinstance(value, Undecided):
        return value._replace(if_empty=None if value.if_empty is None else not value.if_empty)
    return not value


def both(left: Truth, right: Truth) -> Truth:
    """And; false as soon as one is."""
    if left is False or right is False:
        return False
    if isinstance(left, Undecided) and isinstance(right, Undecided):
        return _together(left, right, left.if_empty is not False and right.if_empty is not False)
    return right if left is True else left


def either(left: Truth, right: Truth) -> Truth:
    """Or; true as soon as one is."""
    return negated(both(negated(left), negated(right)))


def _together(left: Undecided, right: Undecided, same: bool) -> Undecided:
    missing = tuple(dict.fromkeys((*left.missing, *right.missing)))
    one = len({m.name for m in missing}) == 1 and None not in (left.if_empty, right.if_empty)
    compared = tuple(dict.fromkeys((*left.compared, *right.compared)))
    return Undecided(missing, compared, same if one else None)


def _either(rest: list[Token], double: bool, line: int) -> Truth:
    value = _both(rest, double, line)
    while rest and rest[0] in ("||", "-o"):
        rest.pop(0)
        value = either(value, _both(rest, double, line))
    return value


def _both(rest: list[Token], double: bool, line: int) -> Truth:
    value = _one(rest, double, line)
    while rest and rest[0] in ("&&", "-a"):
        rest.pop(0)
        value = both(value, _one(rest, double, line))
    return value


def _one(rest: list[Token], double: bool, line: int) -> Truth:
    if not rest:
        return False
    first = rest.pop(0)
    if first == "!" and rest:
        return negated(_one(rest, double, line))
    if _word(first) == "(" and len(rest) > 1:
        value = _either(rest, double, line)
        if rest and _word(rest[0]) == ")":
            rest.pop(0)
        return value
    operator = _word(rest[0]) if rest else ""
    if len(rest) > 1 and (operator in _NUMERIC or operator in _TEXTUAL or operator in ("-nt", "-ot", "-ef")):
        rest.pop(0)
        return _compare(_pieces(first, line), operator, _pieces(rest.pop(0), line), double)
    name = _word(first)
    if rest and rest[0] not in ("&&", "||", "-a", "-o", ")") and (name in ("-z", "-n", "-v") or name in _OF_FILES):
        return _unary(name, _pieces(rest.pop(0), line), line)
    return negated(_unary("-z", _pieces(first, line), line))


def _word(token: Token) -> str:
    return token if isinstance(token, str) else text_of(token)


def _pieces(token: Token, line: int) -> list[Piece]:
    return [Piece(token, line)] if isinstance(token, str) else token


def _unary(operator: str, operand: list[Piece], line: int) -> Truth:
    if operator in _OF_FILES:
        return Undecided((lost(f"{operator} {text_of(operand)}", line, "a question about files"),))
    if operator == "-v":
        return Undecided((lost(f"-v {text_of(operand)}", line, "not assigned in this file", text_of(operand)),))
    missing = missing_in(operand)
    if missing is None or any(piece.text for piece in operand if piece.missing is None):
        empty = not text_of(operand)
        return empty if operator == "-z" else not empty
    compared = ((missing.name, ""),) if missing.name else ()
    return Undecided((missing,), compared, (operator == "-z") if missing.unset else None)


def _compare(left: list[Piece], operator: str, right: list[Piece], double: bool) -> Truth:
    missing = tuple(m for m in (missing_in(left), missing_in(right)) if m is not None)
    if operator in ("!=",):
        return negated(_compare(left, "=", right, double))
    if missing:
        return _unknown(left, operator, right, missing)
    one, other = text_of(left), text_of(right)
    if operator in _NUMERIC:
        if not re.fullmatch(r"\s*[+-]?\d{1,18}\s*", one) or not re.fullmatch(r"\s*[+-]?\d{1,18}\s*", other):
            return False
        return _NUMERIC[operator](int(one), int(other))
    if operator in ("<", ">"):
        return one < other if operator == "<" else one > other
    pattern = (other if _plain_regex(right) else None) if operator == "=~" else as_regex(right) if double else ""
    if pattern is None or operator not in _TEXTUAL:
        return Undecided((lost(f"{one} {operator} {other}"[:60], right[0].line, "a comparison that isn't read"),))
    if operator == "=~":
        return re.search(pattern, one) is not None
    return re.fullmatch(pattern, one, re.DOTALL) is not None if double else one == other


def _plain_regex(pieces: list[Piece]) -> bool:
    text = text_of(pieces)
    if any(piece.quoted for piece in pieces) or "[[:" in text or "[[." in text:
        return False
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _unknown(left: list[Piece], operator: str, right: list[Piece], missing: tuple[Missing, ...]) -> Undecided:
    """A comparison with something unknown, and with which value."""
    unknown, other = (left, right) if missing_in(left) else (right, left)
    first = missing[0]
    alone = [piece for piece in unknown if piece.text] == [piece for piece in unknown if piece.missing]
    if len(missing) > 1 or first.name is None:
        return Undecided(missing)
    text = text_of(other)
    if not alone:  # as in "x$A" = "xfull"
        before, _, after = text_of(unknown).partition(first.text)
        fits = text.startswith(before) and text.endswith(after) and len(text) >= len(before) + len(after)
        text = text[len(before) : len(text) - len(after)] if fits else ""
    if operator in _NUMERIC and first.name == "#" and alone and re.fullmatch(r"\d{1,9}", text):
        ends = (0, int(text)) if unknown is left else (int(text), 0)
        return Undecided(missing, (("#", text),), _NUMERIC[operator](*ends))
    if operator in _NUMERIC or not (is_plain(other) or operator == "="):
        return Undecided(missing, ((first.name, text),))
    empty = text == "" if first.unset and alone and is_plain(other) else None
    return Undecided(missing, ((first.name, text),), empty)
