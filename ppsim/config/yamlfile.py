"""YAML files ⇄ plain data whose every key knows its line; ``--set a.b=c`` on top.

``read`` gives a ``Document``: dicts with text keys, lists, and scalars by YAML 1.2's core schema. So ``1e9`` and
``5e-3`` are numbers, ``010`` is ten, ``no``, ``on``, ``1_000`` and ``2024-01-01`` are text. Tags, merge keys (``<<``)
and ``%YAML 1.1`` belong to other dialects and are refused.
Errors: ``ConfigError``, a line for each mistake, each starting with ``path:line:column: `` where there is a position.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.representer import RoundTripRepresenter

from ppsim import _textfile as textfile
from ppsim.config.yamltree import MAX_DEPTH, Builder, Node, Place, where
from ppsim.errors import ConfigError, printable, shown

MAX_BYTES: Final = 1 << 20
OWN: Final = "x-"
"""How keys at the top begin that are the user's own, as for anchors that settings take up: ppsim doesn't read them."""
_NAMED_BY: Final = {
    "schedule": "name", "runtime": "preset", "cluster.device": "like", "cluster.intra_node": "like",
    "cluster.inter_node": "like",
}  # fmt: skip
"""Mappings that may be written as a name alone, and the key that this name is then the value of."""


@dataclass(frozen=True)
class Document:
    """Settings as plain data, and where each was written."""

    label: str
    root: Node
    path: Path | None = None

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any], label: str) -> Document:
        """Settings that were built in Python: their errors say ``label`` instead of a position."""
        return cls(label, _from_python(settings, label))

    @cached_property
    def data(self) -> dict[str, Any]:
        """The settings: dicts, lists, text, int, float, bool and None."""
        return self.root.plain()  # type: ignore[no-any-return]

    def locate(self, loc: Sequence[str | int]) -> Place:
        """Where the entry ``loc`` was written; of a missing one, its nearest parent.

        Parts that don't exist are passed over, so that pydantic's (the tag of a union among them) can be given as is.
        """
        node = self.root
        for part in loc:
            node = node.child(part) or node
        return node.place

    def where(self, loc: Sequence[str | int]) -> str:
        """``locate`` as an error's beginning: 'configs/x.yaml:8:3', or "--set 'a.b=c'"."""
        return where(self.label, self.locate(loc))


def read(path: Path) -> Document:
    """The one YAML document of a regular file of UTF-8 text, at most ``MAX_BYTES`` long; a mapping at its top."""
    label = printable(str(path))
    if os.path.isfile(path / "config.yaml"):  # noqa: PTH113 (pathlib raises where a name is too long)
        inside = printable(str(path / "config.yaml"))
        raise ConfigError(f"{printable(str(path))}: a directory, where a YAML file is due; give {inside}")
    text = textfile.read(path, "a YAML file", MAX_BYTES)
    root = Builder(label).build(text)
    if root is None:
        raise ConfigError(f"{label}: empty; there are no settings in it")
    if not isinstance(root.value, dict):
        raise ConfigError(f"{where(label, root.place)}: {shown(root.value)}, where a mapping of settings is due")
    settings = {key: node for key, node in root.value.items() if not key.startswith(OWN)}
    return Document(label, replace(root, value=settings), path)


def _from_python(value: Any, label: str, depth: int = 0) -> Node:
    if depth > MAX_DEPTH:
        raise ConfigError(f"{label}: nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        if strange := [key for key in value if not isinstance(key, str)]:
            raise ConfigError(f"{label}: the key {shown(strange[0])} is not text")
        return Node({key: _from_python(entry, label, depth + 1) for key, entry in value.items()}, label)
    if isinstance(value, list | tuple):
        return Node([_from_python(item, label, depth + 1) for item in value], label)
    return Node(value, label)


def override(document: Document, assignments: Sequence[str] | Mapping[str, Any]) -> Document:
    """``document`` with some entries replaced: ``["a.b=c", …]`` as on the command line, or ``{"a.b": value}``.

    Values on the command line are YAML. A number in a path is the index of a list; a name on the way, such as
    ``schedule: 1f1b`` to ``schedule.warmup``, becomes a mapping, ``{name: 1f1b}``. Later assignments win.
    Errors: ``ConfigError``, a line for each.
    """
    root, mistakes = document.root, []
    settings = assignments.items() if isinstance(assignments, Mapping) else ((text, None) for text in assignments)
    for text, value in settings:
        try:
            if isinstance(assignments, Mapping):
                label = f"override {shown(text)}"
                path, node = str(text), _from_python(value, label)
            else:
                label = f"--set {shown(text)}"
                path, node = _assignment(text, label)
            keys = path.strip().split(".")
            if not all(keys) or len(keys) > MAX_DEPTH:
                raise ConfigError(f"{label}: {shown(path)} is not a key such as 'pipeline.ranks'")
            root = _assign(root, keys, node, "")
        except ConfigError as error:
            mistakes.append(str(error))
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return replace(document, root=root)


def _assignment(text: str, label: str) -> tuple[str, Node]:
    path, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"{label}: no '='; write KEY=VALUE, e.g. pipeline.ranks=8")
    node = Builder(label, positions=False).build(value)
    if node is None:
        raise ConfigError(f"{label}: no value after '='; write null to unset a key")
    return path, node


