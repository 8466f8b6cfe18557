"""Loops that Numba compiles where it is at work, and that Python runs as they stand where it isn't."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import update_wrapper
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Compiled(Generic[P, T]):
    """Calls the compiled function once Numba has been loaded, till then the other."""

    def __init__(self, function: Callable[P, T], otherwise: Callable[P, T]) -> None:
        self._plain, self._now = function, otherwise
        self._ready = False
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call whichever it is."""
        if not self._ready and sys.modules.get("numba"):
            self._now, self._ready = compiled(self._plain), True
        return self._now(*args, **kwargs)


def jit(function: Callable[P, T]) -> Callable[P, T]:
    """A function of arrays and numbers that calls no other, compiled once the engine or a long search has loaded Numba.

    Till then Python runs it as it stands: a run that SimPy simulates is small, and would wait for Numba longer than it
    could save. The result is the same: integers within 64 bits.
    """
    return _Compiled(function, function)


def jit_instead_of(otherwise: Callable[P, T]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """The same, but till then ``otherwise`` is called, which is made for Python."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        return _Compiled(function, otherwise)

    return decorate


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """The function, compiled at its first call; the machine code is kept on disk where there is a place for it."""
    from numba import njit

    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return njit(nogil=True)(function)
