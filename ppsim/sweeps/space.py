"""The cases of a sweep by their number: how many there are, and what the i-th sets."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import accumulate
from math import prod
from typing import Any

from ppsim.config.condition import Condition
from ppsim.config.sweep import Space, Sweep, listed
from ppsim.errors import ConfigError

Changes = dict[str, Any]
"""Keys and the values that they are set to."""
FEW = 1 << 20
TRIES = 1000
MOST = 10_000_000


class Cases:
    """A space's cases, numbered: of its grid the last key changes fastest, then come zip and list inside it."""

    def __init__(self, space: Space) -> None:
        self._fixed = space.fixed
        self._own = space.conditions
        self._grid = [(key, listed(values)) for key, values in space.grid.items()]
        self._zip = [(key, listed(values)) for key, values in space.zip.items()]
        self._items = [Cases(item) for item in space.list]
        self._ends = list(accumulate(item.size for item in self._items))
        zipped = len(self._zip[0][1]) if self._zip else 1
        self._sizes = [*(len(values) for _, values in self._grid), zipped, self._ends[-1] if self._ends else 1]

    @property
    def size(self) -> int:
        """How many there are, before any condition."""
        return prod(self._sizes)

    def case(self, number: int) -> tuple[Changes, list[Condition]]:
        """What a case sets, and the conditions under which it is one; wholes come before their parts."""
        places = []
        for size in reversed(self._sizes):
            number, place = divmod(number, size)
            places.append(place)
        of_list, of_zip, *of_grid = places
        changes = dict(self._fixed)
        conditions = list(self._own)
        changes.update((key, values[i]) for (key, values), i in zip(self._grid, reversed(of_grid), strict=True))
        changes.update((key, values[of_zip]) for key, values in self._zip)
        if self._items:
            which = next(i for i, end in enumerate(self._ends) if of_list < end)
            inner, more = self._items[which].case(of_list - (self._ends[which - 1] if which else 0))
            changes |= inner
            conditions += more
        return {key: changes[key] for key in sorted(changes, key=lambda key: key.count("."))}, conditions


def at_most(sweep: Sweep) -> int:
    """How many cases a sweep has, before any condition."""
    size = Cases(sweep).size
    return size if sweep.samples is None else min(size, sweep.samples)


def chosen(sweep: Sweep, holds: Callable[[Changes, list[Condition]], bool]) -> Iterator[tuple[int, Changes]]:
    """(number, changes) of the sweep's cases for which ``holds`` says so: all, or ``samples`` drawn with its seed."""
    cases = Cases(sweep)
    if sweep.samples is None and cases.size > MOST:
        raise ConfigError(
            f"sweep: {cases.size:,} cases before its conditions; at most {MOST:,}, or draw some of them with samples:"
        )
    numbers = iter(range(cases.size)) if sweep.samples is None else _drawn(cases, sweep.samples, sweep.seed, holds)
    for number in numbers:
        changes, conditions = cases.case(number)
        if sweep.samples is not None or holds(changes, conditions):
            yield number, changes


def _drawn(cases: Cases, samples: int, seed: int, holds: Callable[[Changes, list[Condition]], bool]) -> Iterator[int]:
    """The numbers of so many different cases, in order; fewer where no more hold."""
    found: list[int] = []
    for number in _shuffled(cases.size, samples, random.Random(seed)):
        if holds(*cases.case(number)):
            found.append(number)
            if len(found) == samples:
                break
    return iter(sorted(found))


def _shuffled(size: int, samples: int, source: random.Random) -> Iterator[int]:
    if size <= FEW:
        numbers = list(range(size))
        source.shuffle(numbers)
        yield from numbers
        return
    seen: set[int] = set()
    for _ in range(samples * TRIES):
        number = source.randrange(size)
        if number not in seen:
            seen.add(number)
            yield number
