"""Whether a rank's memory holds the layers that a split gives it, by what its order has alive at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ppsim.costs.layers import Layer, LayerCosts
from ppsim.costs.partition.question import Span
from ppsim.ops import Kind, Orders
from ppsim.ops.placement import Placement

COMPUTES = (Kind.F, Kind.B, Kind.I, Kind.W)
ZERO = Fraction(0)
STATIC = ("weights", "gradients", "optimizer_state")


class Instant(NamedTuple):
    """An op while it runs, and what is alive then, per stage of its rank in the order of its chunks."""

    kind: Kind
    stage: int
    microbatches: tuple[int, ...]
    """Microbatches whose activations are held."""
    halves: tuple[int, ...]
    """Microbatches of which the weight-gradient half alone is still to come."""


def fullest(orders: Orders, placement: Placement) -> list[list[Instant]]:
    """For every rank the instants at which most is alive: none of them has less of everything than another."""
    found = []
    for rank, table in enumerate(orders):
        held = placement.stages_of[rank]
        kind, stage = np.asarray(table.kind)[:, None], np.asarray(table.stage)[:, None]
        here = stage == np.array(held)[None, :]
        first, handed_on, last = (here & (kind == k) for k in (Kind.F, Kind.I, Kind.W))
        whole = here & (kind == Kind.B)
        alive = np.cumsum(first, axis=0) - _before(whole | handed_on)
        halves = _before(handed_on) - _before(last)
        computes = np.isin(kind[:, 0], COMPUTES)
        rows = np.hstack([kind, stage, alive, halves])[computes]
        found.append([_instant(row, len(held)) for row in _largest(np.unique(rows, axis=0))])
    return found


def _before(flags: np.ndarray) -> np.ndarray:
    counted: np.ndarray = np.cumsum(flags, axis=0) - flags
    return counted


def _largest(rows: np.ndarray) -> list[list[int]]:
    """Rows of which no other of the same kind and stage is at least as large in everything."""
    kept, count = np.empty_like(rows), 0
    for row in rows[np.argsort(-rows[:, 2:].sum(axis=1), kind="stable")]:
        larger = kept[:count]
        if not np.any(np.all(larger[:, :2] == row[:2], axis=1) & np.all(larger[:, 2:] >= row[2:], axis=1)):
            kept[count] = row
            count += 1
    found: list[list[int]] = kept[:count].tolist()
    return found


def _instant(row: list[int], stages: int) -> Instant:
    return Instant(Kind(row[0]), row[1], tuple(row[2 : 2 + stages]), tuple(row[2 + stages :]))


class Content(NamedTuple):
    """What consecutive layers need on a device."""

    static: int = 0
    activation: int = 0
    kept: int = 0
    half: int = 0
    """Bytes from the input-gradient half to the weight-gradient half."""
    to_come: Fraction = ZERO
    """Bytes of their activations, to the fraction: not there while a layer before them runs."""
    rebuilt: Fraction = ZERO
    rebuilt_most: Fraction = ZERO
    """What a recomputation rebuilds, all of it and of one layer."""
    forward: Fraction = ZERO
    backward: Fraction = ZERO
    """Bursts beside the activation, as ``layers.transient`` has them."""
    buffers: Mapping[str, Fraction] = MappingProxyType({})

    def behind(self, layer: Layer) -> Content:
        """These layers with one more before them."""
        rest = layer.activation - layer.kept
        return Content(
            static=self.static + sum(ceil(getattr(layer, key)) for key in STATIC),
            activation=self.activation + ceil(layer.activation),
            kept=self.kept + ceil(layer.kept),
            half=self.half + ceil(layer.held_for_weight_grad),
            to_come=self.to_come + layer.activation,
            rebuilt=self.rebuilt + rest,
            rebuilt_most=max(self.rebuilt_most, rest),
            forward=max(self.forward, layer.transient_forward - self.to_come),
            backward=max(self.backward, layer.transient_backward - self.to_come),
            buffers=self.buffers if not layer.buffers else {**self.buffers, **dict(layer.buffers)},
        )


_NOTHING = Content()
Alike = tuple[int, int, int | None, int | None]
"""A stage, and by their ids what it holds, the layer before it, and its last one; None for a model's ends."""


