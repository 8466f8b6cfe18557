"""Assignments: of a text, an element, an array, or a map."""

from __future__ import annotations

import re

from ppsim.errors import FormatError
from ppsim.formats.shell.pieces import Piece, fields, text_of
from ppsim.formats.shell.state import unknown
from ppsim.formats.shell.variables import Values
from ppsim.formats.shell.words import Scanner

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]\n]*\])?(\+?)=")


class Assignments(Values):
    """Does assignments."""

    def assignment_ahead(self, scanner: Scanner) -> re.Match[str] | None:
        """An assignment that begins here: name, index, and ``+``."""
        return _ASSIGNMENT.match(scanner.text, scanner.at)

    def assigned(self, scanner: Scanner, found: re.Match[str]) -> None:
        """Do the assignment that has been found, and go past it."""
        name, index, append = found[1], found[2], found[3] == "+"
        line = scanner.line
        scanner.at = found.end()
        before = self.state.variables.get(name, [])
        if scanner.ahead == "(" and index is None:
            scanner.at += 1
            elements, keyed = self._array(scanner, line)
            if keyed is not None:
                self.state.maps[name] = {**(self.state.maps.get(name, {}) if append else {}), **keyed}
                return
            self.state.variables[name] = [*before, *elements] if append else elements
            return
        value = scanner.word()
        if index is not None:
            self._assign_element(name, index[1:-1], value, line)
        else:
            self.state.variables[name] = [[*before[0], *value], *before[1:]] if append and before else [value]
            if self.exports_all:
                self.state.exported |= {name}

    def _assign_element(self, name: str, index: str, value: list[Piece], line: int) -> None:
        if name in self.state.maps:
            key = text_of(Scanner(index, self, line).word(""))
            self.state.maps[name] = {**self.state.maps[name], key: value}
            return
        at = Scanner("", self, line).arithmetic(index, line, index)
        elements = [list(element) for element in self.state.variables.get(name, [])]
        if at.missing is not None or not 0 <= int(at.text) <= len(elements):
            self.state.variables[name] = unknown(name, line, f"assigned element by element (line {line})")
            return
        elements[int(at.text) : int(at.text) + 1] = [value]
        self.state.variables[name] = elements

    def _array(self, scanner: Scanner, line: int) -> tuple[list[list[Piece]], dict[str, list[Piece]] | None]:
        elements: list[list[Piece]] = []
        keyed: dict[str, list[Piece]] = {}
        while True:
            scanner.blanks()
            if not scanner.ahead:
                raise FormatError(f"{line}: the list that '(' opens here is never closed")
            if scanner.ahead == ")":
                scanner.at += 1
                return elements, keyed or None
            if scanner.ahead in "\n;&|<>(":
                if scanner.ahead != "\n":
                    raise FormatError(
                        f"{scanner.line}: '{scanner.ahead}' stands in a list without quotes, where the shell takes it "
                        "for an operator; quote the word"
                    )
                scanner.at += 1
            elif key := re.compile(r"\[([^\]\n]+)\]=").match(scanner.text, scanner.at):
                scanner.at = key.end()
                keyed[text_of(Scanner(key[1], self, line).word(""))] = scanner.word()
            else:
                elements.extend(fields(scanner.word()))
