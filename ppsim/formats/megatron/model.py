"""What arguments say of the model, in the words of ``costs.model``, and of how it runs, in those of ``costs``.

Source: Megatron-LM core 0.17, megatron/training/arguments.py (defaults) and core/transformer/transformer_config.py.
"""

from __future__ import annotations

import re
from typing import Any

from ppsim.errors import shown
from ppsim.formats._launch import Sizes
from ppsim.formats.megatron.arguments import Arguments
from ppsim.formats.megatron.options import EXPERT_TENSOR, EXTRA, LAYERS

MODULES = ("core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts")
"""What selective recomputation knows."""
OTHER_LAYERS = {
    "--hybrid-layer-pattern": "layers of a state-space model",
    "--hybrid-override-pattern": "layers of a state-space model",
    "--linear-attention-freq": "layers with linear attention", "--moe-latent-size": "experts in a latent space",
    "--experimental-attention-variant": "other kinds of attention", "--heterogeneous-block-specs": "layers that differ",
}  # fmt: skip
"""What a stack of transformer layers can't be costed with."""
SHARDED = {"no_shard": "none", "optim": "optimizer", "optim_grads": "gradients", "optim_grads_params": "weights"}
"""What Megatron-FSDP shards over data parallel ranks, in the words of ``optimizer_sharding``."""


def model_of(arguments: Arguments, costed: bool = False) -> dict[str, Any]:
    """The model's sizes, as far as they are given; where costs follow from them, what they can't say is a mistake."""
    has = arguments.mentions
    for name, what in OTHER_LAYERS.items():
        if costed and has(name):
            arguments.wrong(name, f"{what} have no costs from a model; leave out --device and give --layer-forward")
    sizes = {
        "layers": _number(arguments, LAYERS),
        "hidden": _number(arguments, "--hidden-size"),
        "heads": _number(arguments, "--num-attention-heads"),
        "kv_heads": _number(arguments, "--num-query-groups") if has("--group-query-attention") else None,
        "head_size": _number(arguments, "--kv-channels") if not has("--multi-latent-attention") else None,
        "ffn": _number(arguments, "--ffn-hidden-size"),
        "vocabulary": _number(arguments, "--padded-vocab-size") or _number(arguments, "--vocab-size"),
        "mtp": _number(arguments, EXTRA),
    }
    model: dict[str, Any] = {key: value for key, value in sizes.items() if value is not None}
    if has("--swiglu"):
        model["gated"] = True
        if "ffn" not in model and "hidden" in model:
            model["ffn"] = model["hidden"] * 8 // 3 // 64 * 64
    model |= {"tied": not has("--untie-embeddings-and-output-weights"), "bias": not has("--disable-bias-linear")}
    model["norm"] = "rms" if arguments.word_after("--normalization").lower() == "rmsnorm" else "layer"
    model |= {key: True for key, name in (("qkv_bias", "--add-qkv-bias"), ("qk_norm", "--qk-layernorm")) if has(name)}
    if positions := _positions(arguments):
        model["positions"] = positions
    if has("--multi-latent-attention"):
        model["latent"] = _latent(arguments)
    return model | (_experts(arguments, costed) if (_number(arguments, "--num-experts") or 1) > 1 else {})


def _number(arguments: Arguments, name: str) -> int | None:
    text = arguments.text(name) or arguments.word_after(name)
    return int(text) if text.isdigit() and int(text) else None


def _positions(arguments: Arguments) -> int | None:
    """Learned positions, which are the default."""
    kind = arguments.word_after("--position-embedding-type") or "learned_absolute"
    rotary = arguments.mentions("--use-rotary-position-embeddings") or arguments.mentions("--no-position-embedding")
    return _number(arguments, "--max-position-embeddings") if kind == "learned_absolute" and not rotary else None


def _latent(arguments: Arguments) -> dict[str, int]:
    """Multi-latent attention, with Megatron's defaults."""
    names = {
        "query_rank": ("--q-lora-rank", None),
        "key_rank": ("--kv-lora-rank", 32),
        "nope_size": ("--qk-head-dim", 128),
        "rope_size": ("--qk-pos-emb-head-dim", 64),
        "value_size": ("--v-head-dim", 128),
    }
    found = {key: _number(arguments, name) or default for key, (name, default) in names.items()}
    return {key: value for key, value in found.items() if value is not None}


def _experts(arguments: Arguments, costed: bool) -> dict[str, Any]:
    shared, dense = _number(arguments, "--moe-shared-expert-intermediate-size"), _dense(arguments, costed)
    model: dict[str, Any] = {
        "experts": _number(arguments, "--num-experts"),
        "top_k": _number(arguments, "--moe-router-topk") or 2,
        "expert_ffn": _number(arguments, "--moe-ffn-hidden-size"),
        "shared_experts": 1 if shared else None,
        "shared_ffn": shared,
        **dense,
    }
    return {key: value for key, value in model.items() if value is not None}


