"""Arithmetic of the shell, ``$((…))``: whole numbers, names, ``+ - * / %`` and brackets.

Source: POSIX.1-2017, Shell Command Language, section 2.6.4; division is C's, towards zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

Unknown = TypeVar("Unknown")

LIMIT = 1 << 63
MAX_TOKENS = 200
_TOKEN = re.compile(
    r"\s*(?:(?:0|[1-9][0-9]{0,18})(?![0-9A-Za-z_#])|[A-Za-z_][A-Za-z0-9_]*"
    r"|[()]|\+(?![+=])|-(?![-=])|\*(?![*=])|[/%](?!=))\s*"
)
_BINDS = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}


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
        if not isinstance(found, str):
            missing.append(found)
            raise _NotKnownError
        if not re.fullmatch(r"\s*-?(0|[1-9][0-9]{0,18})\s*", found):
            raise _NotReadError
        return int(found)

    try:
        value = _expression(tokens, operand, 1)
    except _NotKnownError:
        return missing[0]
    except (_NotReadError, ZeroDivisionError):
        return None
    return None if tokens else value


def _expression(tokens: list[str], operand: Callable[[str], int], least: int) -> int:
    """What operators that bind at least so tightly make of the tokens, which it takes off."""
    left = _operand(tokens, operand)
    while tokens and _BINDS.get(tokens[0], 0) >= least:
        operator = tokens.pop(0)
        right = _expression(tokens, operand, _BINDS[operator] + 1)
        left = _applied(operator, left, right)
        if abs(left) >= LIMIT:
            raise _NotReadError
    return left


def _operand(tokens: list[str], operand: Callable[[str], int]) -> int:
    if not tokens:
        raise _NotReadError
    token = tokens.pop(0)
    if token in "+-":
        value = _operand(tokens, operand)
        return -value if token == "-" else value
    if token == "(":
        value = _expression(tokens, operand, 1)
        if not tokens or tokens.pop(0) != ")":
            raise _NotReadError
        return value
    if token.isdigit():
        return int(token)
    if token in "*/%)":
        raise _NotReadError
    return operand(token)


def _applied(operator: str, left: int, right: int) -> int:
    if operator in "+-":
        return left + right if operator == "+" else left - right
    if operator == "*":
        return left * right
    quotient = abs(left) // abs(right)
    quotient = quotient if (left < 0) == (right < 0) else -quotient
    return quotient if operator == "/" else left - quotient * right
