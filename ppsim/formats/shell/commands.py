"""Simple commands: what they assign, what they define, and the commands that are written inside their words."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ppsim.errors import FormatError
from ppsim.formats.shell.assignments import Assignments
from ppsim.formats.shell.conditions import Undecided
from ppsim.formats.shell.grammar import Source
from ppsim.formats.shell.lines import Lines
from ppsim.formats.shell.pieces import Piece, fields, hole, joined, lost, text_of
from ppsim.formats.shell.state import Command
from ppsim.formats.shell.words import Scanner

if TYPE_CHECKING:
    from tree_sitter import Node

Flow = str | None
"""What ends the statements that follow: exit, return, break or continue."""
MAX_DEPTH = 20
_REDIRECTS = re.compile(r"<<<|<<-|<<|<>|<&|<\(|&>>|&>|>>|>&|>\||>\(|[<>]")
NAMES = {".": "source", "[": "test", ":": "true", "typeset": "declare", "readonly": "declare", "readarray": "mapfile"}
"""Names of the shell's own commands that stand for another, or that can't be a method's."""
_DECLARES = {"export", "declare", "local", "readonly", "typeset"}
_SHELLS = {"bash", "sh", "zsh", "dash"}
_PREFIXES = {"exec", "nohup", "command", "builtin", "time", "sudo", "nice"}
_HERE = re.compile(r"^(?:`pwd`|\$\(pwd\)|\$\{?PWD\}?)/+")
_SUCCEED = {
    "cd",
    "echo",
    "mkdir",
    "printf",
    "pushd",
    "popd",
    "ulimit",
    "trap",
    "set",
    "shopt",
    "module",
    "wait",
    "true",
    ":",
}


class Simple(NamedTuple):
    """A simple command as it is read: its words, what stands before it, and where its output goes."""

    words: list[list[Piece]]
    cut: list[bool]
    writes: tuple[str, bool] | None = None
    """A file, and whether it is appended to."""
    document: tuple[Piece, ...] | None = None


