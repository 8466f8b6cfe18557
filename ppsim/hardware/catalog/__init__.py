"""Hardware and models by name: a row each in ``devices.yaml``, ``links.yaml`` and ``models.yaml``, with its source.

Rows hold text with units ('80 GB', '200 Gbit/s', '14 us') as their sources print them, and plain numbers for the
sizes of models. Nothing is converted here: whoever uses a row reads its units. The head of each file says what its
columns mean. New hardware is a new row, never code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from ruamel.yaml import YAML

from ppsim.errors import did_you_mean, printable

KINDS: Mapping[str, str] = MappingProxyType({"device": "devices.yaml", "link": "links.yaml", "model": "models.yaml"})
"""What the catalog knows, and the file that holds it."""
_HEAD = re.compile(r"^(?P<name>[\w.-]+):", re.MULTILINE)
"""Where a row begins."""


def devices() -> Mapping[str, Mapping[str, str]]:
    """All devices: name -> memory, peak_flops, peak_dtype, source; optional: peaks, memory_bandwidth, note."""
    return _table("device")


def links() -> Mapping[str, Mapping[str, str]]:
    """All links: name -> class, scope, bandwidth (one way), latency, overhead (optional), source, note (optional)."""
    return _table("link")


def models() -> Mapping[str, Mapping[str, Any]]:
    """All models: name -> layers, hidden, heads, vocabulary, sequence, source; what else `costs.model` takes; note."""
    return _table("model")


def row(kind: str, name: str) -> Mapping[str, Any]:
    """The row of ``name`` among the 'device's, 'link's or 'model's.

    Raises ValueError, with the nearest name and all that there are, where there is none of that name.
    """
    texts = _texts(kind)
    if name not in texts and kind == "model":  # llama3-70b is llama-3-70b
        name = next((known for known in texts if known.replace("-", "") == name.replace("-", "")), name)
    if name not in texts:
        hint = did_you_mean(name, texts) or "."
        raise ValueError(f"unknown {kind} '{printable(name)}'{hint} Known: {', '.join(texts)}")
    return _row(kind, name)


@cache
def _texts(kind: str) -> Mapping[str, str]:
    """One file, cut into its rows' texts: reading all of it as YAML takes longer than the rest of a config."""
    text = files(__name__).joinpath(KINDS[kind]).read_text(encoding="utf-8")
    heads = [*_HEAD.finditer(text)]
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return {head["name"]: text[head.start() : end] for head, end in zip(heads, ends, strict=True)}


@cache
def _row(kind: str, name: str) -> Mapping[str, Any]:
    """One row, read once; read-only, because everyone shares it."""
    rows: dict[str, dict[str, Any]] = YAML(typ="safe", pure=True).load(_texts(kind)[name])
    return MappingProxyType(rows[name])


@cache
def _table(kind: str) -> Mapping[str, Mapping[str, Any]]:
    """All rows of one file."""
    return MappingProxyType({name: _row(kind, name) for name in _texts(kind)})
