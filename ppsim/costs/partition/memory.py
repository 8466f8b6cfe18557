"""Whether a rank's memory holds the layers that a split gives it, by what its order has alive at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from math import ceil
from typing import NamedTuple

import numpy as np

from ppsim.costs.layers import Layer, LayerCosts, transient
from ppsim.costs.partition.question import Span
from ppsim.ops import Kind, Orders
from ppsim.ops.placement import Placement

COMPUTES = (Kind.F, Kind.B, Kind.I, Kind.W)
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
    kept: list[np.ndarray] = []
    for row in rows[np.argsort(-rows[:, 2:].sum(axis=1), kind="stable")]:
        if not any(np.array_equal(row[:2], other[:2]) and np.all(row[2:] <= other[2:]) for other in kept):
            kept.append(row)
    return [row.tolist() for row in kept]


def _instant(row: list[int], stages: int) -> Instant:
    return Instant(Kind(row[0]), row[1], tuple(row[2 : 2 + stages]), tuple(row[2 + stages :]))


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
    _sums: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    _bursts: dict[tuple[int, int, int, str], int] = field(default_factory=dict)
    _answers: dict[tuple[int, tuple[Span, ...]], int] = field(default_factory=dict)

    def __call__(self, rank: int, spans: Sequence[Span]) -> int:
        """Bytes that these of its spans need beyond the memory of the device of ``rank``."""
        asked = rank, tuple(spans)
        if asked not in self._answers:
            self._answers[asked] = self.needed(rank, spans) - int(self.capacity)
        return self._answers[asked]

    def needed(self, rank: int, spans: Sequence[Span]) -> int:
        """The most bytes that these spans need on their rank, without what waits to be sent."""
        held = self.stages_of[rank]
        chunks = [held.index(span.stage) for span in spans]
        names = {name: size for span in spans for layer in self._held(span) for name, size in layer.buffers}
        static = sum(self._sum(span, key) for span in spans for key in STATIC) + ceil(sum(names.values()))
        kept = [self._sum(span, "kept" if self.recomputed[span.stage] else "activation") for span in spans]
        half = [self._sum(span, "held_for_weight_grad") for span in spans]
        running = {span.stage: span for span in spans}
        extra = {(kind, stage): self._while_it_runs(kind, span) for stage, span in running.items() for kind in COMPUTES}
        most = 0
        for instant in self.instants[rank]:
            alive = sum(instant.microbatches[c] * size for c, size in zip(chunks, kept, strict=True))
            waiting = sum(instant.halves[c] * size for c, size in zip(chunks, half, strict=True))
            most = max(most, alive + waiting + extra.get((instant.kind, instant.stage), 0))
        return static + most

    def _while_it_runs(self, kind: Kind, span: Span) -> int:
        """What an op needs beside what is alive: its input, what it rebuilds, its burst."""
        forward = kind == Kind.F
        layers = self.layers[span.stage].layers
        outside = span.begin - 1 if forward else span.end - 1
        incoming = layers[outside].message if 0 <= outside < len(layers) - 1 and kind != Kind.W else Fraction(0)
        again = Fraction(0)
        if self.recomputed[span.stage] and kind in (Kind.B, Kind.I):
            rebuilt = [layer.activation - layer.kept for layer in self._held(span)]
            again = max(rebuilt, default=Fraction(0)) if self.layer_by_layer else sum(rebuilt, Fraction(0))
        return ceil(incoming + again) + self._burst(span, "transient_forward" if forward else "transient_backward")

    def _held(self, span: Span) -> Sequence[Layer]:
        return self.layers[span.stage].layers[span.begin : span.end]

    def _sum(self, span: Span, key: str) -> int:
        if (span.stage, key) not in self._sums:
            values = (ceil(getattr(layer, key)) for layer in self.layers[span.stage].layers)
            self._sums[span.stage, key] = list(accumulate(values, initial=0))
        sums = self._sums[span.stage, key]
        return sums[span.end] - sums[span.begin]

    def _burst(self, span: Span, key: str) -> int:
        asked = (span.stage, span.begin, span.end, key)
        if asked not in self._bursts:
            self._bursts[asked] = ceil(transient(self._held(span), key))
        return self._bursts[asked]
