"""A script's text as a tree of its statements, by the grammar of tree-sitter-bash. Words are read by ``words``.

tree_sitter is imported only where a script is read.
"""

from __future__ import annotations

import re
from functools import cache, cached_property
from typing import TYPE_CHECKING

from ppsim.errors import FormatError
from ppsim.formats.shell.lines import Lines
from ppsim.formats.shell.pieces import Missing
from ppsim.formats.shell.words import Scanner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tree_sitter import Node, Parser

    from ppsim.formats.shell.pieces import Elements, Piece, Spot

_PLACEHOLDER = re.compile(r"^(\s*(?:export\s+)?\w+=[^\s<>'\"]*)(<[^<>\n()&|;'\"]+>)(?=\S*\s*(?:#.*)?$)", re.MULTILINE)
_BRACED = re.compile(r"(?<=\$)\{[^{}'\"`\n]*\}")

_DOCUMENT = re.compile(r"((?<!<)<<-?[ \t]*(['\"\\]?)(\w+)\2[^\n]*\n)(.*?)(^[ \t]*\3$)", re.MULTILINE | re.DOTALL)


class Source:
    """A text, its tree, and which line each of its characters is on. Raises FormatError, 'line: what'."""

    def __init__(self, text: str, label: str, lines: Lines | None = None) -> None:
        text = text.replace("\r\n", "\n")
        if (bare := text.rstrip("\n")).endswith("\\"):
            text = bare[:-1] + "\n"
        self.text = _PLACEHOLDER.sub(r"\1'\2'", text) if lines is None else text
        """With what a template leaves to be filled in, as in ``PATH=<where it is>``, in quotes."""
        self.label, self.lines = label, lines or Lines.of(self.text)
        self.root = _parser().parse(self._skeleton().encode()).root_node
        if self.root.has_error:
            self._check(self.root)

    @cached_property
    def job(self) -> dict[str, str]:
        """What a batch script's header says to Slurm: options by their long name."""
        found: dict[str, str] = {}
        for line in re.findall(r"^#SBATCH[ \t]+(.*)$", self.text, re.MULTILINE):
            for name, value in re.findall(r"(--?[a-zA-Z][\w-]*)[= \t]*([^\s#]*)", line.split(" #")[0]):
                found[_LONG.get(name, name)] = value
        return found

    def environment(self) -> dict[str, str]:
        """Variables that Slurm sets by that header."""
        job = {name: value for name, value in self.job.items() if value.isdigit()}
        nodes, per_node, tasks = (job.get(name) for name in ("--nodes", "--ntasks-per-node", "--ntasks"))
        if tasks is None and nodes and per_node:
            tasks = str(int(nodes) * int(per_node))
        named = {
            "SLURM_NNODES": nodes, "SLURM_JOB_NUM_NODES": nodes, "SLURM_NTASKS": tasks,
            "SLURM_NTASKS_PER_NODE": per_node, "SLURM_GPUS_PER_NODE": job.get("--gpus-per-node"),
            "SLURM_CPUS_PER_TASK": job.get("--cpus-per-task"),
        }  # fmt: skip
        return {name: value for name, value in named.items() if value is not None}

    def _skeleton(self) -> str:
        """The text with what the grammar needn't see as plain letters, a byte for each character."""
        text = re.sub(r"[^\x00-\x7f]", "x", _without_documents(self.text))
        return _BRACED.sub(lambda found: "x" * len(found[0]), text)

    def of(self, node: Node) -> str:
        """A node's text."""
        return self.text[node.start_byte : node.end_byte]

    def line(self, node: Node) -> int:
        """The line that a node begins on."""
        return self.lines.at(node.start_byte)

    def _check(self, node: Node) -> None:
        """Raise FormatError for the first place that is no shell; inside a word it matters only if the word does."""
        for child in node.children:
            if child.type == "ERROR" or child.is_missing:
                text = self.of(child).strip().split("\n")[0][:40]
                where = self.lines.at(child.start_byte)
                _find_what_is_open(_without_documents(self.text), self.lines)
                said = f"near {text!r} " if text else ""
                raise FormatError(f"{where}: {said}this isn't a shell's grammar")
            if child.has_error and child.type not in _WORDS:
                self._check(child)


_WORDS = frozenset(
    ("string", "expansion", "arithmetic_expansion", "command_substitution", "heredoc_body", "concatenation")
)
_LONG = {"-N": "--nodes", "-n": "--ntasks", "-c": "--cpus-per-task", "-J": "--job-name", "-G": "--gpus"}


@cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _without_documents(text: str) -> str:
    """A text with letters in the place of its here-documents, whose quotes mean nothing."""

    def plain(found: re.Match[str]) -> str:
        return found[1] + re.sub(r"[^\n]", "x", found[4]) + found[5]

    return _DOCUMENT.sub(plain, text) if "<<" in text else text


class _Nothing:
    """Variables without values, for a text whose quotes alone matter."""

    def value(self, name: str, text: str, line: int) -> Elements | Missing:
        return Missing(text, line, "")

    def parameter(self, inside: str, spot: Spot) -> Elements | Missing:
        return Missing(spot.text, spot.line, "")

    def output(self, command: str, text: str, line: int) -> Sequence[Piece] | Missing:
        return Missing(text, line, "")

    def spend(self, characters: int, line: int) -> None:
        pass


def _find_what_is_open(text: str, lines: Lines) -> None:
    """Raise FormatError for a quote, bracket or list that is opened and never closed, or an operator in a list."""
    scanner = Scanner(text, _Nothing(), lines)
    listed = 0
    while True:
        scanner.blanks()
        c = scanner.ahead
        if not c:
            break
        if listed and c == ")":
            listed = 0
        elif listed and c in ";&|<>(":
            raise FormatError(
                f"{scanner.line}: '{c}' stands in a list without quotes, where the shell takes it for an operator; "
                "quote the word"
            )
        if c in "\n;&|<>()":
            scanner.at += 1
            continue
        at, line = scanner.at, scanner.line
        scanner.word()
        if scanner.ahead == "(" and text[at : scanner.at].endswith("="):
            listed = line
            scanner.at += 1
    if listed:
        raise FormatError(f"{listed}: the list that '(' opens here is never closed")
