"""TransformerCosts: stage costs from a model, its device and how it is cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from ppsim.costs.base import StageCosts
from ppsim.costs.layers import LayerCosts
from ppsim.costs.partition.rows import Rows, uniform
from ppsim.costs.setting import Recompute, Setting
from ppsim.costs.transformer import build
from ppsim.costs.transformer.device import device, spans
from ppsim.costs.transformer.settings import TransformerSettings

BY_MODE = ("recompute", "stage_input", "rebuilt")
"""What depends on what a stage recomputes."""


class TransformerCosts(TransformerSettings):
    """What the ops of a transformer's stages cost, from its sizes and the device's rates."""

    kind: Literal["transformer"]

    @cached_property
    def layers(self) -> int:
        """Layers that are shared out to stages: decoder layers and those of multi-token prediction."""
        return self.model.layers + self.model.mtp

    def problems(self, setting: Setting) -> Iterator[tuple[str, str]]:
        """(key, what is wrong) with these costs on these stages and devices."""
        wrong = list(self.misfits())
        yield from wrong
        if not wrong:
            yield from self.replica_misfits(setting.data_parallel)
        if setting.cluster.device.peak(self.product_type) is None:
            given = setting.cluster.device
            known = [given.peak_dtype] * (given.peak_flops is not None) + list(given.peaks)
            yield (
                "kind",
                f"a model's times follow from the device's peak rate in {self.product_type}"
                + (f", and {given.like or 'the device'} has it in {', '.join(known)} alone" if known else "")
                + "; give cluster.device, a row of `ppsim list devices` or {peak_flops: 989 TFLOP/s}",
            )
        named = setting.cluster.intra_node is not None or setting.cluster.inter_node is not None
        if self.devices * self.expert_parallel > 1 and self.efficiency.collective is None and not named:
            yield (
                "tensor_parallel" if self.tensor_parallel > 1 else "context_parallel",
                "what the devices of a rank send each other needs a link: give cluster.intra_node, or 'free', or "
                "efficiency.collective",
            )

    def layer_costs(self, setting: Setting, recompute: Recompute = "none") -> LayerCosts:
        """What every layer costs on one device, embedding and head among them."""
        modules = {"none": frozenset(), "selective": frozenset(self.recompute_modules)}.get(recompute, build.WHOLE)
        return build.layer_costs(device(self, setting), modules)

    def stage_costs(self, setting: Setting) -> StageCosts:
        """Costs per stage, of a slice of a microbatch where these are cut."""
        stages_of = setting.placement.stages_of
        split = setting.split or uniform(Rows.of(self.layer_costs(setting)), setting.placement.stages)
        none: Recompute = "none"
        modes = setting.recompute or (none,) * setting.placement.stages
        by_mode = {mode: self.layer_costs(setting, mode).stage_costs(split, stages_of) for mode in dict.fromkeys(modes)}
        first = by_mode[modes[0]]
        mixed: dict[str, Any] = {
            key: tuple(getattr(by_mode[mode], key)[stage] for stage, mode in enumerate(modes)) for key in BY_MODE
        }
        costs = replace(first, **mixed)
        if not setting.layer_by_layer:
            costs = replace(costs, rebuilt=())
        if setting.placement.replicated:  # the copies in a pipeline sum whole gradients, too
            costs = replace(costs, synced=())
        return costs.scaled(Fraction(1, setting.parts)) if setting.parts > 1 else costs

    def spans(self, data_parallel: int) -> dict[str, int]:
        """Devices that stand side by side from a group's first to its last."""
        return {str(group): span for group, span in spans(self, data_parallel).items()}
