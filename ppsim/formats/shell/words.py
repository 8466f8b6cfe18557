"""Words of a shell script, as the shell would build them, without running anything.

Quotes, continuations and comments are those of POSIX and bash; of expansions those that a text alone answers:
``$NAME``, ``${NAME:-default}`` and its kin, ``${ARRAY[@]}``, ``$((arithmetic))`` of whole numbers. All else (``$1``,
``$(date)``, a variable of the environment) stays in the word as it is written, and the word names it as missing.
``shlex`` of the standard library can't do this: it forgets which part of a word was quoted, and how.
Source: POSIX.1-2017, Shell Command Language, sections 2.2 (quoting) and 2.6 (expansions).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from ppsim.errors import FormatError, printable
from ppsim.formats.shell.arithmetic import value_of

MAX_DEPTH = 40
"""How deep defaults may nest, as in ``${A:-${B:-1}}``."""
WORD_END = " \t\r\n;&|<>()"
_PLAIN = re.compile(r"""[^\\'"$`\s;&|<>()]+|[^\S \t\r\n]+""")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])(\[[@*]\])?(?:(:?[-=?+])(.*))?", re.DOTALL)


class Missing(NamedTuple):
    """What the text doesn't tell: an expansion as written, where, and why; ``name`` where a value could be given."""

    text: str
    line: int
    why: str
    name: str | None = None
    unset: bool = False
    """Whether the name has no value at all, so that a default is taken."""


class Piece(NamedTuple):
    """A part of a word that comes from one line. Blanks of one that ``splits`` end the word."""

    text: str
    line: int
    splits: bool = False
    missing: Missing | None = None


class Word(NamedTuple):
    """A word, the line that it begins on, what in it is missing, and whether a ``|`` or ``(`` follows at once."""

    text: str
    line: int
    missing: tuple[Missing, ...] = ()
    cut: bool = False


class Variables(Protocol):
    """Where the values of names come from."""

    def value(self, name: str, text: str, line: int) -> Sequence[Sequence[Piece]] | Missing:
        """The elements of a variable (one, if it is no array), or why they aren't known."""

    def spend(self, characters: int, line: int) -> None:
        """Account for what an expansion adds, so that a few lines can't grow without bounds."""


def fields(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """The words that pieces make, once unquoted expansions are split at their blanks."""
    word: list[Piece] | None = None
    for piece in pieces:
        if not piece.splits:
            word = [] if word is None else word
            word.append(piece)
            continue
        for index, run in enumerate(re.split(r"[ \t\n]+", piece.text)):
            if index and word is not None:
                yield word
                word = None
            if run:
                word = [] if word is None else word
                word.append(piece._replace(text=run, splits=False))
    if word is not None:
        yield word


def joined(pieces: Sequence[Piece], cut: bool = False) -> Word:
    """A word of pieces."""
    missing = dict.fromkeys(piece.missing for piece in pieces if piece.missing is not None)
    return Word("".join(piece.text for piece in pieces), pieces[0].line, tuple(missing), cut)


class Scanner:
    """Reads words from a place in a text on. Raises FormatError, 'line: what', for a quote that never ends."""

    def __init__(self, text: str, variables: Variables, line: int = 1, depth: int = 0) -> None:
        self.text, self.variables, self.line, self.depth = text, variables, line, depth
        self.at = 0

    @property
    def ahead(self) -> str:
        """The next character; empty at the end."""
        return self.text[self.at : self.at + 1]

    def word(self) -> list[Piece]:
        """The pieces of the word that begins here."""
        out: list[Piece] = []
        self._read(WORD_END, False, out)
        return out

    def blanks(self) -> None:
        """Pass over blanks, continuations and a comment; at most up to the end of the line."""
        while self.at < len(self.text):
            if self.text.startswith("\\\n", self.at):
                self.skip(2)
            elif self.ahead in " \t\r":
                self.at += 1
            elif self.ahead == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def pass_over(self, opening: str, closing: str, quoted: bool = False) -> str:
        """Go past the closing bracket of one that has just been opened; what was inside."""
        start, line, open_ = self.at, self.line, 1
        while self.at < len(self.text):
            c = self.ahead
            if c == "\\":
                self.skip(2)
                continue
            if c in "'\"" and not (quoted and c == "'"):
                self._quote(c)
                continue
            open_ += (c == opening) - (c == closing)
            self.skip(1)
            if not open_:
                return self.text[start : self.at - 1]
        raise FormatError(f"{line}: '{opening}' opens here and is never closed")

    def _quote(self, mark: str) -> str:
        """Go past a quoted part; what was inside, as written."""
        line, start = self.line, self.at + 1
        self.at += 1
        while self.at < len(self.text) and self.ahead != mark:
            self.skip(2 if self.ahead == "\\" and mark != "'" else 1)
        if self.at >= len(self.text):
            raise FormatError(f"{line}: the quote {mark} that opens here never ends")
        self.at += 1
        return self.text[start : self.at - 1]

    def skip(self, count: int) -> None:
        """Go on by so many characters."""
        self.line += self.text.count("\n", self.at, self.at + count)
        self.at += count

    def _read(self, until: str, quoted: bool, out: list[Piece]) -> None:
        while self.at < len(self.text) and self.ahead not in until:
            c = self.ahead
            if c == "\\":
                after = self.text[self.at + 1 : self.at + 2]
                literal = after if not quoted or after in '$`"\\' else c + after
                if after != "\n":
                    out.append(Piece(literal, self.line))
                self.skip(2)
            elif c == "'" and not quoted:
                self._literal(self._quote(c), self.line, out)
            elif c == '"':
                self._double(out)
            elif c == "$":
                self._expansion(quoted, out)
            elif c == "`":
                line, text = self.line, self._quote(c)
                out.append(_missing(f"`{text}`", line, "a command, which isn't run"))
            else:
                run = _PLAIN.match(self.text, self.at)
                text = run[0] if run else c
                out.append(Piece(text, self.line))
                self.skip(len(text))

    def _literal(self, text: str, end_line: int, out: list[Piece]) -> None:
        """Quoted text, a piece for each line, so that its words know theirs."""
        first = end_line - text.count("\n")
        out.extend(Piece(part, first + i) for i, part in enumerate(text.splitlines(keepends=True) or [""]))

    def _double(self, out: list[Piece]) -> None:
        line, before, start = self.line, len(out), self.at + 1
        self.at += 1
        self._read('"', True, out)
        if self.at >= len(self.text):
            raise FormatError(f'{line}: the quote " that opens here never ends')
        self.at += 1
        if len(out) == before and not re.fullmatch(r"\$\{\w+\[@\]\}", self.text[start : self.at - 1]):
            out.append(Piece("", line))

    def _expansion(self, quoted: bool, out: list[Piece]) -> None:
        start, line = self.at, self.line
        self.at += 1
        if self.text.startswith("((", self.at):
            self.at += 2
            inside = self.pass_over("(", ")").strip()
            if self.ahead == ")":
                self.at += 1
                out.append(self._arithmetic(inside, line, self.text[start : self.at]))
            else:  # a command that begins with a subshell, as in $((a) | b)
                self.pass_over("(", ")")
                out.append(_missing(self.text[start : self.at], line, "a command, which isn't run"))
        elif self.ahead == "(":
            self.at += 1
            self.pass_over("(", ")")
            out.append(_missing(self.text[start : self.at], line, "a command, which isn't run"))
        elif self.ahead == "{":
            self.at += 1
            inside = self.pass_over("{", "}", quoted)
            self._braced(inside, line, self.text[start : self.at], quoted, out)
        elif self.ahead == "'" and not quoted:
            self._quote("'")
            out.append(_missing(self.text[start : self.at], line, "text with escapes, which aren't read"))
        elif name := _NAME.match(self.text, self.at):
            self.at = name.end()
            self._insert(name[0], None, quoted, self.text[start : self.at], line, out)
        elif self.ahead != '"' or quoted:
            out.append(Piece("$", line))

    def _braced(self, inside: str, line: int, text: str, quoted: bool, out: list[Piece]) -> None:
        form = _BRACED.fullmatch(inside)
        if form is None:
            out.append(_missing(text, line, "an expansion that isn't read"))
            return
        name, every, operator, word = form.groups()
        if operator is None:
            self._insert(name, every, quoted, text, line, out)
            return
        found = self.variables.value(name, text, line)
        if isinstance(found, Missing):
            empty = True
        else:
            empty = operator[0] == ":" and not any(piece.text for part in found for piece in part)
        if (isinstance(found, Missing) and not found.unset) or (empty and operator[-1] == "?"):
            self._insert(name, every, quoted, text, line, out)
        elif empty != (operator[-1] == "+"):
            self._inside(word, line, quoted, out)
        elif operator[-1] != "+":
            self._insert(name, every, quoted, text, line, out)

    def _inside(self, word: str, line: int, quoted: bool, out: list[Piece]) -> None:
        """A default's text, which may hold quotes and expansions of its own."""
        if self.depth >= MAX_DEPTH:
            raise FormatError(f"{line}: expansions are nested deeper than {MAX_DEPTH} levels")
        self.variables.spend(len(word), line)
        found: list[Piece] = []
        Scanner(word, self.variables, line, self.depth + 1)._read("", quoted, found)
        out.extend(piece._replace(splits=not quoted and piece.missing is None) for piece in found)

    def _insert(self, name: str, every: str | None, quoted: bool, text: str, line: int, out: list[Piece]) -> None:
        found = self.variables.value(name, text, line)
        if isinstance(found, Missing):
            out.append(Piece(text, line, missing=found))
            return
        for index, element in enumerate(found if every else found[:1]):
            if index:
                out.append(Piece(" ", line, splits=every == "[@]" or not quoted))
            self.variables.spend(1 + sum(1 + len(piece.text) for piece in element), line)
            out.extend(piece._replace(splits=not quoted and piece.missing is None) for piece in element)

    def _arithmetic(self, inside: str, line: int, text: str) -> Piece:
        operands: list[Piece] = []
        if self.depth < MAX_DEPTH:
            Scanner(inside, self.variables, line, self.depth + 1)._read("", True, operands)
        if missing := next((piece.missing for piece in operands if piece.missing is not None), None):
            return Piece(text, line, missing=missing)

        def lookup(name: str) -> str | Missing:
            found = self.variables.value(name, f"${name}", line)
            if isinstance(found, Missing):
                return found
            parts = found[0] if found else ()
            return next((piece.missing for piece in parts if piece.missing), "".join(piece.text for piece in parts))

        result = value_of("".join(piece.text for piece in operands), lookup)
        if isinstance(result, Missing):
            return Piece(text, line, missing=result)
        if result is None:
            return _missing(text, line, "arithmetic that isn't read")
        return Piece(str(result), line)


def _missing(text: str, line: int, why: str) -> Piece:
    """A hole in a word, with its text as written, on one line."""
    shown = printable(text if len(text) <= 60 else f"{text[:60]}…")
    return Piece(text, line, missing=Missing(shown, line, why))
