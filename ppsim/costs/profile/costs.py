"""ProfileCosts: stage costs from measured layers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, field_serializer

from ppsim import _textfile as textfile
from ppsim._model import Model, Whole
from ppsim.costs.base import StageCosts
from ppsim.costs.layers import Layer, LayerCosts
from ppsim.costs.message import DTYPE_BYTES
from ppsim.costs.partition.rows import Rows, uniform
from ppsim.costs.profile import graph, table
from ppsim.costs.profile.measured import LIMIT, MeasuredLayer
from ppsim.costs.setting import Recompute, Setting
from ppsim.costs.transformer.settings import Precision
from ppsim.errors import ConfigError, printable
from ppsim.units import Factor

ONE = Fraction(1)


class Scale(Model):
    """Factors from what was profiled to what is simulated: another device, another way to keep activations."""

    times: Factor = ONE
    """Of all times: 0.5 for a device twice as fast."""
    activation: Factor = ONE
    """Of what a forward keeps."""
    message: Factor = ONE
    """Of what crosses a cut."""
    parameters: Factor = ONE
    """Of weights, and so of gradients and the optimizer's state."""


class ProfileCosts(Model):
    """What the ops of stages cost, from layers that were measured: a table of our own, or PipeDream's graph.txt."""

    kind: Literal["profile"]
    path: Path
    """The profile; relative to the config that names it."""
    micro_batch_size: Whole | None = Field(None, ge=1)
    """The micro-batch size that was profiled; another one scales times, activations and messages."""
    scale: Scale = Scale()
    """Factors to another device."""
    precision: Precision = Precision(weights="fp32", gradients="fp32", optimizer="sgd")
    """Types of weights and gradients; what the optimizer keeps per parameter."""
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")
    """Of the profile's content; a resolved config has it, so that a changed file is noticed."""

    @field_serializer("path", when_used="json")
    def _beside_the_config(self, path: Path) -> str:
        return self._kept_name

    @field_serializer("sha256", when_used="json")
    def _digest(self, _: str | None) -> str:
        return self._content_sha256

    @property
    def _kept_name(self) -> str:
        return f"profile-{printable(self.path.name)}"

    @cached_property
    def _text(self) -> str:
        return textfile.read(self.path, "a profile", LIMIT)

    @cached_property
    def _content_sha256(self) -> str:
        return hashlib.sha256(self._text.encode()).hexdigest()

    @cached_property
    def measured(self) -> list[MeasuredLayer]:
        """The layers of the file. Raises ConfigError, a line per mistake."""
        read = graph.read if graph.recognised(self._text) else table.read
        return read(self._text, printable(str(self.path)))

    @property
    def layers(self) -> int:
        """Layers that are shared out to stages."""
        return len(self.measured)

    def files(self) -> dict[str, Path]:
        """The profile, by the name under which a run keeps a copy."""
        return {self._kept_name: self.path}

    def problems(self, setting: Setting) -> Iterator[tuple[str, str]]:
        """(key, what is wrong) with the profile on these stages."""
        try:
            _ = self.measured
        except ConfigError as error:
            yield from (("path", line) for line in str(error).splitlines())
            return
        if self.sha256 not in (None, self._content_sha256):
            yield "sha256", f"{self.path.name} has changed: its content's sha256 is {self._content_sha256}"
        if "selective" in setting.recompute:
            yield "kind", "a profile doesn't tell what 'pipeline.recompute: selective' runs again; full is known"

    def layer_costs(self, setting: Setting, recompute: Recompute = "none") -> LayerCosts:
        """What every layer costs, for the micro-batch size that is simulated."""
        size, profiled = setting.micro_batch, self.micro_batch_size
        part = Fraction(size, profiled) if size is not None and profiled is not None else ONE
        return LayerCosts(tuple(self._layer(layer, part) for layer in self.measured))

    def _layer(self, layer: MeasuredLayer, part: Fraction) -> Layer:
        precision, scale = self.precision, self.scale
        element = DTYPE_BYTES[precision.weights]
        count = Fraction(layer.parameters) / (1 if isinstance(layer.parameters, int) else element) * scale.parameters
        activation = layer.activation * part * scale.activation
        return Layer(
            name=layer.name,
            forward=layer.forward * part * scale.times,
            input_grad=layer.input_grad * part * scale.times,
            weight_grad=layer.weight_grad * part * scale.times,
            recompute=layer.forward * part * scale.times,
            activation=activation,
            held_for_weight_grad=activation,
            message=layer.message * part * scale.message,
            weights=count * element,
            gradients=count * DTYPE_BYTES[precision.gradients],
            optimizer_state=count * precision.state,
            parameters=int(count),
        )

    def stage_costs(self, setting: Setting) -> StageCosts:
        """Costs per stage, of a slice of a microbatch where these are cut. A recomputed stage keeps its input alone."""
        layers = self.layer_costs(setting)
        split = setting.split or uniform(Rows.of(layers), setting.placement.stages)
        costs = layers.stage_costs(split, setting.placement.stages_of)
        incoming = (costs.message[0], *costs.message[:-1])
        costs = replace(
            costs,
            stage_input=tuple(map(min, costs.activation, incoming)),
            rebuilt=(),
            synced=(),
            flops=(),
            halves_assumed=any(layer.halves_assumed for layer in self.measured),
        )
        return costs.scaled(Fraction(1, setting.parts)) if setting.parts > 1 else costs