class Commands(Assignments):
    """Follows simple commands."""

    def run(self, source: Source) -> Flow:
        """Follow a text to its end."""
        raise NotImplementedError

    def word_at(self, at: int) -> list[Piece]:
        """The pieces of the word at a place of the text."""
        return Scanner(self.source.text, self, self.source.lines, at=at).word()

    def words_at(self, at: int) -> list[list[Piece]]:
        """The words from a place of the text to the end of the command there."""
        return self._scanned(Scanner(self.source.text, self, self.source.lines, at=at), False).words

    def simple(self, at: int) -> Flow:
        """Follow the command at a place of the text."""
        before = self.state.variables
        scanner = Scanner(self.source.text, self, self.source.lines, at=at)
        names = self._assignments(scanner)
        command = self._scanned(scanner, True)
        if not command.words:
            self.status = True
            return None
        if names:  # A=1 command: for that command alone
            exported, self.state.exported = self.state.exported, self.state.exported | set(names)
            flow = self._do(command)
            self.state.exported = exported
            self.state.variables = {
                n: before[n] if n in names and n in before else v
                for n, v in self.state.variables.items() if n not in names or n in before
            }  # fmt: skip
            return flow
        return self._do(command)

    def _assignments(self, scanner: Scanner) -> list[str]:
        """Do the assignments that stand at the beginning; their names."""
        names: list[str] = []
        if self.assignment_ahead(scanner):
            self.state.variables = dict(self.state.variables)
        while found := self.assignment_ahead(scanner):
            self.assigned(scanner, found)
            names.append(found[1])
            scanner.blanks()
        return names

    def _scanned(self, scanner: Scanner, effects: bool) -> Simple:
        """The words up to the end of the command, its redirections, and what it declares."""
        words: list[list[Piece]] = []
        cut: list[bool] = []
        writes: tuple[str, bool] | None = None
        documents: list[tuple[str, bool, bool]] = []
        document: tuple[Piece, ...] | None = None
        while True:
            scanner.blanks()
            redirect = _REDIRECTS.match(scanner.text, scanner.at)
            if redirect and (redirect[0][0] != "&" or effects):
                scanner.at = redirect.end()
                if redirect[0][-1] == "(":
                    scanner.pass_over("(", ")")
                    continue
                scanner.blanks()
                raw = scanner.at
                target = scanner.word()
                if redirect[0] in ("<<", "<<-"):
                    quoted = bool(set(scanner.text[raw : scanner.at]) & set("'\"\\"))
                    documents.append((text_of(target), redirect[0] == "<<-", quoted))
                elif redirect[0] == "<<<":
                    document = tuple(target)
                elif redirect[0][0] == ">" and redirect[0] != ">&":
                    writes = (text_of(target), redirect[0] == ">>")
                continue
            if scanner.ahead in ("", "\n", ";", "|", "&", ")", "("):
                break
            if effects and words and text_of(words[0]) in _DECLARES and (found := self.assignment_ahead(scanner)):
                self.assigned(scanner, found)
                words.append([Piece(found[1], scanner.line)])
                cut.append(False)
                continue
            pieces = scanner.word()
            if text_of(pieces).isdigit() and scanner.ahead and scanner.ahead in "<>" and not pieces[0].quoted:
                continue
            made = list(fields(pieces))
            words.extend(made)
            cut.extend([False] * len(made))
            if made:
                cut[-1] = bool(scanner.ahead) and scanner.ahead in "|("
        for mark, tabs, quoted in documents:
            document = self._document(scanner, mark, tabs, quoted)
        return Simple(words, cut, writes, document)

    def _document(self, scanner: Scanner, mark: str, tabs: bool, quoted: bool) -> tuple[Piece, ...]:
        """The here-document that follows the line."""
        text = scanner.text
        start = text.find("\n", scanner.at) + 1 or len(text)
        end = re.compile(rf"^{'[	]*' if tabs else ''}{re.escape(mark)}$", re.MULTILINE).search(text, start)
        scanner.at = end.end() if end else len(text)
        body = text[start : end.start() if end else len(text)]
        if tabs:
            body = re.sub(r"^\t+", "", body, flags=re.MULTILINE)
        first = self.source.lines.at(start)
        if quoted:
            return tuple(Piece(part, first + i, quoted=True) for i, part in enumerate(body.splitlines(keepends=True)))
        try:
            return tuple(Scanner(body, self, Lines.of(body, first, getattr(first, "label", None))).document())
        except FormatError:  # what a shell would complain of, too, but go on
            return (hole(body, first, "a here-document that isn't read"),)

    def _do(self, command: Simple) -> Flow:
        """Follow a command by its name."""
        texts = [text_of(word) for word in command.words]
        while texts[0] in _PREFIXES and len(texts) > 1 and not texts[1].startswith("-"):
            texts, command = texts[1:], command._replace(words=command.words[1:], cut=command.cut[1:])
        name, self.status = texts[0], True
        if name in self.state.functions:
            return self._call(command.words)
        builtin: Callable[[list[str], Simple], Flow] | None = getattr(self, f"do_{NAMES.get(name, name)}", None)
        if builtin is not None:
            return builtin(texts, command)
        if command.writes is not None and name in ("echo", "cat", "printf"):
            self._written(texts, command)
        if name not in _SUCCEED:
            line = command.words[0][0].line if command.words[0] else 0
            self.status = Undecided((lost(" ".join(texts)[:60], line, "a command, which isn't run"),))
        matters = self.launches(texts)
        if (not matters and self._inside(texts, command)) or not (matters or name.startswith("--")):
            return None
        words = tuple(joined(word, cut) for word, cut in zip(command.words, command.cut, strict=True))
        self.add(Command(words, self.loops))
        return None

    def _inside(self, texts: list[str], command: Simple) -> bool:
        """Follow the command that is written inside the words of another; whether there is one."""
        shell = next((i for i, text in enumerate(texts) if posixpath.basename(text) in _SHELLS), None)
        for index, text in enumerate(texts):
            if text.startswith("--wrap="):
                return self._nested(command.words[index], len("--wrap="))
            carried = shell is not None and index > shell and re.fullmatch(r"-[a-z]*c", text)
            if (carried or text == "--wrap" or (texts[0] == "su" and text == "-c")) and index + 1 < len(texts):
                return self._nested(command.words[index + 1])
        if texts[0] in ("ssh", "pdsh", "docker", "kubectl") and re.search(r"\s--", texts[-1]):
            return self._nested(command.words[-1])
        if shell is not None and command.document is not None and shell == len(texts) - 1:
            return self._nested(command.document)
        first = len(texts) if shell is None else shell + 1
        named = next((i for i in range(first, len(texts)) if not texts[i].startswith("-")), None)
        if named is None:
            submits = texts[0] in ("sbatch", "srun") or texts[0].endswith(".sh")
            named = (
                next((i for i, t in enumerate(texts) if t.endswith((".sh", ".slurm", ".sbatch"))), None)
                if submits
                else None
            )
        return named is not None and self._script(texts[named], command.words[named + 1 :])

    def _nested(self, pieces: Sequence[Piece], skip: int = 0, exported: bool = True) -> bool:
        """Follow a text that words make, whose variables are those that a new shell would see."""
        starts, at, text = [(0, pieces[0].line if pieces else 0)], 0, text_of(pieces)[skip:]
        for piece in pieces:
            starts.append((max(0, at - skip), piece.line))
            at += len(piece.text)
        self._enter(lambda: self.run(Source(text, self.source.label, Lines(starts))), exported)
        return True

    def _script(self, path: str, arguments: list[list[Piece]]) -> bool:
        """Follow another script that is there, or that this one writes."""
        source = self.file(path)
        if source is None:
            return False

        def body() -> Flow:
            self.state.arguments = arguments
            return self.run(source)

        self._enter(body, True)
        return True

    def file(self, path: str) -> Source | None:
        """Another script, if it is there."""
        path = _HERE.sub("", path)
        pieces = self.state.files.get(path)
        text = text_of(pieces) if pieces is not None else self.load(path) if self.load is not None else None
        return None if text is None else Source(text, path, Lines.of(text, 1, path))

    def _enter(self, body: Callable[[], Flow], exported: bool) -> Flow:
        """Follow in a shell of its own: what it assigns ends with it."""
        if self.depth >= MAX_DEPTH:
            raise FormatError(f"0: scripts and functions are nested deeper than {MAX_DEPTH} levels")
        self.depth += 1
        before = self.state.copy()
        if exported:
            self.state.variables = {n: v for n, v in before.variables.items() if n in before.exported}
        flow = body()
        before.commands, before.files = self.state.commands, self.state.files
        self.state = before
        self.depth -= 1
        return flow

    def apart(self, body: Callable[[], Flow]) -> None:
        """Follow in a subshell."""
        self._enter(body, False)

    def _call(self, words: list[list[Piece]]) -> Flow:
        """Follow a function with its arguments."""
        if self.depth >= MAX_DEPTH:
            raise FormatError(f"{words[0][0].line}: functions are nested deeper than {MAX_DEPTH} levels")
        source, body = self.state.functions[text_of(words[0])]
        outer, arguments, locals_ = self.source, self.state.arguments, self.locals
        before = self.state.variables.copy()
        self.source, self.state.arguments, self.depth, self.locals = source, words[1:], self.depth + 1, set()
        flow = self.follow(body)
        for name in self.locals:
            self.state.variables.pop(name, None)
            self.state.variables.update({name: before[name]} if name in before else {})
        self.source, self.state.arguments, self.depth, self.locals = outer, arguments, self.depth - 1, locals_
        return flow if flow == "exit" else None

    def follow(self, body: Node | None) -> Flow:
        """Follow the statements inside a node."""
        raise NotImplementedError

    def _written(self, texts: list[str], command: Simple) -> None:
        path, append = command.writes or ("", False)
        if texts[0] == "cat":
            pieces = command.document
        else:
            words = command.words[2 if texts[1:2] in (["-e"], ["-n"]) else 1 :]
            pieces = tuple(p for i, word in enumerate(words) for p in ([Piece(" ", 0)] if i else []) + word)
            pieces = (*pieces, Piece("\n", 0))
        if pieces is not None:
            self.state.files[path] = (*(self.state.files.get(path, ()) if append else ()), *pieces)
