"""What a format is: a function that writes or reads other people's files, with its name and a line about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

Does = Literal["export", "launch", "link", "trace"]
"""Writes a run (``export``: a Result into a text stream), reads launch files, measured links or traces of real runs."""
Function = TypeVar("Function", bound=Callable[..., Any])


class Format(NamedTuple):
    """A format of files that aren't ppsim's."""

    name: str
    does: Does
    what: str
    """A line."""
    run: Callable[..., Any]


_REGISTERED: dict[tuple[Does, str], Format] = {}


def file_format(name: str, *, does: Does, what: str) -> Callable[[Function], Function]:
    """Register a function as what writes or reads the format of that name."""

    def register(function: Function) -> Function:
        _REGISTERED[does, name] = Format(name, does, what, function)
        return function

    return register


def registered() -> list[Format]:
    """The formats of all modules that are imported."""
    return list(_REGISTERED.values())
