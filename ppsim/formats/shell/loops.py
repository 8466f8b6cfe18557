"""Statements one after another, and loops, which are followed turn by turn where that is decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ppsim.errors import FormatError
from ppsim.formats.shell import parameters
from ppsim.formats.shell.builtins import Builtins
from ppsim.formats.shell.commands import Flow
from ppsim.formats.shell.conditions import Truth, Undecided, negated
from ppsim.formats.shell.grammar import Source
from ppsim.formats.shell.pieces import Missing, Piece, text_of
from ppsim.formats.shell.state import unknown

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_STEPS = 20_000
MAX_TURNS = 64
"""How often a loop is followed."""


class Loops(Builtins):
    """Follows statements in turn, and loops; each kind of statement is a method ``_on_kind``."""

    def run(self, source: Source) -> Flow:
        """Follow a text to its end."""
        before, self.source = self.source, source
        try:
            return self.follow(source.root)
        finally:
            self.source = before

    def follow(self, body: Node | None) -> Flow:
        """Follow the statements inside a node."""
        for child in body.named_children if body is not None else ():
            flow = self.statement(child)
            if flow is not None:
                return flow
        return None

    def statement(self, node: Node) -> Flow:
        """Follow one statement."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise FormatError(f"{self.source.line(node)}: more than {MAX_STEPS:,} commands, loops included, to follow")
        method = getattr(self, f"_on_{node.type}", None)
        if method is not None:
            flow: Flow = method(node)
            return flow
        return None

    def _on_do_group(self, node: Node) -> Flow:
        return self.follow(node)

    _on_else_clause = _on_do_group

    def _on_for_statement(self, node: Node) -> Flow:
        name_node, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        name = self.source.of(name_node) if name_node is not None else "_"
        line = self.source.line(node)
        given = node.children_by_field_name("value")
        if given:
            found = self.words_at(given[0].start_byte)
        else:
            arguments = self.value("@", "$@", line)
            found = (
                [list(e) for e in arguments]
                if not isinstance(arguments, Missing)
                else [[Piece("$@", line, missing=arguments)]]
            )
        if name in self.fixed:
            self.asked.add(name)
            return self._turn(body)
        values = parameters.spelt_out(found)
        if values is None:
            self.state.variables[name] = unknown(name, line, f"takes values (line {line}) that aren't known")
            return self._unknown_turns(body, line, keep=False)
        shown = tuple(text_of(value) for value in values)
        self.loops = (*self.loops, (name, shown))
        flow: Flow = None
        for value in values[:MAX_TURNS]:
            self.state.variables[name] = [value]
            flow = self._turn(body)
            if flow is not None:
                break
        self.loops = self.loops[:-1]
        return None if flow == "break" else flow

    def _turn(self, body: Node | None) -> Flow:
        flow = self.follow(body) if body is not None else None
        return None if flow == "continue" else flow

    def _on_c_style_for_statement(self, node: Node) -> Flow:
        first, condition, last = (self._part(node, field) for field in ("initializer", "condition", "update"))
        line, body = self.source.line(node), node.child_by_field_name("body")
        name = first.partition("=")[0].strip()
        if name in self.fixed:
            self.asked.add(name)
            return self._turn(body)
        if first:
            self.calculated(first, line)
        return self._while(lambda: self.calculated(condition, line) if condition else True, body, line, last)

    def _part(self, node: Node, field: str) -> str:
        found = node.child_by_field_name(field)
        return self.source.of(found) if found is not None else ""

    def _on_while_statement(self, node: Node) -> Flow:
        line, body = self.source.line(node), node.child_by_field_name("body")
        until = self.source.of(node).startswith("until")

        def condition() -> Truth:
            for part in node.children_by_field_name("condition"):
                if part.is_named:
                    self.statement(part)
            return negated(self.status) if until else self.status

        return self._while(condition, body, line)

    def _while(self, condition: Callable[[], Truth], body: Node | None, line: int, last: str = "") -> Flow:
        launched = len(self.state.commands)
        for _ in range(MAX_TURNS):
            holds = condition()
            if isinstance(holds, Undecided):
                parses = any(m.name in ("#", "1", "@") or "getopts" in m.text for m in holds.missing)
                return self._unknown_turns(body, line, keep=parses)
            if not holds:
                return None
            flow = self._turn(body)
            if flow is not None:
                return None if flow == "break" else flow
            if self.launched_since(launched):
                return None
            if last:
                self.calculated(last, line)
        return self._unknown_turns(body, line, keep=False)

    def _unknown_turns(self, body: Node | None, line: int, keep: bool) -> Flow:
        """A loop of unknown turns: what it assigns isn't known, or (``keep``) is as before without options."""
        before = self.state.copy()
        forks, undecided = len(self.forks), len(self.undecided)
        self._turn(body)
        del self.forks[forks:], self.undecided[undecided:]
        for name in self.state.changed_since(before):
            if keep and name in before.variables:
                self.state.variables[name] = before.variables[name]
                self.optional[name] = line
            else:
                why = f"assigned by the script's options (line {line})" if keep else f"assigned in a loop (line {line})"
                self.state.variables[name] = unknown(name, line, why)
        if keep:
            self.state.arguments, self.state.commands = before.arguments, before.commands
        return None
