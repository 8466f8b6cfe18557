"""A shell script's assignments and commands, read from the top and never run.

What stands under a condition (``if``, ``case``, a loop, a function, after ``&&``) may or may not happen: a variable
that is assigned there is not known afterwards, and words that are appended there are left out and remembered.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ppsim.errors import FormatError
from ppsim.formats.shell.words import Missing, Piece, Scanner, Word, fields, joined

BUDGET = 1_000_000
"""Characters that all expansions of a file may add up to."""
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]\n]*\])?(\+?)=")
_OPERATOR = re.compile(r"<<<|<<-|<<|<>|<&|<\(|&>>|&>|&&|&|>>|>&|>\||>\(|\|\||\|&|;;&|;;|;&|[;|()<>\n]")
_OPENS = {"if", "while", "until", "for", "select", "case", "{"}
_CLOSES = {"fi", "done", "esac", "}"}
_BETWEEN = {"then", "else", "elif", "do", "!", "time"}
_DECLARES = {"export", "declare", "local", "readonly", "typeset"}

Elements = list[list[Piece]]


class Command(NamedTuple):
    """The words of a command, and whether it runs only under a condition."""

    words: tuple[Word, ...]
    conditional: bool


class Script:
    """What a script's text says: ``commands``, ``variables``, and ``skipped``, words appended under a condition.

    ``fixed`` are values that a user gives in place of what the script assigns. Raises FormatError, 'line: what'.
    """

    def __init__(self, text: str, fixed: Mapping[str, str] | None = None) -> None:
        self.commands: list[Command] = []
        self.skipped: list[Word] = []
        self.variables: dict[str, Elements] = {}
        self.fixed = {name: [[Piece(value, 0)]] for name, value in (fixed or {}).items()}
        self.asked: set[str] = set()
        self._uncertain: dict[str, int] = {}
        self._budget = BUDGET
        self._depth = 0
        self._after = ""
        self._scanner = Scanner(text.replace("\r\n", "\n"), self)
        self._documents: list[tuple[str, bool]] = []
        self._read()

    def value(self, name: str, text: str, line: int) -> Sequence[Sequence[Piece]] | Missing:
        """The elements of a variable, or why they aren't known."""
        if name in self.fixed:
            self.asked.add(name)
            return self.fixed[name]
        if name in self._uncertain:
            why = f"assigned under a condition (line {self._uncertain[name]})"
            return Missing(text, line, why, name)
        if name in self.variables:
            return self.variables[name]
        if name.isdigit() and name != "0":
            return Missing(text, line, "an argument of the script", name, unset=True)
        if name in ("@", "*"):
            return Missing(text, line, "the arguments of the script", unset=True)
        if not re.match(r"[A-Za-z_]", name):
            return Missing(text, line, "known only when the script runs")
        return Missing(text, line, "not assigned in this file", name, unset=True)

    def spend(self, characters: int, line: int) -> None:
        """Raise FormatError where expansions have added up to more than any launch script needs."""
        self._budget -= characters
        if self._budget < 0:
            raise FormatError(f"{line}: the variables grow to more than {BUDGET:,} characters")

    def words_of_variables(self) -> Iterator[Word]:
        """What all variables would be without quotes, word by word, in the order of their assignment."""
        return (word for value in self.variables.values() for element in value for word in _loose(element))

    @property
    def _conditional(self) -> bool:
        return self._depth > 0 or self._after in ("&&", "||")

    def _read(self) -> None:
        scanner = self._scanner
        words: list[Word] = []
        assigning, declaring = True, False
        while True:
            scanner.blanks()
            operator = _OPERATOR.match(scanner.text, scanner.at)
            if not scanner.ahead or operator:
                text = operator[0] if operator else ""
                if text and text[0] in "<>&" and text not in ("&", "&&"):
                    self._redirection(text)
                    continue
                opens = text == "(" and assigning and not words
                self._end(words, text)
                words, assigning, declaring = [], True, False
                if not text:
                    return
                if opens and scanner.ahead == "(":
                    scanner.at += 1
                    scanner.pass_over("(", ")")
                    scanner.pass_over("(", ")")
                continue
            assignment = _ASSIGNMENT.match(scanner.text, scanner.at) if assigning or declaring else None
            if assignment:
                scanner.at = assignment.end()
                self._assign(assignment[1], assignment[2] is not None, assignment[3] == "+")
                continue
            pieces = scanner.word()
            text = "".join(piece.text for piece in pieces)
            if text.isdigit() and scanner.ahead and scanner.ahead in "<>":
                continue
            if assigning and not words and self._reserved(text):
                continue
            cut = bool(scanner.ahead) and scanner.ahead in "|("
            found = [joined(word) for word in fields(pieces)]
            if found and cut:
                found[-1] = found[-1]._replace(cut=True)
            declaring = declaring or (assigning and text in _DECLARES)
            assigning = False
            words.extend(found)

    def _reserved(self, text: str) -> bool:
        """Whether it is a word that opens, parts or closes a compound command; what it does is done."""
        scanner = self._scanner
        if text in _OPENS:
            self._depth += 1
            if text in ("for", "select"):
                scanner.blanks()
                line, name = scanner.line, joined(scanner.word() or [Piece("", scanner.line)]).text
                self._forget(name, line)
        elif text in _CLOSES:
            self._depth = max(0, self._depth - 1)
            self._after = ""
        elif text == "[[":
            end = re.compile(r"[^\n]*?(?<=[ \t])\]\](?=[\s;&|)]|$)").match(scanner.text, scanner.at)
            scanner.at = end.end() if end else scanner.at
        elif text == "function":
            scanner.blanks()
            scanner.word()
        else:
            return text in _BETWEEN
        return True

    def _end(self, words: list[Word], operator: str) -> None:
        """A command ends at an operator."""
        if words:
            self.commands.append(Command(tuple(words), self._conditional))
        self._after = operator
        self._scanner.skip(len(operator))
        if operator == "\n":
            for mark, tabs in self._documents:
                self._pass_document(mark, tabs)
            self._documents = []

    def _redirection(self, operator: str) -> None:
        scanner = self._scanner
        scanner.at += len(operator)
        if operator[-1] == "(":
            scanner.pass_over("(", ")")
            return
        scanner.blanks()
        pieces = scanner.word()
        if operator in ("<<", "<<-"):
            self._documents.append(("".join(piece.text for piece in pieces), operator == "<<-"))

    def _pass_document(self, mark: str, tabs: bool) -> None:
        """Go past the lines of a here-document."""
        scanner = self._scanner
        while scanner.at < len(scanner.text):
            end = scanner.text.find("\n", scanner.at)
            end = len(scanner.text) if end < 0 else end
            line = scanner.text[scanner.at : end]
            scanner.skip(min(end + 1, len(scanner.text)) - scanner.at)
            if (line.lstrip("\t") if tabs else line) == mark:
                return

    def _assign(self, name: str, indexed: bool, append: bool) -> None:
        scanner = self._scanner
        line = scanner.line
        if scanner.ahead == "(" and not indexed:
            scanner.at += 1
            value, array = self._array(line), True
        else:
            value, array = [scanner.word()], False
        before = self.variables.get(name, [])
        if indexed:
            self._forget(name, line)
        elif not self._conditional:
            if append and name in self._uncertain:
                return
            self._uncertain.pop(name, None)
            self.variables[name] = _appended(before, value, array) if append else value
        elif append:
            self._skip(value)
        elif array and before and _texts(value[: len(before)]) == _texts(before):
            self._skip(value[len(before) :])  # OPTIONS=("${OPTIONS[@]}" --more)
        elif before and not array and _text(value[0]).startswith(start := _text(before[0])) and start:
            self._skip([_after(value[0], len(start))])  # OPTIONS="$OPTIONS --more"
        elif _texts(before) != _texts(value):
            self._forget(name, line)

    def _array(self, line: int) -> Elements:
        scanner = self._scanner
        elements: Elements = []
        while True:
            scanner.blanks()
            if not scanner.ahead:
                raise FormatError(f"{line}: the list that '(' opens here is never closed")
            if scanner.ahead == ")":
                scanner.at += 1
                return elements
            if scanner.ahead in "\n;&|<>(":
                if scanner.ahead != "\n":
                    raise FormatError(
                        f"{scanner.line}: '{scanner.ahead}' stands in a list without quotes, where the shell takes it "
                        "for an operator; quote the word"
                    )
                scanner.skip(1)
                continue
            elements.extend(fields(scanner.word()))

    def _forget(self, name: str, line: int) -> None:
        self._uncertain.setdefault(name, line)

    def _skip(self, value: Elements) -> None:
        self.skipped.extend(word for element in value for word in _loose(element))


