"""Loops over arrays, which Python runs as they stand; a run that chose the compiled engine has Numba compile them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Loop(Generic[P, T]):
    """A function of arrays and numbers that calls no other; called as it is, Python runs it.

    Who has loaded Numba anyway asks for what it is ``compiled``: a run that SimPy simulates is small, and would wait
    for Numba longer than it could save. The result is the same: integers within 64 bits.
    """

    def __init__(self, function: Callable[P, T]) -> None:
        self._function = function
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it in Python."""
        return self._function(*args, **kwargs)

    @cached_property
    def compiled(self) -> Callable[P, T]:
        """The same as machine code. Raises ImportError where Numba isn't installed."""
        return compiled(self._function)

    def run(self, machine_code: bool) -> Callable[P, T]:
        """Whichever is wanted."""
        return self.compiled if machine_code else self._function


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """The function, compiled at its first call; the machine code is kept on disk where there is a place for it."""
    from numba import njit

    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return njit(nogil=True)(function)
