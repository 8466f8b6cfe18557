"""A transformer by its sizes: layers, heads, feed-forward layers, experts, vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, model_validator

from ppsim._model import Flag, Model, Whole

EXPERT_KEYS = ("top_k", "shared_experts", "expert_ffn", "shared_ffn", "dense_layers")


class LatentAttention(Model):
    """Multi-head latent attention: queries, keys and values through narrow projections.

    Source: DeepSeek-V2, arXiv 2405.04434, section 2.1.
    """

    query_rank: Whole | None = Field(None, ge=1)
    """Width of the compressed query (unset: queries are projected directly)."""
    key_rank: Whole = Field(ge=1)
    """Width of the compressed keys and values."""
    nope_size: Whole = Field(ge=1)
    """Size of a query's and a key's part without position, per head."""
    rope_size: Whole = Field(ge=1)
    """Size of their part with rotary position, per head; the key's is the same for all heads."""
    value_size: Whole = Field(ge=1)
    """Size of a value, per head."""


class TransformerModel(Model):
    """Sizes of a transformer; a row of the catalog, a config.json and inline settings all become one of these."""

    like: str | None = None
    """The row of the catalog, or the config.json, that this is or changes."""
    layers: Whole = Field(ge=1, le=100_000)
    """Decoder layers (for BERT: encoder layers), without embedding, head and multi-token prediction."""
    hidden: Whole = Field(ge=1)
    """Size of a token's hidden state (h)."""
    heads: Whole = Field(ge=1)
    """Query heads (a)."""
    kv_heads: Whole | None = Field(None, ge=1)
    """Key and value heads (default: `heads`)."""
    head_size: Whole | None = Field(None, ge=1)
    """Size of a head (default: hidden / heads)."""
    ffn: Whole | None = Field(None, ge=1)
    """Width of the feed-forward layer (default: 4 · hidden)."""
    gated: Flag = False
    """A gate beside the up projection (SwiGLU): three matrices instead of two."""
    vocabulary: Whole = Field(ge=1)
    """Words in the vocabulary (V)."""
    sequence: Whole | None = Field(None, ge=1)
    """Tokens of a sequence that it is trained with, where `costs.sequence` doesn't say."""
    tied: Flag = False
    """The head uses the embedding's weights."""
    norm: Literal["rms", "layer"] = "rms"
    """RMSNorm (a weight per channel) or LayerNorm (a weight and a bias)."""
    bias: Flag = False
    """All linear layers but the head have biases."""
    qkv_bias: Flag | None = None
    """The query, key and value projection has a bias (default: as `bias`)."""
    qk_norm: Flag = False
    """Queries and keys are normalised per head."""
    positions: Whole = Field(0, ge=0)
    """Learned positions (0: rotary or none)."""
    segments: Whole = Field(0, ge=0)
    """Learned segment embeddings, as BERT's two; with them the embedding ends in a norm."""
    causal: Flag = True
    """A token attends to itself and earlier ones only."""
    window: Whole | None = Field(None, ge=1)
    """A token attends to so many before it at most (sliding window)."""
    experts: Whole | None = Field(None, ge=1)
    """Experts of a layer; unset: a dense model."""
    top_k: Whole | None = Field(None, ge=1)
    """Experts that each token is sent to."""
    expert_ffn: Whole | None = Field(None, ge=1)
    """Width of an expert (default: `ffn`)."""
    shared_experts: Whole = Field(0, ge=0)
    """Experts that every token goes through."""
    shared_ffn: Whole | None = Field(None, ge=1)
    """Width of all shared experts together (default: shared_experts · expert_ffn)."""
    shared_gate: Flag = False
    """A gate (one weight per channel) scales the shared experts' output."""
    router_bias: Flag = False
    """The router has a bias per expert."""
    dense_layers: Whole = Field(0, ge=0)
    """How many layers, the first ones, are dense."""
    expert_interval: Whole = Field(1, ge=1)
    """Every how many layers one has experts (1: all after the dense ones)."""
    latent: LatentAttention | None = None
    """Multi-head latent attention, as DeepSeek's."""
    mtp: Whole = Field(0, ge=0)
    """Multi-token prediction layers, after the last decoder layer."""

    @model_validator(mode="before")
    @classmethod
    def _no_stranger(cls, settings: Any) -> Any:
        if isinstance(settings, dict):
            for wrong, right in (("vocab", "vocabulary"), ("num_layers", "layers"), ("hidden_size", "hidden")):
                if wrong in settings:
                    raise ValueError(f"'{wrong}' is unknown; did you mean '{right}'?")
        return settings

    @property
    def head(self) -> int:
        """Size of a head."""
        return self.head_size or self.hidden // self.heads

    @property
    def groups(self) -> int:
        """Key and value heads."""
        return self.kv_heads or self.heads

    @property
    def width(self) -> int:
        """Width of a dense feed-forward layer."""
        return self.ffn or 4 * self.hidden

    @property
    def expert_width(self) -> int:
        """Width of an expert."""
        return self.expert_ffn or self.width

    @property
    def shared_width(self) -> int:
        """Width of the shared experts together."""
        return self.shared_ffn if self.shared_ffn is not None else self.shared_experts * self.expert_width

    @property
    def has_qkv_bias(self) -> bool:
        """Whether the query, key and value projection has a bias."""
        return self.bias if self.qkv_bias is None else self.qkv_bias

    def has_experts(self, layer: int) -> bool:
        """Whether a layer, counted from 0, is a layer of experts."""
        if self.experts is None or layer < self.dense_layers:
            return False
        return (layer - self.dense_layers + 1) % self.expert_interval == 0

    def problems(self) -> Iterator[tuple[str, str]]:
        """(key, what is wrong) among these sizes."""
        if self.head_size is None and self.latent is None and self.hidden % self.heads:
            near = [n for n in range(self.heads - 1, 0, -1) if self.hidden % n == 0][:1]
            yield (
                "heads",
                f"hidden {self.hidden} isn't a multiple of {self.heads} heads; give head_size, or {near[0]} heads",
            )
        if self.heads % self.groups:
            yield "kv_heads", f"{self.heads} heads aren't a multiple of {self.groups} kv_heads: each serves as many"
        if self.experts is None:
            for key in EXPERT_KEYS:
                if getattr(self, key) not in (None, 0):
                    yield key, "is for a model with experts; give 'experts', too, or leave it out"
            return
        if self.top_k is None:
            yield "top_k", "missing: how many experts a token is sent to"
        elif self.top_k > self.experts:
            yield "top_k", f"a token can't be sent to {self.top_k} of {self.experts} experts; at most {self.experts}"
        if self.dense_layers > self.layers:
            yield "dense_layers", f"{self.dense_layers} dense layers are more than all {self.layers} layers"
