"""Columns: numpy arrays of whole numbers, or a ``Constant`` where all rows have the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike, NDArray

from ppsim.ops.op import Kind

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Kinds = NDArray[np.int8]
Numbers = NDArray[np.signedinteger]
Flags = NDArray[np.bool_]
_MOST_IN_FOUR_BYTES = int(np.iinfo(np.int32).max)


class About(NamedTuple):
    """What a column says of each row, in which unit, and what stands where there is nothing to say."""

    meaning: str
    unit: str = "row"
    nothing: str = ""


def columns_of(table: type) -> dict[str, About]:
    """The columns of a table's class, which are annotated with what they are about."""
    hints = get_type_hints(table, include_extras=True)
    found = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return {name: about[0] for name, about in found.items() if about and isinstance(about[0], About)}


@dataclass(frozen=True, eq=False, repr=False)
class Constant(NDArrayOperatorsMixin):
    """A column of ``length`` rows that all have the same ``value``, in no memory to speak of.

    In arithmetic it takes the part of its value; anything else that numpy does sees an array.
    """

    value: Any
    """A numpy scalar."""
    length: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its value."""
        found: np.dtype[Any] = self.value.dtype
        return found

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return Constant(self.value, len(range(self.length)[key]))
        if isinstance(key, np.ndarray):
            mask = key.dtype == np.bool_
            return (
                np.full(key.shape, self.value)
                if key.ndim != 1 and not mask
                else Constant(self.value, int(np.count_nonzero(key)) if mask else len(key))
            )
        range(self.length)[key]  # raises IndexError
        return self.value

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a constant column has no array of its own to give")
        return np.full(self.length, self.value, self.dtype if dtype is None else dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Any:
        if method != "__call__" or settings:
            return getattr(ufunc, method)(
                *(np.asarray(i) if isinstance(i, Constant) else i for i in inputs), **settings
            )
        found = ufunc(*(i.value if isinstance(i, Constant) else i for i in inputs))
        return Constant(found, self.length) if isinstance(found, np.generic) else found

    def tolist(self) -> list[Any]:
        """The value, once per row."""
        return [self.value.item()] * self.length

    def __repr__(self) -> str:
        return f"Constant({self.value}, {self.length})"


Column = NDArray[np.signedinteger] | Constant


def joined(columns: Sequence[Column]) -> Column:
    """One column after the other; constant where all are the same constant."""
    first = columns[0]
    if isinstance(first, Constant):
        value = first.value
        if all(isinstance(c, Constant) and (c.value is value or c.value == value) for c in columns):
            return Constant(value, sum(map(len, columns)))
    return np.concatenate(columns)


def narrowest(largest: int) -> type[np.signedinteger]:
    """The integer type for numbers up to ``largest``: columns of four bytes, unless that isn't enough."""
    return np.int32 if largest <= _MOST_IN_FOUR_BYTES else np.int64


def among(kind: Kinds, kinds: Iterable[Kind]) -> Flags:
    """Which rows of a column are of one of these kinds; ten times as fast as np.isin, which knows no small numbers."""
    chosen = np.zeros(len(Kind), bool)
    chosen[[int(one) for one in kinds]] = True
    found: Flags = chosen[kind]
    return found
