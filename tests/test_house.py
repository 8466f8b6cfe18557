"""How large things may be: what doesn't fit on a page or two can't be read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LINES_OF_A_MODULE, LINES_OF_A_FUNCTION, PARAMETERS = 300, 60, 5

LOOPS = {
    "ppsim/engine/free_links.py": "an engine's loop, which Numba compiles as one",
    "ppsim/engine/ports.py": "an engine's loop, which Numba compiles as one, and what it calls over the same columns",
    "ppsim/schedules/search/justify.py": "a loop that Numba compiles, over columns that it takes one by one",
    "ppsim/schedules/search/listing.py": "a loop that Numba compiles, over columns that it takes one by one",
}
"""Modules whose functions may be longer and take more, and why."""


def modules() -> list[Path]:
    return [path for room in ("ppsim", "docs") for path in sorted((ROOT / room).rglob("*.py"))]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_command(function: ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> bool:
    """A public function of the command line, whose parameters are the options that a user sees."""
    return name(path).startswith("ppsim/cli/") and "typer." in ast.unparse(function.args)


def test_modules() -> None:
    long = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert {path: lines for path, lines in long.items() if lines > LINES_OF_A_MODULE} == {}


def test_functions() -> None:
    long = [
        f"{name(path)}: {function.name}: {lines} lines"
        for path in modules()
        if name(path) not in LOOPS
        for function in functions(path)
        if function.end_lineno is not None
        and (lines := function.end_lineno - function.lineno + 1) > LINES_OF_A_FUNCTION
    ]
    assert long == []


def test_parameters() -> None:
    many = [
        f"{name(path)}: {function.name}: {taken} parameters"
        for path in modules()
        if name(path) not in LOOPS
        for function in functions(path)
        if (taken := _taken(function)) > PARAMETERS and not is_command(function, path)
    ]
    assert many == []


def _taken(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    own = bool(named) and named[0].arg in ("self", "cls")
    return len(named) - own + (given.vararg is not None) + (given.kwarg is not None)
