"""Seq1F1B: 1F1B over slices of the sequence."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Literal

import numpy as np
from pydantic import Field

from ppsim._model import Whole
from ppsim.errors import Notice
from ppsim.ops import Orders
from ppsim.schedules import theory
from ppsim.schedules.base import Problem, Schedule, Slice
from ppsim.schedules.one_f_one_b import fewer_microbatches_than_ranks, warm_up_and_alternate
from ppsim.units import Factor


class Seq1F1B(Schedule):
    """1F1B whose unit is a slice of a microbatch's sequence: a k-th of the bubble and of the activations of 1F1B.

    A slice attends to all slices before it: its forward comes after theirs, its backward before theirs. So backwards
    take the oldest microbatch, its last slice first. In an op, ``2F5`` is slice 5 mod k of microbatch 5 div k.
    Source: Sun et al. 2024 (Seq1F1B), arXiv 2406.03488, section 3, equation 4 and figure 3.
    """

    name: Literal["seq1f1b"] = "seq1f1b"
    slices: Whole = Field(4, ge=1, le=10_000)
    """Slices per sequence (k)."""
    attention: Factor | None = None
    """Share of a whole sequence's time that is attention, which grows with the position in it: s / (6h + s) for
    sequence length s and hidden size h (default: none, all slices of one length cost the same)."""
    lengths: list[Factor] | None = None
    """Relative lengths of the slices (default: equal), such as shorter ones at the end so that all take as long."""

    def cut(self) -> tuple[Slice, ...]:
        """Length and time of each slice: causal attention over a prefix x of the sequence takes x² of its time."""
        lengths = self.lengths or [Fraction(1)] * self.slices
        bounds = [length / sum(lengths) for length in accumulate(lengths, initial=Fraction(0))]
        share = self.attention or Fraction(0)
        return tuple(Slice(b - a, (1 - share) * (b - a) + share * (b * b - a * a)) for a, b in pairwise(bounds))

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """A length per slice; a share of at most 1."""
        if self.lengths is not None and len(self.lengths) != self.slices:
            yield "schedule.lengths", f"the list has {len(self.lengths)} values, there are {self.slices} slices"
        if self.attention is not None and self.attention > 1:
            yield "schedule.attention", f"{float(self.attention):g} is a share; at most 1"

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """Fewer slices than ranks."""
        return fewer_microbatches_than_ranks(ranks, microbatches * self.slices, name="m · slices")

    def theory(self) -> theory.Form | None:
        """(p-1)(F+B)/k of idle time, for slices that take equally long."""
        return theory.SLICES if len({part.time for part in self.cut()}) == 1 else None

    @property
    def saves_memory(self) -> str:
        """Shorter slices."""
        return "more schedule.slices"

    def orders(self, problem: Problem) -> Orders:
        """Warm-up forwards (k-1 more than 1F1B), pairs of forward and backward, the remaining backwards."""
        last_slice_first = np.arange(problem.microbatches).reshape(-1, self.slices)[:, ::-1].ravel()
        return warm_up_and_alternate(
            problem, lambda rank: problem.ranks - 1 - rank + self.slices, backwards=last_slice_first
        )
