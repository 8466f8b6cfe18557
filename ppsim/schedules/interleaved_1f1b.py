"""Interleaved 1F1B: several stages per rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field

from ppsim._model import Flag, Whole
from ppsim.errors import Notice
from ppsim.ops import Grid, Kind, Longs, Ops, Orders, concat, fuse, ops
from ppsim.ops.placement import Placement, loop
from ppsim.schedules import theory
from ppsim.schedules.base import Batched, Problem, Rank, Schedule
from ppsim.schedules.one_f_one_b import fewer_microbatches_than_ranks


def default_group(ranks: int, microbatches: int) -> int:
    """Microbatches per group: p where p divides m, else the smallest N >= p whose last group is whole or has >= p.

    This is PyTorch's choice wherever PyTorch accepts the sizes; m where m < p.
    """
    if microbatches < ranks:
        return microbatches
    return next(n for n in range(ranks, microbatches + 1) if not 0 < microbatches % n < ranks)


def group_table(microbatches: int, chunks: int, group: int) -> tuple[Longs, Longs]:
    """(chunk, microbatch) of each forward in order: groups of microbatches, chunk after chunk inside a group."""
    first = np.arange(0, microbatches, group)
    size = np.minimum(group, microbatches - first)
    per_group = size * chunks
    start = np.repeat(np.cumsum(per_group) - per_group, per_group)
    inside = np.arange(microbatches * chunks) - start
    sizes = np.repeat(size, per_group)
    return inside // sizes, np.repeat(first, per_group) + inside % sizes


class Grouped(Schedule):
    """What schedules over ``virtual_stages`` chunks per rank share, whose ops go in groups of microbatches."""

    virtual_stages: Whole = Field(2, ge=1)
    """Stages per rank (v)."""
    group: Whole | None = Field(None, ge=1)
    """Microbatches that a chunk runs before the next chunk does (default: the smallest that costs nothing)."""

    @property
    def _unsplit_chunks(self) -> int | None:
        """Chunks per rank, where their backwards aren't split."""
        return None

    @property
    def saves_memory(self) -> str:
        """Fewer stages per rank."""
        return "fewer schedule.virtual_stages"

    def group_of(self, ranks: int, microbatches: int) -> int:
        """The group's size: as given, or the smallest that costs nothing."""
        return self.group or default_group(ranks, microbatches)

    def placement(self, ranks: int) -> Placement:
        """Stage s on rank s mod p."""
        return loop(ranks, self.virtual_stages)

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """A group is at most m."""
        if self.group is not None and self.group > microbatches:
            yield "schedule.group", f"{self.group} is more than the {microbatches} microbatches; at most {microbatches}"

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """M < p, a group smaller than p, a last group smaller than p."""
        yield from fewer_microbatches_than_ranks(ranks, microbatches, self._unsplit_chunks)
        if self.virtual_stages == 1 or microbatches < ranks:
            return
        group, best = self.group_of(ranks, microbatches), default_group(ranks, microbatches)
        sizes = [group] * (microbatches // group) + ([microbatches % group] if microbatches % group else [])
        if group < ranks:
            yield Notice(
                "small_group",
                "schedule.group",
                f"groups of {group} are smaller than the {ranks} ranks: ranks wait for each other inside "
                f"a group, and the order may deadlock; Megatron refuses it; group {best} costs nothing",
            )
        elif sizes[-1] < ranks:
            yield Notice(
                "ragged_group",
                "schedule.group",
                f"the last of the groups {_sizes(sizes)} has only {sizes[-1]} of them, fewer than the {ranks} ranks: "
                f"the pipeline runs dry between the chunks of that group, up to {ranks - sizes[-1]} microbatches' "
                f"worth per chunk; Megatron and PyTorch refuse it; group {best} costs nothing",
            )

    def alternative(self, ranks: int, microbatches: int) -> tuple[str, Schedule] | None:
        """The group that costs nothing, where a group is smaller than p."""
        group, best = self.group_of(ranks, microbatches), default_group(ranks, microbatches)
        if self.virtual_stages == 1 or group == best or not (group < ranks or 0 < microbatches % group < ranks):
            return None
        return f"group {best}", self.model_copy(update={"group": best})

    def deadlock_hint(self, problem: Problem) -> str | None:
        """A group smaller than p."""
        ranks, microbatches = problem.ranks, problem.microbatches
        group = self.group_of(ranks, microbatches)
        if self.virtual_stages == 1 or group >= min(ranks, microbatches):
            return None
        return (
            f"schedule.group: groups of {group} microbatches are the cause: with fewer than the {ranks} ranks, a later "
            f"rank comes to a backward that waits for rank 0, which is still in its warm-up and waits for that rank; "
            f"use {ranks} or more (group {default_group(ranks, microbatches)} costs nothing)"
        )


class Interleaved1F1B(Grouped, Batched):
    """1F1B over ``virtual_stages`` chunks per rank: v times smaller bubble, v times as many messages.

    Source: Narayanan et al. 2021 (Megatron-LM), arXiv 2104.04473, section 2.2.2 and figure 4; ``combined`` is the order
    of Megatron-LM core's combined_1f1b (--overlap-moe-expert-parallel-comm).
    """

    name: Literal["interleaved_1f1b"] = "interleaved_1f1b"
    combined: Flag = False
    """One more warm-up forward, and each pair of forward and backward fused, so that one's communication hides behind
    the other's computation."""

    @property
    def _unsplit_chunks(self) -> int | None:
        return None if self.combined else self.virtual_stages

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """A group is at most m; fused pairs need two chunks, whose ops don't wait for each other."""
        yield from super().problems(ranks, microbatches)
        if self.combined and self.virtual_stages == 1:
            yield "schedule.combined", "fuses the ops of different chunks; virtual_stages is 1, at least 2"

    def notices(self, ranks: int, microbatches: int) -> Iterator[Notice]:
        """M < p, a group smaller than p, a last group smaller than p, v = 1."""
        yield from super().notices(ranks, microbatches)
        if self.virtual_stages == 1:
            yield Notice(
                "one_virtual_stage",
                "schedule.virtual_stages",
                "v = 1: equals 1f1b (PyTorch's own class runs eager_1f1b at v = 1)",
            )

    def theory(self) -> theory.Form | None:
        """(p-1)(F+B)/v of idle time, where every group has at least p microbatches."""
        if self.group is not None:
            return None
        return theory.COMBINED if self.combined else theory.INTERLEAVED

    def orders(self, problem: Problem) -> Orders:
        """Warm-up forwards, pairs, the remaining backwards; ops go in groups of microbatches, chunk after chunk."""
        v = self.virtual_stages
        group = self.group_of(problem.ranks, problem.microbatches)
        chunk, number = group_table(problem.microbatches, v, group)
        warmup = [self.warmup(problem.ranks, problem.microbatches, rank) for rank in range(problem.ranks)]
        stages = np.array(problem.placement.stages_of, np.int32)
        microbatch = number.astype(np.int32)
        if not self.combined:
            forwards = Grid(Kind.F, stages[:, chunk], microbatch)
            return Orders.in_turn(forwards, Grid(Kind.B, stages[:, v - 1 - chunk], microbatch), warmup)

        def order(rank: Rank) -> Ops:
            forward = ops(Kind.F, stages[rank.index, chunk], microbatch)
            backward = ops(Kind.B, stages[rank.index, v - 1 - chunk], microbatch)
            warm, steady = warmup[rank.index], len(forward) - warmup[rank.index]
            return concat(forward[:warm], fuse(forward[warm:], backward[:steady]), backward[steady:])

        return problem.per_rank(order)

    def warmup(self, ranks: int, microbatches: int, rank: int) -> int:
        """Forwards of a rank before its pairs of one forward and one backward."""
        v, later = self.virtual_stages, ranks - 1 - rank
        # At v = 1 the two ways of counting the warm-up part: Megatron's own non-interleaved 1F1B does half of it.
        lead = later if v == 1 else 2 * later + (v - 1) * self.group_of(ranks, microbatches)
        return min(lead + self.combined, microbatches * v)

    def fused_warmup(self, ranks: int, microbatches: int, rank: int) -> int | None:
        """The warm-up; none for the combined form, whose pairs are one op."""
        return None if self.combined else self.warmup(ranks, microbatches, rank)

    def fused_problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """A last group smaller than p, for which Megatron's batches have no partners, so that it refuses it.

        Source: Megatron-LM core, pipeline_parallel/schedules.py, forward_backward_pipelining_with_interleaving.
        """
        group = self.group_of(ranks, microbatches)
        left = microbatches % group
        if self.virtual_stages == 1 or not 0 < left < ranks:
            return
        more = microbatches - left + min(group, ranks)
        near = next(
            n
            for far in range(microbatches)
            for n in (group - far, group + far)
            if min(ranks, microbatches) <= n <= microbatches and not 0 < microbatches % n < ranks
        )
        yield (
            "schedule.group",
            f"groups of {group} leave {left} of the {microbatches} microbatches to the last one, fewer than the "
            f"{ranks} ranks: with fused batches Megatron refuses that; group {near} works, or {microbatches - left} or "
            f"{more} microbatches, or runtime.p2p: separate",
        )


def _sizes(sizes: list[int]) -> str:
    return "+".join(map(str, sizes)) if len(sizes) <= 6 else f"{sizes[0]}+…+{sizes[-1]}"
