"""Arithmetic of the shell, ``$((…))``: whole numbers, names, C's operators but for assignments, and brackets.

Source: POSIX.1-2017, Shell Command Language, section 2.6.4; Bash Reference Manual, section 6.5; division is C's,
towards zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

Unknown = TypeVar("Unknown")

LIMIT = 1 << 63
MAX_TOKENS = 200
_TOKEN = re.compile(
    r"\s*(?:(?:0|[1-9][0-9]{0,18})(?![0-9A-Za-z_#])|[A-Za-z_][A-Za-z0-9_]*|\*\*(?!=)|<<(?!=)|>>(?!=)|[<>=!]=|&&|\|\|"
    r"|[()?:~]|\+(?![+=])|-(?![-=])|\*(?!=)|[/%&|^](?!=)|[<>!](?!=))\s*"
)
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
_BINDS = {operator: level for level, operators in enumerate(_LEVELS, 1) for operator in operators}


class _NotReadError(Exception):
    """An operator, a base or a size that this doesn't do."""


class _NotKnownError(Exception):
    """A name without a value."""


def value_of(text: str, lookup: Callable[[str], str | Unknown]) -> int | Unknown | None:
    """The value; what ``lookup`` gave where that was not text; None for what isn't read."""
    tokens: list[str] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or len(tokens) >= MAX_TOKENS:
            return None
        tokens.append(token[0].strip())
        at = token.end()
    missing: list[Unknown] = []

    def operand(name: str) -> int:
        found = lookup(name)
        if isinstance(found, str) and not found.strip():
            return 0
        if not isinstance(found, str):
            missing.append(found)
            raise _NotKnownError
        if not re.fullmatch(r"\s*-?(0|[1-9][0-9]{0,18})\s*", found):
            raise _NotReadError
        return int(found)

    try:
        value = _expression(tokens, operand, 0)
    except _NotKnownError:
        return missing[0]
    except (_NotReadError, ZeroDivisionError):
        return None
    return None if tokens else value


def _expression(tokens: list[str], operand: Callable[[str], int], least: int) -> int:
    """What operators that bind at least so tightly make of the tokens, which it takes off; 0: a choice, too."""
    left = _operand(tokens, operand)
    while tokens and _BINDS.get(tokens[0], 0) >= max(least, 1):
        operator = tokens.pop(0)
        left = _applied(operator, left, _expression(tokens, operand, _BINDS[operator] + 1))
        if abs(left) >= LIMIT:
            raise _NotReadError
    if least or not tokens or tokens[0] != "?":
        return left
    tokens.pop(0)
    first = _expression(tokens, operand, 0)
    if not tokens or tokens.pop(0) != ":":
        raise _NotReadError
    second = _expression(tokens, operand, 0)
    return first if left else second


def _operand(tokens: list[str], operand: Callable[[str], int]) -> int:
    value = _primary(tokens, operand)
    if not tokens or tokens[0] != "**":
        return value
    tokens.pop(0)
    power = _operand(tokens, operand)
    if not 0 <= power < 64 or abs(value**power) >= LIMIT:
        raise _NotReadError
    return int(value**power)


def _primary(tokens: list[str], operand: Callable[[str], int]) -> int:
    if not tokens:
        raise _NotReadError
    token = tokens.pop(0)
    if token in ("+", "-", "!", "~"):
        value = _primary(tokens, operand)
        return {"+": value, "-": -value, "!": int(not value), "~": ~value}[token]
    if token == "(":
        value = _expression(tokens, operand, 0)
        if not tokens or tokens.pop(0) != ")":
            raise _NotReadError
        return value
    if token.isdigit():
        return int(token)
    if not (token[0].isalpha() or token[0] == "_"):
        raise _NotReadError
    return operand(token)


_SIMPLE: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "||": lambda a, b: int(bool(a or b)), "&&": lambda a, b: int(bool(a and b)),
    "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "&": lambda a, b: a & b,
    "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b), "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b), ">": lambda a, b: int(a > b), ">=": lambda a, b: int(a >= b),
}  # fmt: skip


def _applied(operator: str, left: int, right: int) -> int:
    if operator in _SIMPLE:
        return _SIMPLE[operator](left, right)
    if operator in ("<<", ">>"):
        if not 0 <= right < 64:
            raise _NotReadError
        return left << right if operator == "<<" else left >> right
    quotient = abs(left) // abs(right)
    quotient = quotient if (left < 0) == (right < 0) else -quotient
    return quotient if operator == "/" else left - quotient * right
