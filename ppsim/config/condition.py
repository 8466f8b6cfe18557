"""Conditions that people write: ``microbatches >= ranks``, ``schedule != 'gpipe' or ranks < 8``.

A small language, read with Python's own grammar and no more of it than is listed here: names of settings, numbers,
text (with units, too: ``message <= '10 MB'``), ``+ - * / // %``, comparisons, ``in``, ``and or not``, brackets.
Nothing is called and nothing is looked up but settings.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, get_args

from ppsim.errors import shown
from ppsim.units import Dimension, parse

LONGEST: Final = 500
Lookup = Callable[[str], Any]
"""The value of a name."""

_ARITHMETIC: Final[dict[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: lambda a, b: Fraction(a) / b,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_COMPARISONS: Final[dict[type[ast.AST], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip


class Condition:
    """One condition; ``names`` are the settings that it speaks of, in the order in which they come.

    Raises ValueError, with a finished sentence, for what isn't one.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: list[str] = []
        if len(text) > LONGEST:
            raise ValueError(f"a condition of {len(text)} characters; at most {LONGEST}")
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(f"{shown(text)} is not a condition; write one as in 'microbatches >= ranks'") from None
        self._holds = self._compiled(tree.body)

    def __reduce__(self) -> tuple[type[Condition], tuple[str]]:
        return type(self), (self.text,)

    def holds(self, value_of: Lookup) -> bool:
        """Whether the condition holds; ValueError where its values can't be compared."""
        return bool(self.value(value_of))

    def value(self, value_of: Lookup) -> Any:
        """What it comes to: a truth value, or a number, exact; ValueError where its values can't be put together."""
        try:
            return self._holds(value_of)
        except (TypeError, ZeroDivisionError) as error:
            why = "it divides by zero" if isinstance(error, ZeroDivisionError) else "its values can't be compared so"
            values = ", ".join(f"{name} is {shown(value_of(name))}" for name in dict.fromkeys(self.names))
            raise ValueError(f"{shown(self.text)} can't be decided, {why}: {values}") from None

    def _compiled(self, node: ast.expr) -> Callable[[Lookup], Any]:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
            constant = quantity(node.value)
            return lambda _: constant
        if isinstance(node, ast.Name | ast.Attribute):
            name = self._dotted(node)
            self.names.append(name)
            return lambda value_of: quantity(value_of(name))
        if isinstance(node, ast.List | ast.Tuple):
            items = [self._compiled(item) for item in node.elts]
            return lambda value_of: [item(value_of) for item in items]
        if isinstance(node, ast.BoolOp):
            parts = [self._compiled(part) for part in node.values]
            every = isinstance(node.op, ast.And)
            return lambda value_of: (all if every else any)(part(value_of) for part in parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            inner, is_not = self._compiled(node.operand), isinstance(node.op, ast.Not)
            return lambda value_of: not inner(value_of) if is_not else -_number(inner(value_of))
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            left, right, apply = self._compiled(node.left), self._compiled(node.right), _ARITHMETIC[type(node.op)]
            return lambda value_of: apply(_number(left(value_of)), _number(right(value_of)))
        if isinstance(node, ast.Compare) and all(type(op) in _COMPARISONS for op in node.ops):
            return self._comparison(node)
        raise ValueError(
            f"{shown(ast.unparse(node))} can't stand in a condition; settings, numbers, text in quotes, + - * / // %, "
            "comparisons, in, and, or, not can"
        )

    def _comparison(self, node: ast.Compare) -> Callable[[Lookup], bool]:
        sides = [self._compiled(side) for side in (node.left, *node.comparators)]
        tests = [_COMPARISONS[type(op)] for op in node.ops]

        def compare(value_of: Lookup) -> bool:
            values = [side(value_of) for side in sides]
            return all(test(a, b) for test, a, b in zip(tests, values[:-1], values[1:], strict=True))

        return compare

    def _dotted(self, node: ast.expr) -> str:
        if isinstance(node, ast.Attribute):
            return f"{self._dotted(node.value)}.{node.attr}"
        if isinstance(node, ast.Name):
            return node.id
        raise ValueError(f"{shown(ast.unparse(node))} is not the name of a setting, such as pipeline.ranks")


def _number(value: Any) -> Any:
    if isinstance(value, int | Fraction):
        return value
    raise TypeError


@lru_cache(maxsize=4096)
def _exact(text: str) -> Fraction | None:
    for dimension in get_args(Dimension):
        try:
            return parse(text, dimension)
        except ValueError:
            continue
    return None


def quantity(value: Any) -> Any:
    """Text with a unit as its exact SI number, a decimal number as exactly that; everything else as it is."""
    if isinstance(value, str):
        exact = _exact(value) if len(value) < 100 else None
        return value if exact is None else exact
    return Fraction(str(value)) if isinstance(value, float) and value - value == 0 else value
