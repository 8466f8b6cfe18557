"""Costs from a model: how it is cut, in which precision it is held, how its ops are computed."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ppsim._model import Flag, Model, Whole
from ppsim.costs.message import DTYPE_BYTES
from ppsim.costs.transformer.efficiency import Efficiency, EfficiencyField
from ppsim.costs.transformer.memory import Sharding
from ppsim.costs.transformer.source import ModelField
from ppsim.units import Factor, Size, parse

Dtype = Literal["fp32", "tf32", "bf16", "fp16", "fp8"]
Module = Literal["core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"]
OPTIMIZERS = {"adam": 8, "momentum": 4, "sgd": 0}
"""Bytes of state per parameter, all in fp32, beside a copy of weights of another type."""


def _optimizer(value: Any) -> Any:
    if isinstance(value, str) and value not in OPTIMIZERS:
        try:
            return parse(value, "size")
        except ValueError:
            raise ValueError(f"'{value}' is none of {', '.join(OPTIMIZERS)}, nor a size per parameter") from None
    return value


class Precision(Model):
    """In what weights, gradients and the optimizer's state are held, and products computed."""

    weights: Dtype = "bf16"
    """Type of the weights, and of activations and messages."""
    gradients: Dtype = "fp32"
    """Type in which gradients are summed."""
    compute: Dtype | None = None
    """Type in which products are computed, which the device's peak rate is taken of (default: that of the weights)."""
    optimizer: Annotated[
        Fraction | Literal["adam", "momentum", "sgd"], BeforeValidator(_optimizer, json_schema_input_type=str)
    ] = "adam"
    """adam (two moments), momentum (one), sgd (none), with a copy of the weights in fp32 where they aren't; or a size
    per parameter, such as '8 B'."""

    @property
    def state(self) -> Fraction:
        """Bytes per parameter that the optimizer keeps."""
        if isinstance(self.optimizer, Fraction):
            return self.optimizer
        return Fraction(OPTIMIZERS[self.optimizer] + (0 if self.weights in ("fp32", "tf32") else 4))

    @property
    def element(self) -> int:
        """Bytes of an element of an activation."""
        return max(DTYPE_BYTES[self.weights], 2)


