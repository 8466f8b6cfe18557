"""The pipeline: how many ranks and microbatches, how many steps, what is recomputed and synced."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import prod
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from ppsim._model import Model, OneOrMore, Whole, one_or_list
from ppsim.costs.setting import Recompute
from ppsim.units import Factor, Size

Stages = Annotated[
    Annotated[Literal["all"], Tag("<one>")] | Annotated[list[Whole], Tag("<list>")], Discriminator(one_or_list)
]


FACTORS = ("micro_batch_size", "microbatches", "data_parallel")
"""Their product is ``global_batch``."""


def _may_be_derived(schema: dict[str, Any]) -> None:
    schema["required"].remove("microbatches")


class Pipeline(Model):
    """Sizes of the pipeline and what happens around its ops.

    ``global_batch = micro_batch_size · microbatches · data_parallel``: any one of them follows from the others.
    """

    model_config = ConfigDict(json_schema_extra=_may_be_derived)

    ranks: Whole = Field(ge=1, le=1_000_000)
    """Devices in the pipeline (p)."""
    microbatches: Whole = Field(ge=1, le=100_000_000)
    """Microbatches per step and pipeline (m); or given by ``global_batch`` and ``micro_batch_size``."""
    layers: Whole | None = Field(None, ge=1, le=100_000)
    """Layers of the model, shared out to the stages by `partition` (with costs from a model: those of the model)."""
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
    """Samples per step, over all copies of the pipeline."""
    micro_batch_size: Whole | None = Field(None, ge=1)
    """Samples per microbatch."""
    grad_bucket: Size = Fraction(40_000_000)
    """Gradients are summed in buckets of this size."""
    batch_sync: Stages = Field([])
    """Stages with batch normalisation over the whole batch: the next stage waits for all their forwards."""

    @model_validator(mode="before")
    @classmethod
    def _derive_sizes(cls, settings: Any) -> Any:
        return {**settings, **_missing_size(settings)} if isinstance(settings, dict) else settings

    def problems(self, stages: int) -> Iterator[tuple[str, str]]:
        """(key, what is wrong) for so many stages."""
        sizes = {name: getattr(self, name) for name in FACTORS}
        if self.global_batch is not None and self.global_batch != prod(size or 1 for size in sizes.values()):
            yield (
                "global_batch",
                f"global_batch = {' · '.join(sizes)} doesn't hold: {self.global_batch} is not "
                f"{' · '.join(map(str, sizes.values()))} = {prod(sizes.values())}; leave one of them out and it is "
                "derived",
            )
        if isinstance(self.recompute, list) and len(self.recompute) != stages:
            yield "recompute", f"the list has {len(self.recompute)} values, there are {stages} stages"
        weights = self.microbatch_weights
        if weights is not None and len(weights) != self.microbatches:
            m = self.microbatches
            yield "microbatch_weights", f"the list has {len(weights)} values, there are {m} microbatches"
        if self.batch_sync != "all":
            for index, stage in enumerate(self.batch_sync):
                if not 0 <= stage < stages:
                    yield f"batch_sync.{index}", f"stage {stage} is unknown; the stages are 0 to {stages - 1}"

    def recomputed(self, stage: int) -> Recompute:
        """What a stage recomputes."""
        return self.recompute[stage] if isinstance(self.recompute, list) else self.recompute

    def recomputed_by_stage(self, stages: int) -> tuple[Recompute, ...]:
        """What each of so many stages recomputes."""
        return tuple(self.recompute) if isinstance(self.recompute, list) else (self.recompute,) * stages

    def syncs(self, stage: int) -> bool:
        """Whether the stage normalises over the whole batch."""
        return self.batch_sync == "all" or stage in self.batch_sync


def _missing_size(settings: dict[str, Any]) -> dict[str, int]:
    """The one size that follows from the others, or nothing; of two that could, data_parallel is 1."""
    sizes = {name: settings.get(name) for name in (*FACTORS, "global_batch")}
    given = {name: size for name, size in sizes.items() if size is not None}
    if any(type(size) is not int or size < 1 for size in given.values()):
        return {}
    missing = [name for name in sizes if name not in given]
    if len(missing) > 1 and "data_parallel" in missing:
        missing.remove("data_parallel")
        given["data_parallel"] = 1
    if len(missing) != 1:
        return {}
    name = missing[0]
    if name == "global_batch":
        return {name: prod(given.values())}
    whole = given.pop("global_batch")
    size, rest = divmod(whole, prod(given.values()))
    if rest or not size:
        by, step = " · ".join(given), prod(given.values())
        fits = [str(n * step) for n in (size, size + 1) if n]
        raise _mistake(
            "global_batch",
            f"{name} = global_batch / ({by}) = {whole} / ({' · '.join(map(str, given.values()))}) is not a whole "
            f"number; global_batch {' or '.join(fits)} works",
            whole,
        )
    return {name: size}


def _mistake(key: str, message: str, value: object) -> ValidationError:
    """What is wrong with one key, from a validator of them all."""
    error = PydanticCustomError("value_error", "{error}", {"error": message})
    return ValidationError.from_exception_data("Pipeline", [InitErrorDetails(type=error, loc=(key,), input=value)])
