"""Models from a Hugging Face config.json, family by family, as its ``model_type`` says.

Source: github.com/huggingface/transformers, src/transformers/models/<family>/configuration_<family>.py, for the keys
and for what they are where a file leaves them out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ppsim import _textfile as textfile
from ppsim.errors import ConfigError, did_you_mean, printable, shown

LIMIT = 1 << 20
"""A config.json has some kilobytes."""

_COMMON = {
    "layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
    "vocabulary": "vocab_size", "ffn": "intermediate_size",
}  # fmt: skip
_LLAMA = {**_COMMON, "kv_heads": "num_key_value_heads?", "head_size": "head_dim?", "tied": "tie_word_embeddings?"}
_QWEN_EXPERTS = {"experts": "num_experts", "top_k": "num_experts_per_tok", "expert_ffn": "moe_intermediate_size"}
_DEEPSEEK = {
    **_COMMON, "tied": "tie_word_embeddings?", "experts": "n_routed_experts", "top_k": "num_experts_per_tok",
    "expert_ffn": "moe_intermediate_size", "shared_experts": "n_shared_experts?",
    "dense_layers": "first_k_dense_replace?", "expert_interval": "moe_layer_freq?",
}  # fmt: skip
_LATENT = {
    "query_rank": "q_lora_rank?", "key_rank": "kv_lora_rank", "nope_size": "qk_nope_head_dim",
    "rope_size": "qk_rope_head_dim", "value_size": "v_head_dim",
}  # fmt: skip
_GATED = {"gated": True, "norm": "rms"}
_GPT = {"gated": False, "norm": "layer", "bias": True}

FAMILIES: Mapping[str, tuple[Mapping[str, str], Mapping[str, Any]]] = {
    "llama": (_LLAMA, _GATED),
    "mistral": (_LLAMA, _GATED),
    "qwen2": (_LLAMA, {**_GATED, "qkv_bias": True}),
    "qwen3": (_LLAMA, {**_GATED, "qk_norm": True}),
    "mixtral": ({**_LLAMA, "experts": "num_local_experts", "top_k": "num_experts_per_tok"}, _GATED),
    "qwen2_moe": (
        {**_LLAMA, **_QWEN_EXPERTS, "shared_ffn": "shared_expert_intermediate_size",
         "expert_interval": "decoder_sparse_step?"},
        {**_GATED, "qkv_bias": True, "shared_experts": 1, "shared_gate": True},
    ),
    "qwen3_moe": ({**_LLAMA, **_QWEN_EXPERTS, "expert_interval": "decoder_sparse_step?"}, {**_GATED, "qk_norm": True}),
    "deepseek_v2": (_DEEPSEEK, _GATED),
    "deepseek_v3": ({**_DEEPSEEK, "mtp": "num_nextn_predict_layers?"}, {**_GATED, "router_bias": True}),
    "gpt2": (
        {"layers": "n_layer", "hidden": "n_embd", "heads": "n_head", "vocabulary": "vocab_size",
         "positions": "n_positions", "ffn": "n_inner?", "tied": "tie_word_embeddings?"},
        {**_GPT, "tied": True},
    ),
    "gpt_neo": (
        {"layers": "num_layers", "hidden": "hidden_size", "heads": "num_heads", "vocabulary": "vocab_size",
         "positions": "max_position_embeddings", "ffn": "intermediate_size?", "tied": "tie_word_embeddings?"},
        {**_GPT, "tied": True, "qkv_bias": False},
    ),
    "gpt_neox": ({**_COMMON, "tied": "tie_word_embeddings?"}, _GPT),
}  # fmt: skip
"""Per model_type: our key -> theirs (with '?' where it may be left out), and what holds for the whole family."""

REFUSED: Mapping[str, tuple[Any, str]] = {
    "attention_bias": (False, "biases of the attention alone"),
    "mlp_bias": (False, "biases of the feed-forward layers alone"),
    "mlp_only_layers": ([], "dense layers by number"),
}
"""Settings that change the sizes in ways that have no key, and the value at which they don't."""


def read(path: Path) -> dict[str, Any]:
    """A model's settings from a config.json. Raises ConfigError, one line that begins with the path."""
    text = textfile.read(path, "a model's config.json", LIMIT)
    label = printable(str(path))
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{label}: not JSON: {error}") from None
    except RecursionError:
        raise ConfigError(f"{label}: not a model's config.json: nested too deeply") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{label}: not a model's config.json: a mapping with 'model_type' is due")
    try:
        return settings(data)
    except ValueError as error:
        raise ConfigError(f"{label}: {error}") from None


def settings(data: Mapping[str, Any]) -> dict[str, Any]:
    """A model's settings from the content of a config.json. Raises ValueError."""
    kind = data.get("model_type")
    if data.get("is_encoder_decoder"):
        raise ValueError(f"{shown(kind)} is an encoder-decoder; only stacks of one kind of layer are known")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ValueError(_unknown(kind, data))
    keys, fixed = FAMILIES[kind]
    wanted = {**keys, **(_LATENT if kind.startswith("deepseek") else {})}
    missing = [theirs for theirs in wanted.values() if not theirs.endswith("?") and data.get(theirs) is None]
    if missing:
        raise ValueError(f"lacks {', '.join(missing)}, which {kind} needs")
    for key, (harmless, what) in REFUSED.items():
        if data.get(key) not in (None, harmless):
            raise ValueError(f"'{key}: {shown(data[key])}' ({what}) is not modelled; give the sizes inline")
    found = {**fixed, **_taken(keys, data)}
    if kind.startswith("deepseek"):
        found["latent"] = _taken(_LATENT, data)
    window = data.get("sliding_window") if data.get("use_sliding_window", kind == "mistral") else None
    if window is not None:
        found["window"] = window
    return found


def _unknown(kind: Any, data: Mapping[str, Any]) -> str:
    """What to do about a model of none of the families."""
    what = f"model_type {shown(kind)} is unknown" if kind is not None else "has no model_type"
    for key in ("text_config", "language_config", "llm_config"):
        inner = data.get(key)
        if isinstance(inner, Mapping) and inner.get("model_type") in FAMILIES:
            return f"{what}; its {key} is a {inner['model_type']}: save that part as a config.json of its own"
    architectures = data["architectures"] if isinstance(data.get("architectures"), list) else []
    names = [re.sub(r"ForCausalLM|LMHeadModel", "", str(name)).lower() for name in architectures]
    if alike := [family for family in FAMILIES if family.replace("_", "") in names]:
        return f'{what}; its architectures say {shown(architectures[0])}: write "model_type": "{alike[0]}"'
    hint = did_you_mean(kind, FAMILIES) if isinstance(kind, str) else ""
    return (
        f"{what}{hint or ';'} known: {', '.join(FAMILIES)}; or give the sizes inline: layers, hidden, heads, kv_heads, "
        "ffn, gated, vocabulary, tied"
    )


def _taken(keys: Mapping[str, str], data: Mapping[str, Any]) -> dict[str, Any]:
    values = {ours: data.get(theirs.rstrip("?")) for ours, theirs in keys.items()}
    return {ours: value for ours, value in values.items() if value is not None}
