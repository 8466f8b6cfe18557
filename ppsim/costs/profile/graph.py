"""PipeDream's profiles: ``graph.txt``, a node per operator with its times and sizes, and the edges between them.

    node4 -- Conv2d(64, 64) -- forward_compute_time=46.2, backward_compute_time=113.3, activation_size=1644167168.0,
    <TAB>node3 -- node4                                                                    parameter_size=147712.0

Times are milliseconds and sizes bytes, of the whole batch that was profiled; ``activation_size`` is the operator's
output, or a list of outputs. The graph becomes a chain: the operators in an order in which each follows its inputs, the
smallest number first. What crosses a cut of the chain is the outputs of all operators before it that one behind it
uses, each once. Inputs (the time to load data) are no layers.
Source: msr-fiddle/pipedream, graph/graph.py and optimizer/optimizer_graph_hierarchical.py (MIT).
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate

from ppsim.costs.profile.measured import MeasuredLayer, listed
from ppsim.errors import ConfigError, shown

NODE = re.compile(r"(?P<id>\S+) -- (?P<what>.*?) -- (?P<figures>\w+=.*?)(?: -- stage_id=-?\d+)?\s*")
FIGURES = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,2})?")
MILLISECONDS = 1000


def recognised(text: str) -> bool:
    """Whether a text looks like a PipeDream graph."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return NODE.fullmatch(first) is not None


def read(text: str, label: str) -> list[MeasuredLayer]:
    """The operators of a graph as a chain. Raises ConfigError, a line per mistake, each as file:line: what is wrong."""
    nodes: dict[str, MeasuredLayer] = {}
    edges: list[tuple[int, str, str]] = []
    mistakes: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if line[:1].isspace() and line.strip():
                before, arrow, after = line.strip().partition(" -- ")
                if not arrow:
                    raise ValueError(f"{shown(line.strip())} is no edge; one reads '<TAB>node1 -- node2'")
                edges.append((number, before, after))
            elif line.strip():
                name, node = _node(line)
                if name in nodes:
                    raise ValueError(f"{shown(name)} is there twice")
                nodes[name] = node
        except ValueError as error:
            mistakes.append(f"{label}:{number}: {error}")
    for number, *ends in edges:
        mistakes += [f"{label}:{number}: there is no {shown(end)}" for end in ends if end not in nodes and not mistakes]
    if mistakes:
        raise ConfigError(listed(mistakes))
    inputs = {name for name, node in nodes.items() if node.name.partition(" ")[2].startswith("Input")}
    kept = {name: node for name, node in nodes.items() if name not in inputs}
    if not kept:
        raise ConfigError(f"{label}: no operators")
    return _chain(kept, [(a, b) for _, a, b in edges if a in kept and b in kept], label)


def _node(line: str) -> tuple[str, MeasuredLayer]:
    found = NODE.fullmatch(line)
    if found is None:
        raise ValueError(f"{shown(line)} is no node; one reads 'node1 -- name -- {FIGURES[0]}=1.5, …'")
    figures = dict(pair.split("=", 1) for pair in re.split(r", (?=\w+=)", found["figures"]) if "=" in pair)
    if missing := [key for key in FIGURES if key not in figures]:
        raise ValueError(f"{found['id']} lacks {', '.join(missing)}")
    forward, backward, activation, parameters = (_number(key, figures[key]) for key in FIGURES)
    return found["id"], MeasuredLayer(
        name=f"{found['id']} {found['what']}",
        forward=forward / MILLISECONDS,
        input_grad=backward / MILLISECONDS / 2,
        weight_grad=backward / MILLISECONDS / 2,
        activation=activation,
        parameters=parameters,
        halves_assumed=True,
    )


def _number(key: str, text: str) -> Fraction:
    """A figure; of a list such as '[6291456.0; 131072.0]' the sum."""
    parts = [part.strip() for part in text.strip().removeprefix("[").removesuffix("]").split(";")]
    wrong = [part for part in parts if not NUMBER.fullmatch(part)]
    if wrong:
        raise ValueError(f"{key}: {shown(wrong[0])} is not a number of 0 or more")
    return sum((Fraction(part) for part in parts), Fraction(0))


def _chain(nodes: dict[str, MeasuredLayer], edges: list[tuple[str, str]], label: str) -> list[MeasuredLayer]:
    """The nodes behind their inputs, each with what crosses a cut behind it."""
    order = list(_sorted(nodes, edges))
    if len(order) < len(nodes):
        stuck = next(name for name in nodes if name not in set(order))
        raise ConfigError(f"{label}: {stuck} needs its own output: the edges go round in a circle")
    place = {name: position for position, name in enumerate(order)}
    last_use = {name: place[name] for name in order}
    for before, after in edges:
        last_use[before] = max(last_use[before], place[after])
    change = [Fraction(0)] * (len(order) + 1)
    for name in order:
        change[place[name]] += nodes[name].activation
        change[last_use[name]] -= nodes[name].activation
    crossing = accumulate(change)
    return [nodes[name]._replace(message=size) for name, size in zip(order, crossing, strict=False)]


def _sorted(nodes: dict[str, MeasuredLayer], edges: list[tuple[str, str]]) -> Iterator[str]:
    """Names such that every edge goes forwards, the smallest number first; what a circle holds up is left out."""
    users: dict[str, list[str]] = {name: [] for name in nodes}
    waits = Counter(after for _, after in edges)
    for before, after in edges:
        users[before].append(after)
    ready = [(_rank(name), name) for name in nodes if not waits[name]]
    heapq.heapify(ready)
    while ready:
        _, name = heapq.heappop(ready)
        yield name
        for user in users[name]:
            waits[user] -= 1
            if not waits[user]:
                heapq.heappush(ready, (_rank(user), user))


def _rank(name: str) -> tuple[int, str]:
    digits = re.sub(r"\D", "", name)[:18]
    return int(digits or 0), name
