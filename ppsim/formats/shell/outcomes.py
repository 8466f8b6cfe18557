"""Every way through a script that matters: one, and each that leaves it at an undecided condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ppsim.formats.shell.grammar import Source
from ppsim.formats.shell.script import Script, followed
from ppsim.formats.shell.state import Fork

MAX_WAYS = 48


class Outcome(NamedTuple):
    """A way through the script, and the forks that lead to it instead of to the first: none for that one itself."""

    script: Script
    forks: tuple[Fork, ...] = ()


def outcomes(
    text: str,
    label: str,
    fixed: Mapping[str, str],
    launches: Callable[[Sequence[str]], bool],
    load: Callable[[str], str | None] | None = None,
) -> Iterator[Outcome]:
    """The first way through a script, then those on which one condition goes otherwise, and one on which all do.

    What only two such conditions together would change is seen if all others may change along. Raises FormatError.
    """
    source = Source(text, label)
    first = followed(source, fixed, launches, load)
    yield Outcome(first)
    waiting: list[tuple[tuple[Fork, ...], dict[tuple[str, int], int]]] = []
    waiting += [((fork,), {fork.key: way}) for fork in first.forks for way in _others(fork)]
    if len(first.forks) > 1:
        waiting.append((tuple(first.forks), {f.key: (_others(f) or [f.taken])[-1] for f in first.forks}))
    seen = {fork.key for fork in first.forks}
    for forks, decisions in waiting:
        script = followed(source, fixed, launches, load, decisions)
        yield Outcome(script, forks)
        for fork in script.forks:  # conditions that this way alone has
            if fork.key not in seen and len(waiting) < MAX_WAYS:
                seen.add(fork.key)
                waiting.extend(((*forks, fork), {**decisions, fork.key: way}) for way in _others(fork))


def _others(fork: Fork) -> list[int]:
    """The ways that weren't taken."""
    return [way for way in fork.ways if way != fork.taken]
