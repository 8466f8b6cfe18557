"""Loops over arrays, which Python runs as they stand; a run that chose the compiled engine has Numba compile them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, update_wrapper
from types import CellType, FunctionType
from typing import Any, Generic, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


class Loop(Generic[P, T]):
    """A function of arrays and numbers that calls no other; called as it is, Python runs it.

    Who has loaded Numba anyway asks for what it is ``compiled``: a run that SimPy simulates is small, and would wait
    for Numba longer than it could save. The result is the same: integers within 64 bits.
    """

    def __init__(self, function: Callable[P, T], makes: bool = False) -> None:
        """Of a function that makes lists or arrays of its own, or else only fills those that it gets."""
        self._function, self._makes = function, makes
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it in Python."""
        return self._function(*args, **kwargs)

    @cached_property
    def compiled(self) -> Callable[P, T]:
        """The same as machine code. Raises ImportError where Numba isn't installed."""
        return compiled(self._function, self._makes)

    def run(self, machine_code: bool) -> Callable[P, T]:
        """Whichever is wanted."""
        return self.compiled if machine_code else self._function


def compiled(function: Callable[P, T], makes: bool = False) -> Callable[P, T]:
    """The function, compiled at its first call; the machine code is kept on disk where there is a place for it."""
    try:
        return _compiled(function, cache=True, _nrt=makes)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return _compiled(function, _nrt=makes)


def part(function: Callable[P, T]) -> Callable[P, T]:
    """What compiled loops of the same file call, and Python never: it becomes a part of their machine code."""
    return _compiled(function, no_cpython_wrapper=True, _nrt=False)


def _compiled(function: Callable[P, T], **options: bool) -> Callable[P, T]:
    """By options that have Numba write less code: none for division by 0, for C's callers, for counting references."""
    from numba import njit

    make = cast(Callable[..., Callable[[Callable[P, T]], Callable[P, T]]], njit)
    return make(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)(_closed_over_constants(function))


def _closed_over_constants(loop: Callable[P, T]) -> Callable[P, T]:
    """The same function, closed over the whole numbers that it, and what it calls, takes from its module.

    Numba keeps machine code by the time of the function's file and by what the function closes over, and takes what is
    global in the module for constant: a number from another file could change, and the old machine code would be used.
    """
    function = cast(FunctionType, loop)
    numbers = []
    for name in sorted(function.__code__.co_names):
        value: Any = function.__globals__.get(name)
        if isinstance(value, int):
            numbers.append((name, int(value)))
        elif hasattr(value, "py_func"):
            numbers.append((name, value.py_func.__closure__[-1].cell_contents))
    code = function.__code__.replace(co_freevars=(*function.__code__.co_freevars, "numbers"))
    closure = (*(function.__closure__ or ()), CellType(tuple(numbers)))
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
