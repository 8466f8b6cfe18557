"""What can go wrong, as one family of exceptions whose message is complete in itself."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, NamedTuple


class PpsimError(Exception):
    """An answer to an input that can't be simulated: where, what, why, and what would work."""


class ConfigError(PpsimError):
    """The experiment is wrong; every mistake is one line of the message."""

    mistakes: tuple[Any, ...] = ()
    """The mistakes one by one, each with ``place`` (the keys that lead to it) and ``message``."""


class ScheduleError(PpsimError):
    """The order of ops is not a legal schedule, or the schedule can't be built for these sizes."""


class DeadlockError(PpsimError):
    """The simulation stopped with ranks still waiting; the message lists them down to the cycle."""


class FormatError(PpsimError):
    """A file in another tool's format can't be read; the message names row and column."""


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """'; did you mean 'x'?' for the nearest of ``choices``, or '' where nothing is near."""
    known = {choice.lower(): choice for choice in choices}
    word = word.lower()
    longer = sorted((choice for choice in known if word and choice.startswith(word)), key=len)
    near = longer or difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean '{known[near[0]]}'?" if near else ""


def printable(text: str) -> str:
    """``text`` on one line with its control characters shown, not obeyed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown(value: object) -> str:
    """A user's ``value`` as a word of a message: short, and ``printable``."""
    if value is None:
        return "an empty value"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = str(value)
    text = printable(text if len(text) <= 60 else f"{text[:60]}…")
    return f"'{text}'" if isinstance(value, str) else text


class Notice(NamedTuple):
    """What is legal but costs something, or has no effect: a row of ``summary.json: warnings``."""

    code: str
    key: str
    message: str
