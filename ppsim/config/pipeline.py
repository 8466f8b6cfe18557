"""The pipeline: how many ranks and microbatches, how many steps, what is recomputed and synced."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from ppsim.model import Model, OneOrMore, Whole, one_or_list
from ppsim.units import Factor, Size

Recompute = Literal["none", "full", "except_last"]


Stages = Annotated[
    Annotated[Literal["all"], Tag("<one>")] | Annotated[list[Whole], Tag("<list>")], Discriminator(one_or_list)
]


class Pipeline(Model):
    """Sizes of the pipeline and what happens around its ops."""

    ranks: Whole = Field(ge=1, le=1_000_000)
    """Devices in the pipeline (p)."""
    microbatches: Whole = Field(ge=1, le=100_000_000)
    """Microbatches per step and pipeline (m)."""
    steps: Whole = Field(1, ge=1, le=1_000_000)
    """Optimizer steps, back to back."""
    recompute: OneOrMore[Recompute] = "none"
    """What is recomputed before its backward, for all stages or per stage."""
    recompute_when: Literal["early", "late"] = "early"
    """Early: needs its own forward only, so that it fills a wait. Late: needs what its backward needs, too."""
    microbatch_weights: list[Factor] | None = None
    """A length per microbatch, 1 being the one that costs were given for: scales times, activations, messages."""
    data_parallel: Whole = Field(1, ge=1)
    """Copies of the whole pipeline, whose gradients are summed every step."""
    global_batch: Whole | None = Field(None, ge=1)
    """Samples per step: micro_batch_size · microbatches · data_parallel."""
    micro_batch_size: Whole | None = Field(None, ge=1)
    """Samples per microbatch."""
    grad_bucket: Size = Fraction(40_000_000)
    """Gradients are summed in buckets of this size."""
    batch_sync: Stages = Field([])
    """Stages with batch normalisation over the whole batch: the next stage waits for all their forwards."""

    def problems(self, stages: int) -> Iterator[tuple[str, str]]:
        """(key, what is wrong) for so many stages."""
        if isinstance(self.recompute, list) and len(self.recompute) != stages:
            yield "recompute", f"the list has {len(self.recompute)} values, there are {stages} stages"
        weights = self.microbatch_weights
        if weights is not None and len(weights) != self.microbatches:
            yield "microbatch_weights", f"the list has {len(weights)} values, there are {self.microbatches} microbatches"
        if self.batch_sync != "all":
            for index, stage in enumerate(self.batch_sync):
                if not 0 <= stage < stages:
                    yield f"batch_sync.{index}", f"stage {stage} is unknown; the stages are 0 to {stages - 1}"

    def recomputed(self, stage: int) -> Recompute:
        """What a stage recomputes."""
        return self.recompute[stage] if isinstance(self.recompute, list) else self.recompute

    def syncs(self, stage: int) -> bool:
        """Whether the stage normalises over the whole batch."""
        return self.batch_sync == "all" or stage in self.batch_sync
