"""What a launcher is: a function that reads its files, and the marks by which one knows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ppsim.formats._launch import File, Settings
from ppsim.formats.base import file_format

Read = Callable[[File], Settings]


class Launcher(NamedTuple):
    """A kind of launch file."""

    name: str
    what: str
    read: Read
    """Its settings. Raises FormatError, a line for each mistake as ``label:line: what``."""
    marks: tuple[str, ...]
    """Regular expressions that its files match, by name or in their text."""
    suffixes: tuple[str, ...]
    """Endings of its files' names; empty: any that no other launcher claims."""

    def claims(self, text: str, label: str) -> int:
        """How many marks a file has; -1 where it can't be one of this launcher's."""
        ending = re.search(r"\.[a-z0-9]+$", label.lower())
        fits = (ending[0] if ending else "") in self.suffixes if self.suffixes else True
        found = sum(bool(re.search(mark, text, re.MULTILINE)) for mark in self.marks)
        return found + bool(self.suffixes) if fits else -1


LAUNCHERS: dict[str, Launcher] = {}


def launcher(
    name: str, what: str, marks: tuple[str, ...] = (), suffixes: tuple[str, ...] = ()
) -> Callable[[Read], Read]:
    """Register a function as the reader of a launcher's files."""

    def register(read: Read) -> Read:
        LAUNCHERS[name] = Launcher(name, what, read, marks, suffixes)
        file_format(name, does="launch", what=what)(read)
        return read

    return register