@dataclass(frozen=True)
class Room:
    """A device's memory, as a question's ``excess``."""

    capacity: Fraction
    layers: Sequence[LayerCosts]
    """The layers as each stage would hold them: they depend on what it recomputes."""
    recomputed: Sequence[bool]
    """Stages that are recomputed."""
    stages_of: Sequence[Sequence[int]]
    instants: Sequence[Sequence[Instant]]
    """Of every rank, as ``fullest`` gives them."""
    layer_by_layer: bool = False
    """A recomputation stands inside the backward, a layer after the other."""
    _contents: dict[tuple[int, int], list[Content]] = field(default_factory=dict)
    _grown: dict[tuple[int, int], Content] = field(default_factory=dict)
    _running: dict[Span, tuple[int, ...]] = field(default_factory=dict)
    _needed: dict[tuple[int, tuple[Alike, ...]], int] = field(default_factory=dict)
    _answers: dict[tuple[int, tuple[Span, ...]], int] = field(default_factory=dict)

    def __call__(self, rank: int, spans: Sequence[Span]) -> int:
        """Bytes that these of its spans need beyond the memory of the device of ``rank``."""
        asked = rank, tuple(spans)
        if asked not in self._answers:
            alike = rank, tuple(map(self._alike, spans))
            if alike not in self._needed:
                self._needed[alike] = self.needed(rank, spans)
            self._answers[asked] = self._needed[alike] - int(self.capacity)
        return self._answers[asked]

    def _alike(self, span: Span) -> Alike:
        """All that a span's memory follows from: of a model, whose layers are mostly the same one, few differ."""
        layers = self.layers[span.stage].layers
        before, after = (
            id(layers[row]) if 0 <= row < len(layers) - 1 else None for row in (span.begin - 1, span.end - 1)
        )
        return span.stage, id(self._content(span)), before, after

    @cached_property
    def hopeless(self) -> bool:
        """Whether it is plain that no split fits: all ranks together can't hold even the layers between the ends."""
        most = [self._most(rank) for rank in range(len(self.stages_of))]
        copies = sum(map(len, self.stages_of)) // len(self.layers)
        return sum(most) < (len(self.layers[0]) - 2) * copies

    def _most(self, rank: int) -> int:
        """A number of layers that the rank's memory can't exceed, the model's first and last left out.

        Each takes its static bytes and, at any instant, its activation as often as its stage's are alive, be it on the
        stage that has fewest: at every single instant, and in the mean over them all.
        """
        costs = [self._least[stage] for stage in self.stages_of[rank]]
        alive = self._tables[rank][0].tolist()
        mean = [Fraction(sum(column), len(alive)) for column in zip(*alive, strict=True)]
        rows = [*alive, mean] if alive else []
        most = max((min(s + k * n for n, (s, k) in zip(row, costs, strict=True)) for row in rows), default=0)
        return int(self.capacity // most) if most else len(self.layers[0])

    @cached_property
    def _least(self) -> list[tuple[int, int]]:
        """The least static bytes, and the least bytes per microbatch, of a layer between the ends on each stage."""
        found: dict[tuple[int, bool], tuple[int, int]] = {}
        for layers, recomputed in zip(self.layers, self.recomputed, strict=True):
            if (id(layers), recomputed) not in found:
                inner = [Content().behind(layer) for layer in layers.layers[1:-1]]
                kept = (each.kept if recomputed else each.activation for each in inner)
                found[id(layers), recomputed] = min((e.static for e in inner), default=0), min(kept, default=0)
        return [found[id(layers), again] for layers, again in zip(self.layers, self.recomputed, strict=True)]

    def needed(self, rank: int, spans: Sequence[Span]) -> int:
        """The most bytes that these spans need on their rank, without what waits to be sent."""
        contents = [self._content(span) for span in spans]
        names = {name: size for content in contents for name, size in content.buffers.items()}
        static = sum(content.static for content in contents) + ceil(sum(names.values()))
        alive, waiting, running = self._tables[rank]
        chunks = len(self.stages_of[rank])
        whole, halves, extra = [0] * chunks, [0] * chunks, [0] * (chunks * len(COMPUTES))
        for span, content in zip(spans, contents, strict=True):
            chunk = self.stages_of[rank].index(span.stage)
            whole[chunk] = content.kept if self.recomputed[span.stage] else content.activation
            halves[chunk] = content.half
            extra[chunk * len(COMPUTES) : (chunk + 1) * len(COMPUTES)] = self._while_it_runs(span)
        most = alive @ np.array(whole) + waiting @ np.array(halves) + np.array(extra)[running]
        return static + int(most.max(initial=0))

    @cached_property
    def _tables(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Per rank, of its instants: what is alive, the halves to come, and which chunk and kind the op has."""
        tables = []
        for held, instants in zip(self.stages_of, self.instants, strict=True):
            shape = len(instants), len(held)
            alive = np.array([instant.microbatches for instant in instants], np.int64).reshape(shape)
            halves = np.array([instant.halves for instant in instants], np.int64).reshape(shape)
            places = [held.index(i.stage) * len(COMPUTES) + COMPUTES.index(i.kind) for i in instants]
            tables.append((alive, halves, np.array(places, np.int64)))
        return tables

    def _while_it_runs(self, span: Span) -> tuple[int, ...]:
        """What an op of each of COMPUTES needs beside what is alive: its input, what it rebuilds, its burst."""
        if span not in self._running:
            content, layers = self._content(span), self.layers[span.stage].layers
            before, after = (
                layers[row].message if 0 <= row < len(layers) - 1 else ZERO for row in (span.begin - 1, span.end - 1)
            )
            again = content.rebuilt_most if self.layer_by_layer else content.rebuilt
            back = ceil(after + (again if self.recomputed[span.stage] else 0)) + ceil(content.backward)
            self._running[span] = ceil(before) + ceil(content.forward), back, back, ceil(content.backward)
        return self._running[span]

    def _content(self, span: Span) -> Content:
        """Of its layers, by those that end where it ends, each with one more before it."""
        layers = self.layers[span.stage]
        known = self._contents.setdefault((id(layers), span.end), [_NOTHING])
        while len(known) <= span.end - span.begin:
            known.append(self._with(known[-1], layers.layers[span.end - len(known)]))
        return known[span.end - span.begin]

    def _with(self, content: Content, layer: Layer) -> Content:
        """One more layer before these; the same object where both are the same."""
        key = id(content), id(layer)
        if key not in self._grown:
            self._grown[key] = content.behind(layer)
        return self._grown[key]
