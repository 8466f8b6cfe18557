"""A shell script followed from the top and never run: which commands it would give to the machine, with which words.

Conditions that the text, or what a user tells, decides are decided. Of one that isn't the ways are followed apart:
where they end alike, or all but one end the script, nothing hangs on it; else one way is taken, and it is remembered as
a ``Fork`` (``outcomes`` follows the other ways, too).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ppsim.formats.shell.commands import Flow
from ppsim.formats.shell.conditions import Truth, Undecided, evaluate, negated, tokens
from ppsim.formats.shell.grammar import Source
from ppsim.formats.shell.loops import Loops
from ppsim.formats.shell.patterns import as_regex, is_plain
from ppsim.formats.shell.pieces import lost, missing_in, text_of
from ppsim.formats.shell.state import Fork, State
from ppsim.formats.shell.words import Scanner

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_STEPS = 20_000
Way = Callable[[], Flow]


class Script(Loops):
    """What a script's text says, followed one way: ``state`` at its end, and ``forks`` on the way.

    ``decisions`` say which way to go at forks. Raises FormatError, 'line: what'.
    """

    def _on_command(self, node: Node) -> Flow:
        return self.simple(node.start_byte)

    _on_variable_assignment = _on_variable_assignments = _on_declaration_command = _on_unset_command = _on_command

    def _on_redirected_statement(self, node: Node) -> Flow:
        body = node.child_by_field_name("body")
        if body is None or body.type == "command":
            return self.simple(node.start_byte)
        return self.statement(body)

    def _on_test_command(self, node: Node) -> Flow:
        self.status = self._tested(node)
        return None

    def _on_negated_command(self, node: Node) -> Flow:
        flow = self.follow(node)
        self.status = negated(self.status)
        return flow

    def _on_compound_statement(self, node: Node) -> Flow:
        if self.source.of(node).startswith("(("):
            self.status = self.calculated(self.source.of(node)[2:-2], self.source.line(node))
            return None
        return self.follow(node)

    def _on_subshell(self, node: Node) -> Flow:
        self.apart(lambda: self.follow(node))
        return None

    def _on_pipeline(self, node: Node) -> Flow:
        for child in node.named_children:
            self.apart(lambda child=child: self.statement(child))  # type: ignore[misc]
        return None

    def _on_list(self, node: Node) -> Flow:
        left, right = node.named_children[0], node.named_children[-1]
        flow = self.statement(left)
        if flow is not None or left == right:
            return flow
        goes_on = self.status if any(child.type == "&&" for child in node.children) else negated(self.status)
        before = self.status

        def rest() -> Flow:
            return self.statement(right)

        def none() -> Flow:
            self.status = before
            return None

        return self._choose(node, goes_on, (rest, none))

    def _on_if_statement(self, node: Node) -> Flow:
        return self._if(node, [child for child in node.children if child.type != "comment"])

    def _if(self, node: Node, parts: list[Node]) -> Flow:
        """``if`` or ``elif`` with what follows it: condition, ``then``, statements, and other clauses."""
        at = next((i for i, part in enumerate(parts) if part.type == "then"), len(parts))
        for part in parts[1:at]:
            if part.is_named and (flow := self.statement(part)) is not None:
                return flow
        clauses = [part for part in parts if part.type in ("elif_clause", "else_clause")]
        inside = [part for part in parts[at + 1 :] if part.is_named and part not in clauses]

        def then() -> Flow:
            return next((flow for part in inside if (flow := self.statement(part)) is not None), None)

        def otherwise() -> Flow:
            if not clauses:
                return None
            if clauses[0].type == "else_clause":
                return self.follow(clauses[0])
            return self._if(clauses[0], [*(c for c in clauses[0].children if c.type != "comment"), *clauses[1:]])

        return self._choose(node, self.status, (then, otherwise))

    def _on_case_statement(self, node: Node) -> Flow:
        value = node.child_by_field_name("value")
        items = [child for child in node.named_children if child.type == "case_item"]
        line = self.source.line(node)
        pieces = self.word_at(value.start_byte) if value is not None else []
        patterns = [self._patterns(item) for item in items]
        missing = missing_in(pieces)

        def way(item: Node) -> Way:
            bodies = [c for c in item.named_children if c not in item.children_by_field_name("value")]
            return lambda: next((flow for part in bodies if (flow := self.statement(part)) is not None), None)

        if missing is None:
            for item, known in zip(items, patterns, strict=True):
                if any(regex is None for regex, _ in known):
                    missing = lost(self.source.of(item).split("\n")[0], line, "a pattern that isn't read")
                    break
                if any(re.fullmatch(regex or "", text_of(pieces), re.DOTALL) for regex, _ in known):
                    return way(item)()
            else:
                return None
        plain = [text for known in patterns for _, text in known if text is not None]
        compared = tuple((missing.name, text) for text in plain) if missing.name else ()
        ways = [way(item) for item in items]
        if not any(regex == ".*" for known in patterns for regex, _ in known):
            ways.append(lambda: None)
        return self._fork(node, Undecided((missing,), compared), ways)

    def _patterns(self, item: Node) -> list[tuple[str | None, str | None]]:
        """Each pattern of a case as a regular expression, and as a text where it is plain."""
        found: list[tuple[str | None, str | None]] = []
        for value in item.children_by_field_name("value"):
            pieces = self.word_at(value.start_byte)
            known = missing_in(pieces) is None
            plain = text_of(pieces) if known and is_plain(pieces) else None
            found.append((as_regex(pieces) if known else None, plain))
        return found

    def _tested(self, node: Node) -> Truth:
        text, line = self.source.of(node), self.source.line(node)
        if text.startswith("(("):
            return self.calculated(text[2:-2], line)
        double = text.startswith("[[")
        width = 2 if double else 1
        scanner = Scanner(self.source.text, self, self.source.lines, at=node.start_byte + width)
        return evaluate(tokens(scanner, node.end_byte - width, double), double, line)

    def _on_function_definition(self, node: Node) -> Flow:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.state.functions[self.source.of(name)] = (self.source, body)
        return None

    def _choose(self, node: Node, truth: Truth, ways: Sequence[Way]) -> Flow:
        """Go the first way where a condition holds, the second where not, one of them where that isn't decided."""
        if not isinstance(truth, Undecided):
            return ways[0 if truth else 1]()
        line = self.source.line(node)
        told = f"if:{int(line)}"
        if told in self.fixed:
            self.asked.add(told)
            return ways[0 if text_of(self.fixed[told][0]) in ("yes", "true", "1") else 1]()
        return self._fork(node, truth, ways)

    def _fork(self, node: Node, why: Undecided, ways: Sequence[Way]) -> Flow:
        """Follow all ways from here; go on with the one that is decided on, that launches, or that is first."""
        self.undecided.append(why)
        before, forks, status = self.state, self.forks, self.status
        ends: list[tuple[State, Flow, list[Fork], Truth]] = []
        for way in ways:
            self.state, self.forks, self.status = before.copy(), [], status
            flow = way()
            ends.append((self.state, flow, self.forks, self.status))
        launched = [self.launches_in(end[0], len(before.commands)) for end in ends]
        on = [i for i, end in enumerate(ends) if end[1] not in ("exit", "return") or launched[i]] or [0]
        if any(launched):
            on = [i for i in on if launched[i] or ends[i][1] is None]
        key = (self.source.label, node.start_byte)
        first, *others = (ends[i] for i in on)
        differ = any(end[1] != first[1] or end[2] or not end[0].same_as(first[0]) for end in others) or bool(
            others and first[2]  # what is undecided on a way may make it another
        )
        default = self._default(why, before, [end[0] for end in ends]) if differ else None
        taken = self.decisions.get(key, next((i for i in on if launched[i]), on[0]) if default is None else default)
        state, flow, inner, status = ends[taken]
        self.state, self.forks = state, [*forks, *inner]
        self.status = status if not differ else True
        if differ and default is None:
            text = self.source.of(node).split("\n")[0].partition(";")[0]
            self.forks.append(Fork(key, self.source.line(node), text, why, tuple(on), taken))
        return flow

    def _default(self, why: Undecided, before: State, ends: list[State]) -> int | None:
        """The way on which a variable gets its default, as in ``[ -z "$A" ] && A=1``: ``${A:-1}`` in other words."""
        if all(missing.name == "#" for missing in why.missing) and why.if_empty is not None:
            return 0 if why.if_empty else 1
        name = why.missing[0].name
        if why.if_empty is None or name is None or not why.missing[0].unset:
            return None
        empty, other = (0, 1) if why.if_empty else (1, 0)
        if name in ends[empty].changed_since(before):
            return empty
        changed = ends[other].changed_since(before)
        filled = [ends[other].variables[n] for n in changed if n in ends[other].variables]
        own = all(len(v) == 1 and len(v[0]) == 1 and (m := v[0][0].missing) and m.name == name for v in filled)
        return (
            empty if filled and own and changed <= ends[empty].changed_since(before) | before.variables.keys() else None
        )


def followed(
    source: Source,
    fixed: Mapping[str, str],
    launches: Callable[[Sequence[str]], bool],
    load: Callable[[str], str | None] | None = None,
    decisions: Mapping[tuple[str, int], int] | None = None,
) -> Script:
    """A script followed one way; ``launches`` tells the commands that matter, ``load`` reads a file that it names."""
    script = Script(source, fixed, launches, load, decisions or {})
    script.run(source)
    return script
