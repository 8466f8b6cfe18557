"""What a script has done so far: its variables, functions, files, and the commands that it would run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ppsim.formats.shell.conditions import Undecided
from ppsim.formats.shell.pieces import Elements, Missing, Piece, Word, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from ppsim.formats.shell.grammar import Source


class Command(NamedTuple):
    """The words of a command, and the loops that it stands in: a name and the values that it takes."""

    words: tuple[Word, ...]
    loops: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Fork(NamedTuple):
    """A condition that isn't decided, though what follows from it differs: where it is, and the way that was taken."""

    key: tuple[str, int]
    line: int
    text: str
    why: Undecided
    ways: tuple[int, ...]
    """The ways that lead on."""
    taken: int


@dataclass
class State:
    """What is true at a place of a script. Values are never changed in place, so that a copy is cheap."""

    variables: dict[str, Elements] = field(default_factory=dict)
    maps: dict[str, Mapping[str, Sequence[Piece]]] = field(default_factory=dict)
    """Associative arrays."""
    exported: frozenset[str] = frozenset()
    functions: dict[str, tuple[Source, Node]] = field(default_factory=dict)
    files: dict[str, tuple[Piece, ...]] = field(default_factory=dict)
    """Files that ``cat`` or ``echo`` writes."""
    arguments: Elements | None = None
    """``$1`` and on; None where only the caller knows them."""
    commands: tuple[Command, ...] = ()

    def copy(self) -> State:
        """One that can go another way."""
        return State(
            dict(self.variables), dict(self.maps), self.exported, dict(self.functions), dict(self.files),
            self.arguments, self.commands,
        )  # fmt: skip

    def changed_since(self, before: State) -> set[str]:
        """Names of variables that have another value."""
        names = self.variables.keys() | before.variables.keys()
        old, new = before.variables, self.variables
        changed = {n for n in names if old.get(n) is not new.get(n) and _texts(old.get(n)) != _texts(new.get(n))}
        return changed | {n for n in self.maps if self.maps[n] is not before.maps.get(n)}

    def same_as(self, other: State) -> bool:
        """Whether what follows can't differ."""
        if self.commands != other.commands and _words(self.commands) != _words(other.commands):
            return False
        return not (
            self.changed_since(other) or other.changed_since(self) or self.functions != other.functions
            or self.files.keys() != other.files.keys()
            or any(text_of(self.files[name]) != text_of(other.files[name]) for name in self.files)
            or _texts(self.arguments) != _texts(other.arguments)
        )  # fmt: skip


def _texts(value: Elements | None) -> list[str | tuple[str, ...]] | None:
    if value is None:
        return None
    return [(text_of(e), *(p.missing.why for p in e if p.missing)) for e in value]


def _words(commands: tuple[Command, ...]) -> list[list[str]]:
    return [[word.text for word in command.words] for command in commands]


def unknown(name: str, line: int, why: str) -> Elements:
    """The value of a variable that isn't known."""
    text = f"${{{name}}}"
    return [[Piece(text, line, missing=Missing(text, line, why, name))]]