class TransformerSettings(Model):
    """A model, how it is cut and held, and how well its ops are computed."""

    model: ModelField
    """A row of the catalog, a config.json, {like: …} with changes, or the sizes."""
    sequence: Whole | None = Field(None, ge=1)
    """Tokens of a sequence (default: the model's)."""
    tensor_parallel: Whole = Field(1, ge=1)
    """Devices that share every layer's matrices (t); a rank is all of them."""
    context_parallel: Whole = Field(1, ge=1)
    """Devices that share a sequence's tokens; a rank is all of them."""
    expert_parallel: Whole = Field(1, ge=1)
    """Devices, among the replicas and those of a rank, that share a layer's experts."""
    expert_tensor_parallel: Whole | None = Field(None, ge=1)
    """Devices that share every expert's matrices (default: 1 with expert parallelism, else as `tensor_parallel`)."""
    sequence_parallel: Flag | None = None
    """Norms and residuals are spread over the tensor parallel devices (default: where there are several)."""
    precision: Precision = Precision()
    """Types of weights, gradients, products; the optimizer."""
    optimizer_sharding: Sharding = "none"
    """What is sharded over data and context parallel devices: nothing, the optimizer's state, gradients or weights,
    too (ZeRO 1 to 3)."""
    attention: Literal["flash", "unfused"] = "flash"
    """One kernel, or scores and softmax in memory."""
    cross_entropy: Literal["fused", "unfused"] = "fused"
    """The gradient replaces the logits, or softmax in fp32 beside them."""
    gradient_accumulation: Literal["fused", "unfused"] = "fused"
    """Products add weight gradients to their sum, or another pass does."""
    dropout: Flag = False
    """Dropout behind attention, feed-forward layers and embedding; its masks are kept."""
    recompute_modules: list[Module] = Field(["core_attn"], min_length=1)
    """What `pipeline.recompute: selective` runs again, by Megatron's names."""
    expert_capacity: Factor | None = None
    """Tokens that each expert takes, padded, over the mean (unset: all get the mean)."""
    context_exchange: Literal["all_to_all", "ring"] = "all_to_all"
    """How context parallel devices meet each other's tokens."""
    collectives: Literal["ring", "tree"] = "ring"
    """The way that collectives inside ops go."""
    vocabulary_padding: Whole = Field(128, ge=1)
    """The vocabulary is padded to a multiple of this times `tensor_parallel`."""
    workspace: Size = Fraction(32 * 2**20)
    """What the matrix library holds; grouped products of experts hold four more (32 MiB on Hopper and newer)."""
    efficiency: EfficiencyField = Efficiency()
    """Share of peak rates that is reached: a number for products, or a mapping; a guess where not given."""

    @property
    def spreads(self) -> bool:
        """Whether sequence parallelism is on."""
        return self.tensor_parallel > 1 if self.sequence_parallel is None else self.sequence_parallel

    @property
    def expert_tensor(self) -> int:
        """Devices that share every expert's matrices."""
        if self.expert_tensor_parallel is not None:
            return self.expert_tensor_parallel
        return 1 if self.expert_parallel > 1 else self.tensor_parallel

    @property
    def tokens(self) -> int:
        """Tokens of a sequence."""
        return self.sequence or self.model.sequence or 0

    @property
    def devices(self) -> int:
        """Devices of a rank."""
        return self.tensor_parallel * self.context_parallel

    @property
    def product_type(self) -> str:
        """The type in which products are computed."""
        return self.precision.compute or self.precision.weights

    def misfits(self) -> Iterator[tuple[str, str]]:
        """(key, what is wrong) between the model and the ways in which it is cut."""
        model, t = self.model, self.tensor_parallel
        yield from ((f"model.{key}", text) for key, text in model.problems())
        yield from ((f"efficiency.{key}", text) for key, text in self.efficiency.problems())
        if not self.tokens:
            yield "sequence", "missing: this model names no sequence length; write 'sequence: 4096'"
        uneven = list(_multiple("tensor_parallel", t, hidden=model.hidden, heads=model.heads, ffn=model.width))
        if not uneven and model.groups % t and t % model.groups:
            uneven = [("tensor_parallel", f"{model.groups} kv_heads aren't a multiple of {t} devices, nor a divisor")]
        yield from uneven
        if self.sequence_parallel and t == 1:
            yield "sequence_parallel", "spreads over the tensor parallel devices, and there is one; leave it out"
        parts = self.context_parallel * (t if self.spreads else 1)
        if not uneven and self.tokens % parts:
            near = self.tokens // parts * parts or parts
            key = "context_parallel" if self.tokens % self.context_parallel else "tensor_parallel"
            yield key, f"a sequence of {self.tokens} tokens isn't a multiple of {parts} parts; {near} tokens are"
        exchanged = self.context_parallel > 1 and self.context_exchange == "all_to_all"
        if exchanged and not uneven and model.heads % (t * self.context_parallel):
            yield (
                "context_parallel",
                f"{model.heads} heads aren't a multiple of tensor {t} x context {self.context_parallel} devices, "
                "which exchange them; 'context_exchange: ring' needs no such thing",
            )
        yield from self._expert_misfits()

    def _expert_misfits(self) -> Iterator[tuple[str, str]]:
        model, ep = self.model, self.expert_parallel
        if model.experts is None:
            for key in ("expert_parallel", "expert_tensor_parallel", "expert_capacity"):
                if getattr(self, key) not in (None, 1):
                    yield key, "is for a model with experts, and this one is dense; leave it out"
            return
        if ep > model.experts:
            yield "expert_parallel", f"{ep} devices can't share {model.experts} experts; at most {model.experts}"
        else:
            yield from _multiple("expert_parallel", ep, experts=model.experts)
        yield from _multiple("expert_tensor_parallel", self.expert_tensor, expert_ffn=model.expert_width)

    def replica_misfits(self, data_parallel: int) -> Iterator[tuple[str, str]]:
        """(key, what is wrong) with the groups of experts for so many replicas."""
        group, devices = self.expert_parallel * self.expert_tensor, self.devices * data_parallel
        if self.model.experts is not None and devices % group:
            yield (
                "expert_parallel",
                f"groups of expert {self.expert_parallel} x expert tensor {self.expert_tensor} = {group} devices don't "
                f"share out tensor {self.tensor_parallel} x context {self.context_parallel} x data {data_parallel} = "
                f"{devices} devices",
            )


def _multiple(key: str, parts: int, **sizes: int) -> Iterator[tuple[str, str]]:
    """The sizes that a number of devices doesn't divide, and the nearest smaller number that divides them all."""
    wrong = {name: size for name, size in sizes.items() if size % parts}
    if wrong:
        near = next(n for n in range(min(parts, *sizes.values()), 0, -1) if not any(s % n for s in sizes.values()))
        named = " and ".join(f"{name} {size}" for name, size in wrong.items())
        is_not = "isn't a multiple" if len(wrong) == 1 else "aren't multiples"
        share = "1 device has" if near == 1 else f"{near} devices share"
        yield key, f"{named} {is_not} of {parts} devices; {share} {'it' if len(wrong) == 1 else 'them'} evenly"