def _loose(pieces: Sequence[Piece]) -> Iterator[Word]:
    """The words of pieces as if they weren't quoted."""
    return (joined(word) for word in fields(piece._replace(splits=piece.missing is None) for piece in pieces))


def _text(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def _texts(elements: Elements) -> list[str]:
    return [_text(element) for element in elements]


def _after(pieces: Sequence[Piece], length: int) -> list[Piece]:
    """The pieces without so many characters at their beginning."""
    kept: list[Piece] = []
    for piece in pieces:
        if len(piece.text) > length:
            kept.append(piece._replace(text=piece.text[length:]))
        length = max(0, length - len(piece.text))
    return kept


def _appended(before: Elements, value: Elements, array: bool) -> Elements:
    if array or not before:
        return [*before, *value]
    return [[*before[0], *value[0]], *before[1:]]


def inner(words: Sequence[Word]) -> list[Word]:
    """The words of a command in whose words another one is written: after ``-c`` or ``eval``, in ``--wrap=``."""
    found: list[Word] = []
    for index, word in enumerate(words):
        text = word.text.removeprefix("--wrap=")
        nested = words[0].text == "eval" or text != word.text or (index and words[index - 1].text in ("-c", "--wrap"))
        found.extend(word._replace(text=part) for part in (_split(text) if nested else [word.text]))
    return found


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
