"""Words of a shell script, as the shell would build them, without running anything.

Quotes, continuations and comments are those of POSIX and bash; of expansions those that a text alone answers (see
``parameters`` and ``arithmetic``). All else (``$1``, ``$(date)``, a variable of the environment) stays in the word as
it is written, and the word names it as missing.
Source: POSIX.1-2017, Shell Command Language, sections 2.2 (quoting) and 2.6 (expansions).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ppsim.errors import FormatError
from ppsim.formats.shell.arithmetic import value_of
from ppsim.formats.shell.lines import Lines
from ppsim.formats.shell.pieces import Missing, Piece, Spot, Variables, hole, missing_in, text_of

MAX_DEPTH = 40
"""How deep defaults may nest, as in ``${A:-${B:-1}}``."""
WORD_END = " \t\r\n;&|<>()"
_PLAIN = re.compile(r"""[^\\'"$`\s;&|<>(){]+|[^\S \t\r\n]+""")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_BRACES = re.compile(r"\{(?:[^\s{}'\"$`;&|<>()]*,[^\s{}'\"`;&|<>()]*|-?\d+\.\.-?\d+)\}")
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "r": "\r"}


class Scanner:
    """Reads words from a place in a text on. Raises FormatError, 'line: what', for a quote that never ends."""

    def __init__(self, text: str, variables: Variables, lines: Lines | int = 1, depth: int = 0, at: int = 0) -> None:
        self.text, self.variables, self.depth, self.at = text, variables, depth, at
        self._lines = lines if isinstance(lines, Lines) else None
        self._line = lines if isinstance(lines, int) else 0

    @property
    def ahead(self) -> str:
        """The next character; empty at the end."""
        return self.text[self.at : self.at + 1]

    @property
    def line(self) -> int:
        """The line of the next character."""
        return self._line if self._lines is None else self._lines.at(self.at)

    def word(self, until: str = WORD_END) -> list[Piece]:
        """The pieces of the word that begins here."""
        out: list[Piece] = []
        self._read(until, False, out)
        return out

    def document(self) -> list[Piece]:
        """The pieces of the whole text as that of a here-document, in which quotes mean nothing."""
        return self.rest(quotes=False)

    def rest(self, quotes: bool = True) -> list[Piece]:
        """The pieces of the whole text as if it stood inside double quotes."""
        out: list[Piece] = []
        self._read("", True, out, quotes=quotes)
        return out

    def blanks(self) -> None:
        """Pass over blanks, continuations and a comment; at most up to the end of the line."""
        while self.at < len(self.text):
            if self.text.startswith("\\\n", self.at):
                self.at += 2
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
                self.at += 2
                continue
            if c in "'\"" and not (quoted and c == "'"):
                self._quote(c)
                continue
            open_ += (c == opening) - (c == closing)
            self.at += 1
            if not open_:
                return self.text[start : self.at - 1]
        raise FormatError(f"{line}: '{opening}' opens here and is never closed")

    def _quote(self, mark: str) -> str:
        """Go past a quoted part; what was inside, as written."""
        line, start = self.line, self.at + 1
        self.at += 1
        while self.at < len(self.text) and self.ahead != mark:
            self.at += 2 if self.ahead == "\\" and mark != "'" else 1
        if self.at >= len(self.text):
            raise FormatError(f"{line}: the quote {mark} that opens here never ends")
        self.at += 1
        return self.text[start : self.at - 1]

    def _read(self, until: str, quoted: bool, out: list[Piece], quotes: bool = True) -> None:
        while self.at < len(self.text) and self.ahead not in until:
            c = self.ahead
            if c == "\\":
                self._escape(quoted, quotes, out)
            elif c == "'" and not quoted:
                self._literal(self._quote(c), out)
            elif c == '"' and quotes:
                self._double(out)
            elif c == "$":
                self._expansion(quoted, out)
            elif c == "`":
                line, text = self.line, self._quote(c)
                self._output(text.replace("\\`", "`"), f"`{text}`", line, quoted, out)
            elif c == "{" and not quoted and (found := _BRACES.match(self.text, self.at)):
                out.append(hole(found[0], self.line, "braces that make several words, which isn't read"))
                self.at = found.end()
            else:
                run = _PLAIN.match(self.text, self.at)
                text = run[0] if run else c
                out.append(Piece(text, self.line, quoted=quoted))
                self.at += len(text)

    def _escape(self, quoted: bool, quotes: bool, out: list[Piece]) -> None:
        after = self.text[self.at + 1 : self.at + 2]
        plain = not quoted or after in ('$`"\\' if quotes else "$`\\")
        if after != "\n":
            out.append(Piece(after if plain else f"\\{after}", self.line, quoted=True))
        self.at += 2

    def _literal(self, text: str, out: list[Piece]) -> None:
        """Quoted text that has just been passed, a piece for each line, so that its words know theirs."""
        at = self.at - 1 - len(text)
        for part in text.splitlines(keepends=True) or [""]:
            line = self._line if self._lines is None else self._lines.at(at)
            out.append(Piece(part, line, quoted=True))
            at += len(part)

    def _double(self, out: list[Piece]) -> None:
        line, before, start = self.line, len(out), self.at + 1
        self.at += 1
        self._read('"', True, out)
        if self.at >= len(self.text):
            raise FormatError(f'{line}: the quote " that opens here never ends')
        self.at += 1
        if len(out) == before and not re.fullmatch(r"\$(@|\{(\w+\[@\]|@)\})", self.text[start : self.at - 1]):
            out.append(Piece("", line, quoted=True))

    def _expansion(self, quoted: bool, out: list[Piece]) -> None:
        start, line = self.at, self.line
        self.at += 1
        if self.text.startswith("((", self.at):
            self.at += 2
            inside = self.pass_over("(", ")").strip()
            if self.ahead == ")":
                self.at += 1
                out.append(self.arithmetic(inside, line, self.text[start : self.at]))
            else:  # a command that begins with a subshell, as in $((a) | b)
                self.pass_over("(", ")")
                out.append(hole(self.text[start : self.at], line, "a command, which isn't run"))
        elif self.ahead == "(":
            self.at += 1
            inside = self.pass_over("(", ")")
            self._output(inside, self.text[start : self.at], line, quoted, out)
        elif self.ahead == "{":
            self.at += 1
            inside = self.pass_over("{", "}", quoted)
            self._insert(inside, quoted, (self.text[start : self.at], line), out)
        elif self.ahead == "'" and not quoted:
            text = self._quote("'")
            out.append(Piece(re.sub(r"\\(.)", lambda e: _ESCAPES.get(e[1], e[0]), text), line, quoted=True))
        elif name := _NAME.match(self.text, self.at):
            self.at = name.end()
            self._insert(name[0], quoted, (self.text[start : self.at], line), out)
        elif self.ahead != '"' or quoted:
            out.append(Piece("$", line, quoted=quoted))

    def _output(self, command: str, text: str, line: int, quoted: bool, out: list[Piece]) -> None:
        found = self.variables.output(command, text, line)
        if isinstance(found, Missing):
            out.append(Piece(text, line, missing=found))
        else:
            out.extend(_inserted(found, quoted))

    def _insert(self, inside: str, quoted: bool, where: tuple[str, int], out: list[Piece]) -> None:
        """Put in what ``$name`` or ``${inside}`` stands for."""
        text, line = where
        plain = _NAME.fullmatch(inside) or inside.isdigit()
        if plain:
            found = self.variables.value(inside, text, line)
        elif self.depth >= MAX_DEPTH:
            raise FormatError(f"{line}: expansions are nested deeper than {MAX_DEPTH} levels")
        else:
            found = self.variables.parameter(inside, Spot(text, line, quoted, self.depth + 1))
        if isinstance(found, Missing):
            out.append(Piece(text, line, missing=found))
            return
        every = inside == "@" or re.search(r"\[@\]|^@", inside) is not None
        for index, element in enumerate(found if every or re.search(r"\[\*\]|^\*$", inside) else found[:1]):
            if index:
                out.append(Piece(" ", line, splits=every or not quoted))
            self.variables.spend(1 + sum(1 + len(piece.text) for piece in element), line)
            out.extend(_inserted(element, quoted))

    def arithmetic(self, inside: str, line: int, text: str) -> Piece:
        """The number that ``$((inside))`` is, or a hole."""
        operands = Scanner(inside, self.variables, line, self.depth + 1).rest() if self.depth < MAX_DEPTH else []
        if missing := missing_in(operands):
            return Piece(text, line, missing=missing)

        def lookup(name: str) -> str | Missing:
            found = self.variables.value(name, f"${name}", line)
            if isinstance(found, Missing):
                return found
            parts = found[0] if found else ()
            return missing_in(parts) or text_of(parts)

        result = value_of(text_of(operands), lookup)
        if isinstance(result, Missing):
            return Piece(text, line, missing=result)
        return hole(text, line, "arithmetic that isn't read") if result is None else Piece(str(result), line)


def _inserted(pieces: Sequence[Piece], quoted: bool) -> Iterator[Piece]:
    """Pieces of a value, which are split where the expansion isn't quoted."""
    for text, line, _, missing, _ in pieces:
        yield Piece(text, line, not quoted and missing is None, missing, quoted)
