"""What arguments say of the model, in the words of ``costs.model``, and of how it runs, in those of ``costs``."""

from __future__ import annotations

from typing import Any

from ppsim.formats.launch.settings import Sizes
from ppsim.formats.megatron.arguments import Arguments
from ppsim.formats.megatron.options import EXPERT_TENSOR, EXTRA, LAYERS, MODEL_NUMBERS


def model_of(arguments: Arguments) -> dict[str, Any]:
    """The model's sizes, as far as they are given."""
    model: dict[str, Any] = {}
    for name, key in {LAYERS: "layers", "--hidden-size": "hidden", **MODEL_NUMBERS, EXTRA: "mtp"}.items():
        text = arguments.text(name)
        if text.isdigit() and int(text):
            model[key] = int(text)
    if "kv_heads" in model and not arguments.has("--group-query-attention"):
        del model["kv_heads"]
    if arguments.has("--multi-latent-attention") is False:
        for key in ("q_lora_rank", "kv_lora_rank", "qk_head_size", "rope_head_size", "v_head_size"):
            model.pop(key, None)
    if "hidden" in model:
        model["gated"] = arguments.has("--swiglu")
        model["tied"] = not arguments.has("--untie-embeddings-and-output-weights")
    return model


def costs_of(arguments: Arguments, sizes: Sizes) -> dict[str, Any]:
    """How the model is cut and run."""
    expert_tensor = arguments.number(EXPERT_TENSOR)
    costs: dict[str, Any] = {
        "sequence": arguments.number("--seq-length"),
        "tensor_parallel": sizes.tensor,
        "context_parallel": sizes.context,
        "expert_parallel": sizes.expert,
        "expert_tensor_parallel": expert_tensor,
        "sequence_parallel": arguments.has("--sequence-parallel") and sizes.tensor > 1,
        "optimizer_sharding": "optimizer" if arguments.has("--use-distributed-optimizer") else "none",
        "attention": "unfused" if arguments.text("--attention-backend") == "unfused" else "flash",
    }
    return {key: value for key, value in costs.items() if value not in (None, 1, False)}
