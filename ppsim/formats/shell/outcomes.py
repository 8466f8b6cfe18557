"""Every way through a script that matters: one, and each that leaves it at an undecided condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import NamedTuple

from ppsim.errors import FormatError
from ppsim.formats.shell.grammar import Source
from ppsim.formats.shell.script import Script
from ppsim.formats.shell.state import Fork

Key = tuple[str, int]
MAX_WAYS = 400


class Outcome(NamedTuple):
    """A way through the script, and the forks that lead to it instead of to the first: none for that one itself."""

    script: Script
    forks: tuple[Fork, ...] = ()


def outcomes(
    source: Source, follow: Callable[[Mapping[Key, int]], Script], matter: Set[str | None]
) -> Iterator[Outcome]:
    """The first way through a script, then those on which one condition goes otherwise, and one on which all do.

    Conditions that depend on nothing but names of ``matter``, to which the caller may add, are passed over from then
    on. What only two conditions together would change is seen if all others may change along. Raises FormatError.
    """
    first = follow({})
    yield Outcome(first)
    waiting: list[tuple[tuple[Fork, ...], dict[Key, int]]] = []
    waiting += [((fork,), {fork.key: way}) for fork in first.forks for way in _others(fork)]
    if len(first.forks) > 1:
        waiting.append((tuple(first.forks), {f.key: (_others(f) or [f.taken])[-1] for f in first.forks}))
    seen = {fork.key for fork in first.forks}
    for forks, decisions in waiting:
        names = {missing.name for missing in forks[-1].why.missing}
        if names <= matter or (matter and len(forks) == len(first.forks) > 1):
            continue
        script = follow(decisions)
        yield Outcome(script, forks)
        for fork in script.forks:  # conditions that this way alone has
            if fork.key not in seen:
                seen.add(fork.key)
                waiting.extend(((*forks, fork), {**decisions, fork.key: way}) for way in _others(fork))
        if len(waiting) > MAX_WAYS:
            raise FormatError(
                f"{source.line(source.root)}: more than {MAX_WAYS} ways through conditions that aren't decided"
            )


def _others(fork: Fork) -> list[int]:
    """The ways that weren't taken."""
    return [way for way in fork.ways if way != fork.taken]