def _assign(node: Node, keys: Sequence[str], new: Node, path: str) -> Node:
    """``node``, which stands at ``path``, with ``new`` at ``keys`` below it."""
    if not keys:
        return new
    label = str(new.place)
    if path in _NAMED_BY and isinstance(node.value, str):
        node = replace(node, value={} if node.value == "free" else {_NAMED_BY[path]: node})
    if node.value is None:
        node = replace(node, value={})
    if isinstance(node.value, list):
        index = int(keys[0]) if re.fullmatch("[0-9]{1,9}", keys[0]) else -1
        item = node.child(index)
        if item is None:
            size = len(node.value)
            raise ConfigError(
                f"{label}: {shown(path)} is a list of {size}, which has no item {shown(keys[0])}; they count from 0"
            )
        items = [*node.value]
        items[index] = _assign(item, keys[1:], new, f"{path}.{index}")
        return replace(node, value=items)
    if not isinstance(node.value, dict):
        raise ConfigError(
            f"{label}: {shown(path)} is {shown(node.value)}, which has no key {shown(keys[0])}; set {shown(path)} whole"
        )
    # A key may itself hold dots, as those of sweep.grid do: the longest that is there is meant.
    length = next((n for n in range(len(keys), 1, -1) if ".".join(keys[:n]) in node.value), 1)
    key = ".".join(keys[:length])
    child = node.child(key) or Node(None, new.place)
    return replace(node, value={**node.value, key: _assign(child, keys[length:], new, f"{path}.{key}".lstrip("."))})


class _Representer(RoundTripRepresenter):
    """Writes every value out in full, null as a word, and what can't be printed by its escape."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_none(self, data: None) -> Any:
        return self.represent_scalar("tag:yaml.org,2002:null", "null")

    def represent_str(self, data: str) -> Any:
        # ruamel leaves '?x' in a flow list unquoted, where it would read back as a key.
        quote = "'" if data.startswith("?") else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=quote if data.isprintable() else '"')


_Representer.add_representer(type(None), _Representer.represent_none)
_Representer.add_representer(str, _Representer.represent_str)


def dump(data: Mapping[str, Any], comments: Mapping[tuple[str | int, ...], str] | None = None) -> str:
    """YAML text that ``read`` reads back: keys in their order, lists of scalars on one line, nothing folded.

    ``comments`` puts a remark at the end of the line of the scalar at a loc.
    """
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.width = sys.maxsize
    stream = io.StringIO()
    yaml.dump(_commented(data, comments or {}, ()), stream)
    return stream.getvalue()


def _commented(data: Any, comments: Mapping[tuple[str | int, ...], str], loc: tuple[str | int, ...]) -> Any:
    if isinstance(data, Mapping):
        mapping = CommentedMap({key: _commented(value, comments, (*loc, key)) for key, value in data.items()})
        for key in mapping:
            if (*loc, key) in comments:
                mapping.yaml_add_eol_comment(printable(comments[*loc, key]), key, column=0)
        return mapping
    if isinstance(data, list | tuple):
        sequence = CommentedSeq([_commented(item, comments, (*loc, i)) for i, item in enumerate(data)])
        if not any(isinstance(item, Mapping | list | tuple) for item in data):
            sequence.fa.set_flow_style()
        return sequence
    return data
