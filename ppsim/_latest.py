"""What neighbouring cases share: values kept by their keys, as many as are likely to be asked for again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    """The latest values, made once each; of more than ``most`` those that were made first are forgotten.

    A key says all that its value follows from. Where that is an object by its id, the value keeps the object, so that
    no other one can come to have that id.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: dict[Hashable, T] = {}

    def of(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key, which is None only where ``make`` says so; made if it isn't there."""
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make()
            if len(self._kept) > self.most:
                del self._kept[next(iter(self._kept))]
        return found