def _dense(arguments: Arguments, costed: bool) -> dict[str, int]:
    """Which layers have no experts: the first ones, or all but every so many."""
    text, layers = arguments.text("--moe-layer-freq").strip("'\""), _number(arguments, LAYERS) or 0
    if text.isdigit():
        every = int(text)
        pattern = [int(layer % every == 0) for layer in range(layers)] if every > 1 else [1]
        if every > 1 and layers % every == 0:
            return {"expert_interval": every}  # the first of so many, not the last: of as many layers as many
    else:
        pattern = _pattern(text) if text else [1]
    if all(pattern) and pattern:
        return {}
    dense = pattern.index(1) if 1 in pattern else len(pattern)
    if dense > 0 and all(pattern[dense:]):
        return {"dense_layers": dense}
    every = dense + 1
    if pattern and pattern == [int((layer + 1) % every == 0) for layer in range(len(pattern))]:
        return {"expert_interval": every}
    if costed:
        arguments.wrong(
            "--moe-layer-freq", f"{shown(text)} isn't read; [0]*n+[1]*m, ([0]*n+[1])*m or a whole number that divides "
            "the layers is, or leave out --device"
        )  # fmt: skip
    return {}


def _pattern(text: str) -> list[int]:
    """A sum of lists, each repeated, as Python would read it: ``[0]*3+[1]*58``; empty where it is none."""
    found: list[int] = []
    bare = re.sub(r"\s", "", text)
    while (inner := re.fullmatch(r"\((.*)\)", bare)) and "(" not in inner[1]:
        bare = inner[1]
    if whole := re.fullmatch(r"\(([^()]*)\)\*(\d{1,4})", bare):
        return _pattern(whole[1]) * int(whole[2])
    for part in bare.split("+"):
        form = re.fullmatch(r"\[([01](?:,[01])*),?\](?:\*(\d{1,4}))?", part)
        if form is None:
            return []
        found += [int(bit) for bit in form[1].split(",")] * int(form[2] or 1)
    return found


def costs_of(arguments: Arguments, sizes: Sizes, dtype: str) -> dict[str, Any]:
    """How the model is cut, held and run."""
    has, experts = arguments.mentions, (_number(arguments, "--num-experts") or 1) > 1
    costs: dict[str, Any] = {
        "sequence": _number(arguments, "--seq-length"),
        "tensor_parallel": sizes.tensor if sizes.tensor > 1 else None,
        "context_parallel": sizes.context if sizes.context > 1 else None,
        "expert_parallel": sizes.expert if experts and sizes.expert > 1 else None,
        "expert_tensor_parallel": (_number(arguments, EXPERT_TENSOR) or sizes.tensor) if experts else None,
        "sequence_parallel": has("--sequence-parallel") if sizes.tensor > 1 else None,
        "precision": _precision(arguments, dtype),
        "optimizer_sharding": _sharding(arguments),
        "attention": "unfused" if _unfused(arguments) else None,
        "cross_entropy": None if has("--cross-entropy-loss-fusion") else "unfused",
        "gradient_accumulation": "unfused" if has("--no-gradient-accumulation-fusion") else None,
        "dropout": True if arguments.word_after("--hidden-dropout") not in ("0", "0.0", "0.") else None,
    }
    return {key: value for key, value in costs.items() if value is not None}


def _sharding(arguments: Arguments) -> str | None:
    """What is held once over data parallel ranks."""
    if arguments.mentions("--use-megatron-fsdp") or arguments.mentions("--use-custom-fsdp"):
        return SHARDED.get(arguments.word_after("--data-parallel-sharding-strategy"), "none")
    return "optimizer" if arguments.mentions("--use-distributed-optimizer") else None


def _precision(arguments: Arguments, dtype: str) -> dict[str, str]:
    half = dtype == "fp16" and not arguments.mentions("--accumulate-allreduce-grads-in-fp32")
    precision = {"weights": dtype, "gradients": "fp16" if half else "fp32"}
    return precision | ({"compute": "fp8"} if arguments.mentions("--fp8-format") else {})


def _unfused(arguments: Arguments) -> bool:
    """Whether attention's scores are in memory: so asked, or a program from before fused kernels were the default."""
    if arguments.mentions("--use-flash-attn"):
        return False
    old = arguments.word_after("--transformer-impl") == "local" or arguments.mentions("--use-legacy-models")
    return old or arguments.word_after("--attention-backend") in ("unfused", "local")


def selective(arguments: Arguments) -> tuple[str, ...] | None:
    """What selective recomputation runs again; None where there is none. What isn't known is a mistake."""
    modules = arguments.words_after("--recompute-modules")
    asked = arguments.mentions("--recompute-activations") or arguments.text("--recompute-granularity") == "selective"
    if arguments.mentions("--moe-layer-recompute"):
        modules, asked = [*modules, "moe"], True
    if strange := [module for module in modules if module not in MODULES]:
        arguments.wrong("--recompute-modules", f"'{strange[0]}' isn't modelled; {', '.join(MODULES)} are")
    return tuple(dict.fromkeys(modules or ["core_attn"])) if asked else None
