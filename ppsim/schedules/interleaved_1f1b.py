"""Interleaved 1F1B: several stages per rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ppsim import theory
from ppsim.errors import Notice
from ppsim.model import Whole
from ppsim.ops import Kind, Ops, Orders, alternate, concat, ops
from ppsim.schedules.base import Problem, Rank, Schedule
from ppsim.schedules.one_f_one_b import fewer_microbatches_than_ranks
from ppsim.placement import Placement, loop

Index = NDArray[np.int64]


def default_group(ranks: int, microbatches: int) -> int:
    """Microbatches per group: p where p divides m, else the smallest N >= p whose last group is whole or has >= p.

    This is PyTorch's choice wherever PyTorch accepts the sizes; m where m < p.
    """
    if microbatches < ranks:
        return microbatches
    return next(n for n in range(ranks, microbatches + 1) if not 0 < microbatches % n < ranks)


def group_table(microbatches: int, chunks: int, group: int) -> tuple[Index, Index]:
    """(chunk, microbatch) of each forward in order: groups of microbatches, chunk after chunk inside a group."""
    first = np.arange(0, microbatches, group)
    size = np.minimum(group, microbatches - first)
    per_group = size * chunks
    start = np.repeat(np.cumsum(per_group) - per_group, per_group)
    inside = np.arange(microbatches * chunks) - start
    sizes = np.repeat(size, per_group)
    return inside // sizes, np.repeat(first, per_group) + inside % sizes


class Interleaved1F1B(Schedule):
    """1F1B over ``virtual_stages`` chunks per rank: v times smaller bubble, v times as many messages.

    Source: Narayanan et al. 2021 (Megatron-LM), arXiv 2104.04473, section 2.2.2 and figure 4.
    """

    name: Literal["interleaved_1f1b"] = "interleaved_1f1b"
    virtual_stages: Whole = Field(2, ge=1)
    """Stages per rank (v)."""
    group: Whole | None = Field(None, ge=1)
    """Microbatches that a chunk runs before the next chunk does (default: the smallest that costs nothing)."""

    def placement(self, ranks: int) -> Placement:
        """Stage s on rank s mod p."""
        return loop(ranks, self.virtual_stages)

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """A group is at most m."""
        if self.group is not None and self.group > microbatches:
            yield "schedule.group", f"{self.group} is more than the {microbatches} microbatches; at most {microbatches}"

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """M < p, a group smaller than p, a last group smaller than p, v = 1."""
        yield from fewer_microbatches_than_ranks(ranks, microbatches)
        if self.virtual_stages == 1:
            yield Notice(
                "one_virtual_stage",
                "schedule.virtual_stages",
                "v = 1: equals 1f1b (PyTorch's own class runs eager_1f1b at v = 1)",
            )
            return
        group = self.group or default_group(ranks, microbatches)
        best = default_group(ranks, microbatches)
        sizes = [group] * (microbatches // group) + ([microbatches % group] if microbatches % group else [])
        if microbatches < ranks:
            return
        if group < ranks:
            yield Notice(
                "small_group",
                "schedule.group",
                f"groups of {group} microbatches are smaller than the {ranks} ranks: ranks wait for each other inside a "
                f"group, and the order may deadlock; group {best} costs nothing",
            )
        elif sizes[-1] < ranks:
            yield Notice(
                "ragged_group",
                "schedule.group",
                f"the last of the groups {_sizes(sizes)} has {sizes[-1]} microbatches, fewer than the {ranks} ranks: the "
                f"pipeline runs dry between the chunks of that group, up to {ranks - sizes[-1]} microbatches' worth per "
                f"chunk; Megatron and PyTorch refuse it; group {best} costs nothing",
            )

    def theory(self) -> theory.Form | None:
        """(p-1)(F+B)/v of idle time, where every group has at least p microbatches."""
        return theory.INTERLEAVED if self.group is None else None

    def orders(self, problem: Problem) -> Orders:
        """Warm-up forwards, pairs, the remaining backwards; ops go in groups of microbatches, chunk after chunk."""
        v, p = self.virtual_stages, problem.ranks
        group = self.group or default_group(p, problem.microbatches)
        chunk, microbatch = group_table(problem.microbatches, v, group)

        def order(rank: Rank) -> Ops:
            stages = np.array(rank.stages)
            forward = ops(Kind.F, stages[chunk], microbatch)
            backward = ops(Kind.B, stages[v - 1 - chunk], microbatch)
            # At v = 1 the two ways of counting the warm-up part: Megatron's own non-interleaved 1F1B does half of it.
            lead = rank.distance_to_last if v == 1 else 2 * rank.distance_to_last + (v - 1) * group
            warm = min(lead, len(forward))
            steady = len(forward) - warm
            return concat(forward[:warm], alternate(forward[warm:], backward[:steady]), backward[steady:])

        return problem.per_rank(order)


def _sizes(sizes: list[int]) -> str:
    return "+".join(map(str, sizes)) if len(sizes) <= 6 else f"{sizes[0]}+…+{sizes[-1]}"
