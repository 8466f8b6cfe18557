"""The whole experiment: one frozen model made of the settings of every part."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from pydantic import (
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from ppsim._model import Model
from ppsim.config.agreement import Ask, anew, disagreements
from ppsim.config.mistakes import Mistake, config_error, from_pydantic
from ppsim.config.pipeline import Pipeline
from ppsim.config.runtime import Runtime, RuntimeField, expanded
from ppsim.config.schedulefield import ScheduleField
from ppsim.config.splitting import (
    Parts,
    Split,
    parts_of,
    planned,
    seated,
    split,
    with_split,
)
from ppsim.config.sweep import Sweep
from ppsim.config.uncertainty import Uncertainty
from ppsim.costs import KINDS, AnyCosts, CostsField, GivenCosts, ProfileCosts, Setting, TransformerCosts
from ppsim.costs.base import StageCosts
from ppsim.costs.partition.field import Partition
from ppsim.hardware.cluster import Cluster, Topology
from ppsim.ops.placement import Placement
from ppsim.schedules import Problem, Schedule
from ppsim.schedules.from_file import FromFile

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Experiment(Model):
    """One experiment: a schedule of a pipeline, what its ops cost, what it runs on."""

    name: str = Field("experiment", pattern=f"^{NAME.pattern}$", max_length=100)
    """Name of the results' folder (default: the file's name)."""
    schedule: ScheduleField
    """The schedule: its name, or {name: …} with its settings."""
    pipeline: Pipeline
    """Sizes of the pipeline and what happens around its ops."""
    costs: CostsField
    """What an op takes, sends and holds."""
    cluster: Cluster | None = None
    """Devices and links (default: free links and no limit of memory)."""
    partition: Partition | None = None
    """How the layers are shared out to stages: `uniform` (default; of a profile: `balanced`), `balanced` by time within
    the devices' memory, `pipedream` with replicas, a list of layers per stage, or a Megatron layout."""
    runtime: RuntimeField = Runtime()
    """What the framework does: a preset's name, or settings."""
    uncertainty: Uncertainty | None = None
    """Random times, slow ranks, and how often the run is repeated with them."""
    sweep: Sweep | None = None
    """What `ppsim sweep` varies; `ppsim run` runs the base case."""

    def __init__(self, /, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            mistakes = list(from_pydantic(error, type(self)))
            wrong = {mistake.place[0] for mistake in mistakes}
            right = {key: value for key, value in settings.items() if key not in wrong}
            parts = {key: part for key, part in _validated(right).items() if key not in wrong}
            raise config_error([*mistakes, *type(self).wrong(parts)]) from None

    @model_validator(mode="before")
    @classmethod
    def _preset_of_schedule(cls, settings: Any) -> Any:
        return _with_preset(settings) if isinstance(settings, dict) else settings

    @model_validator(mode="after")
    def _parts_agree(self) -> Experiment:
        parts = {key: getattr(self, key) for key in type(self).model_fields}
        parts["schedule"] = self.__dict__["schedule"] = planned(parts)
        if wrong := type(self).wrong(parts):
            raise config_error(wrong)
        return self

    @classmethod
    def wrong(cls, parts: Mapping[str, Any], ask: Ask = anew) -> list[Mistake]:
        """What is wrong between parts that are right by themselves; ``ask`` may remember what it was asked before."""
        sweep = parts.get("sweep")
        of_sweep = sweep.all_problems(cls) if isinstance(sweep, Sweep) else ()
        found = [Mistake(("sweep", *place), text) for place, text in of_sweep]
        return [*found, *disagreements(parts, ask)]

    @property
    def placement(self) -> Placement:
        """Which stages each rank holds."""
        return self.schedule.placement(self.pipeline.ranks)

    def _parts(self, schedule: Schedule | None = None) -> Parts:
        return parts_of(self.costs, schedule or self.schedule, self.pipeline, self.cluster)

    def split(self, schedule: Schedule | None = None) -> Split | None:
        """What of the model each stage holds; None where costs are given for stages without layers."""
        return split(self.partition, self._parts(schedule))

    def setting(self, schedule: Schedule | None = None) -> Setting:
        """What costs depend on beside their own settings."""
        return with_split(self.partition, self._parts(schedule))

    def files(self) -> dict[str, Path]:
        """The files that the config names, by the name under which a run keeps a copy."""
        found = self.schedule.files() if isinstance(self.schedule, FromFile) else {}
        return {**found, **(self.costs.files() if isinstance(self.costs, ProfileCosts) else {})}

    @property
    def samples_per_step(self) -> int | None:
        """Samples of one step, over all replicas; None where the micro-batch size isn't known."""
        pipeline = self.pipeline
        if pipeline.global_batch is not None:
            return pipeline.global_batch
        size = pipeline.micro_batch_size
        if size is None and isinstance(self.costs, TransformerCosts):
            size = 1
        return None if size is None else size * pipeline.microbatches * pipeline.data_parallel

    @property
    def tokens_per_sample(self) -> int | None:
        """Tokens of a sequence, where costs follow from a model."""
        return self.costs.tokens if isinstance(self.costs, TransformerCosts) else None

    def sizes_known(self, costs: StageCosts) -> bool:
        """Whether activations and weights, which every training holds, are among the costs of these stages."""
        if isinstance(self.costs, GivenCosts):
            return not self.costs.unknown_memory
        return any(costs.activation) and any(costs.weights)

    @property
    def peak_flops(self) -> Fraction | None:
        """The device's peak rate in the type of a model's products."""
        if self.cluster is None or not isinstance(self.costs, TransformerCosts):
            return None
        return self.cluster.device.peak(self.costs.product_type)

    def topology(self) -> Topology:
        """The cluster with this pipeline's ranks on it."""
        return Topology(seated(self.cluster or Cluster(), self.costs, self.pipeline), self.pipeline.ranks)

    def with_schedule(self, schedule: Schedule) -> Experiment:
        """This experiment under another schedule, with the runtime's preset as it is for that one.

        Raises ConfigError where they don't agree.
        """
        runtime = self.runtime.for_schedule(self.schedule.name, schedule.name)
        return self._changed(schedule=schedule, runtime=runtime)

    def with_partition(self, rule: Any) -> Experiment:
        """This experiment with its layers shared out otherwise. Raises ConfigError where that can't be."""
        return self._changed(partition=rule)

    def _changed(self, **parts: Any) -> Experiment:
        changed = self.model_copy(update=parts)
        found = {key: getattr(changed, key) for key in type(self).model_fields if key not in ("sweep", "uncertainty")}
        if wrong := type(self).wrong(found):
            raise config_error(wrong)
        return changed

    def problem(
        self, compiled: bool = False, costs_of: Callable[[AnyCosts, Setting], StageCosts] | None = None
    ) -> Problem:
        """Sizes and stage costs; ``compiled`` where the run has chosen the compiled engine.

        ``costs_of(costs, setting)`` may give the stages' costs where they are known already.
        """
        schedule, parts = self.schedule, self._parts()
        setting, slices = with_split(self.partition, parts), schedule.cut()
        placement = setting.placement
        costs = self.costs.stage_costs(setting) if costs_of is None else costs_of(self.costs, setting)
        return Problem(
            ranks=self.pipeline.ranks,
            microbatches=self.pipeline.microbatches * len(slices),
            placement=placement,
            costs=costs if schedule.trains else costs.without_training(),
            steps=self.pipeline.steps,
            stream=schedule.asynchronous,
            update_every=self.pipeline.microbatches if schedule.double_buffered else 1,
            slices=slices,
            topology=None if self.cluster is None else parts.topology,
            op_overhead=self.runtime.op_overhead,
            compiled=compiled,
            room=self.cluster.device.memory if self.cluster is not None and self.pipeline.recompute == "none" else None,
        )


def _with_preset(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the runtime's preset as it is for their schedule; what is wrong with it is found later."""
    schedule, runtime = settings.get("schedule"), settings.get("runtime")
    name = schedule.get("name") if isinstance(schedule, Mapping) else getattr(schedule, "name", schedule)
    try:
        return dict(settings) if runtime is None else {**settings, "runtime": expanded(runtime, str(name))}
    except ValueError:
        return dict(settings)


def _validated(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those sections by themselves, so that a mistake in one doesn't hide what is wrong between others."""
    models: dict[str, type[Model]] = {
        "pipeline": Pipeline, "costs": _kind_of(settings.get("costs")), "cluster": Cluster, "sweep": Sweep,
        "uncertainty": Uncertainty,
    }  # fmt: skip
    parts = {key: model.model_validate(settings[key]) for key, model in models.items() if settings.get(key) is not None}
    parts["partition"] = _ONE_PARTITION.validate_python(settings.get("partition"))
    if "schedule" in settings:
        parts["schedule"] = _ONE_SCHEDULE.validate_python(settings["schedule"])
    return parts


def _kind_of(costs: Any) -> type[Model]:
    """The model of costs of that kind."""
    kind = costs.get("kind", "given") if isinstance(costs, Mapping) else getattr(costs, "kind", "given")
    return KINDS[kind]


_ONE_PARTITION: TypeAdapter[Any] = TypeAdapter(Partition | None)
_ONE_SCHEDULE: TypeAdapter[Schedule] = TypeAdapter(ScheduleField)
