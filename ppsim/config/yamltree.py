"""YAML text → a tree of Nodes that know their place, within fixed limits.

The tree is built from ruamel's parse events, which cost what the text's length costs: an alias is copied, and counted,
only as far as the limits go, and nothing is constructed that isn't plain data.

Source: YAML 1.2.2, section 10.3 (core schema), https://yaml.org/spec/1.2.2/#103-core-schema
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final

from ruamel.yaml import YAML, events
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from ppsim.errors import ConfigError, printable, shown

MAX_NODES: Final = 100_000
MAX_ALIASES: Final = 100
MAX_DEPTH: Final = 50
_MAX_DIGITS: Final = 100
_MAX_MISTAKES: Final = 20

Place = tuple[int, int] | str
"""Where something was written: (line, column), both from 1, or in words (``--set 'a.b=c'``)."""

_SCALARS: Final[tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...]] = tuple(
    (re.compile(pattern), convert)
    for pattern, convert in (
        (r"|~|null|Null|NULL", lambda _: None),
        (r"true|True|TRUE", lambda _: True),
        (r"false|False|FALSE", lambda _: False),
        (r"[-+]?[0-9]+", int),
        (r"0o[0-7]+", lambda text: int(text[2:], 8)),
        (r"0x[0-9a-fA-F]+", lambda text: int(text[2:], 16)),
        (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", float),
        (r"[-+]?\.(inf|Inf|INF)", lambda text: float(text.replace(".", ""))),
        (r"\.(nan|NaN|NAN)", lambda _: float("nan")),
    )
)
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_HINTS: Final = (
    ("found character '\\t'", "a tab; YAML takes only spaces here"),
    ("mapping values are not allowed", "not valid YAML: no ': ' can stand here; quote text that holds one, or indent"),
    ("expected <block end>", "not valid YAML: this doesn't line up with the lines above; check the indentation"),
)


@dataclass(frozen=True)
class Node:
    """A value and the place of its key (or of itself, in a list); mappings and lists hold Nodes."""

    value: Any
    place: Place

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        return [node.plain() for node in self.value] if isinstance(self.value, list) else self.value

    def child(self, key: str | int) -> Node | None:
        """The entry ``key`` of a mapping or the item of a list; None where there is none."""
        if isinstance(self.value, dict):
            return self.value.get(key)
        if isinstance(self.value, list) and isinstance(key, int) and 0 <= key < len(self.value):
            return self.value[key]  # type: ignore[no-any-return]
        return None


def position(before: str) -> tuple[int, int]:
    """Line and column of what stands right after ``before``."""
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def where(label: str, place: Place) -> str:
    """``place`` as the beginning of an error: 'configs/x.yaml:8:3', or the words that it is."""
    return place if isinstance(place, str) else f"{label}:{place[0]}:{place[1]}"


class Builder:
    """Builds Nodes from the events of one YAML text. What is wrong in the meaning is gathered, in the form raised."""

    def __init__(self, label: str, positions: bool = True) -> None:
        self.label = label
        self.positions = positions
        self.last: Any = None  # the mark of the last event: an error without a mark of its own is near
        self.nodes = self.aliases = 0
        self.anchors: dict[str, Node] = {}
        self.mistakes: list[str] = []

    def build(self, text: str) -> Node | None:
        """The document's root; None where there is none."""
        if control := _CONTROL.search(text):
            place = position(text[: control.start()]) if self.positions else self.label
            raise self._fatal(f"a control character ({printable(control[0])})", place)
        root = None
        stream = self._events(text)
        for event in stream:
            if isinstance(event, events.DocumentStartEvent):
                if root:
                    raise self._fatal("a second document ('---'); a file holds one", self._place(event))
                if event.version and tuple(event.version) != (1, 2):
                    raise self._fatal("a %YAML directive of another version than 1.2", self._place(event))
            elif isinstance(event, events.NodeEvent):
                root = self._node(event, stream, 1)
        if self.mistakes:
            raise ConfigError("\n".join(self.mistakes))
        return root

    def _events(self, text: str) -> Iterator[Any]:
        try:
            for event in YAML(typ="safe", pure=True).parse(text):
                self.last = event.start_mark
                yield event
        except MarkedYAMLError as error:
            self.last = mark = error.problem_mark or self.last
            problem = printable(error.problem or "it can't be parsed")
            message = next((hint for sign, hint in _HINTS if sign in problem), f"not valid YAML: {problem}")
            if self.positions and error.context and error.context_mark and error.context_mark.line < mark.line:
                message += f" ({printable(error.context)} that begins on line {error.context_mark.line + 1})"
            raise self._fatal(message, self._place()) from None
        except (YAMLError, ValueError) as error:  # ValueError: '\U00110000', or a %YAML version of 5000 digits
            raise self._fatal(f"not valid YAML: {printable(str(error))[:100]}", self._place()) from None

    def _place(self, event: Any = None) -> Place:
        mark = event.start_mark if event else self.last
        return (mark.line + 1, mark.column + 1) if self.positions and mark else self.label

    def _mistake(self, message: str, event: Any) -> None:
        if len(self.mistakes) == _MAX_MISTAKES:
            raise self._fatal("more mistakes follow; these come first", self._place(event))
        self.mistakes.append(f"{where(self.label, self._place(event))}: {message}")

    def _fatal(self, message: str, place: Place) -> ConfigError:
        return ConfigError("\n".join((*self.mistakes, f"{where(self.label, place)}: {message}")))

    def _count(self, depth: int, event: Any) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self._fatal(
                f"more than {MAX_NODES:,} values with aliases expanded; that is the limit", self._place(event)
            )
        if depth > MAX_DEPTH:
            raise self._fatal(f"nested deeper than {MAX_DEPTH} levels", self._place(event))

    def _node(self, event: Any, stream: Iterator[Any], depth: int) -> Node:
        if isinstance(event, events.AliasEvent):
            return self._alias(event, depth)
        self._count(depth, event)
        if event.tag is not None:
            self._mistake(f"the tag {shown(str(event.tag))}; settings are YAML without tags", event)
        if isinstance(event, events.MappingStartEvent):
            value: Any = self._mapping(stream, depth + 1)
        elif isinstance(event, events.SequenceStartEvent):
            inside = takewhile(lambda inner: not isinstance(inner, events.SequenceEndEvent), stream)
            value = [self._node(inner, stream, depth + 1) for inner in inside]
        else:
            value = self._scalar(event)
        node = Node(value, self._place(event))
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def _mapping(self, stream: Iterator[Any], depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        for event in takewhile(lambda inner: not isinstance(inner, events.MappingEndEvent), stream):
            key = self._node(event, stream, depth).value
            if not isinstance(key, str):
                self._mistake(
                    f"the key is {shown(key)}; a key is text, in quotes where it looks like something else", event
                )
            elif key == "<<" and getattr(event, "style", None) is None:
                self._mistake("a merge key ('<<') belongs to YAML 1.1; write the keys out", event)
            elif key in entries:
                first = entries[key].place
                line = "" if isinstance(first, str) else f"; line {first[0]} has it, too"
                self._mistake(f"duplicate key {shown(key)}{line}", event)
            node = replace(self._node(next(stream), stream, depth), place=self._place(event))
            if isinstance(key, str):
                entries.setdefault(key, node)
        return entries

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if _SURROGATE.search(text):
            self._mistake("half of a surrogate pair, which is no character", event)
        if not event.implicit[0]:  # quoted or a block: text, whatever it looks like
            return text
        for pattern, convert in _SCALARS:
            if pattern.fullmatch(text):
                if len(text) > _MAX_DIGITS:
                    self._mistake(f"a number of {len(text)} characters; the limit is {_MAX_DIGITS}", event)
                    return None
                return convert(text)
        return text

    def _alias(self, event: Any, depth: int) -> Node:
        """A copy of the anchored value, counted in full: so the limits hold for what aliases expand to."""
        self.aliases += 1
        if self.aliases > MAX_ALIASES:
            raise self._fatal(f"more than {MAX_ALIASES} aliases; that is the limit", self._place(event))
        anchored = self.anchors.get(event.anchor)
        if anchored is None:
            raise self._fatal(f"no finished anchor &{printable(event.anchor)} before this alias", self._place(event))
        return replace(self._copy(anchored, event, depth), place=self._place(event))

    def _copy(self, node: Node, event: Any, depth: int) -> Node:
        self._count(depth, event)
        if isinstance(node.value, dict):
            self.nodes += len(node.value)  # the keys, which count where they are written, too
            return replace(node, value={k: self._copy(entry, event, depth + 1) for k, entry in node.value.items()})
        if isinstance(node.value, list):
            return replace(node, value=[self._copy(item, event, depth + 1) for item in node.value])
        return node
