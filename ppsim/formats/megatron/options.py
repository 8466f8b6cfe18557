"""Megatron's options by what they mean for a pipeline; of several hundred those that shape it, or might.

Source: Megatron-LM core 0.17 (megatron/training/arguments.py, core/transformer/transformer_config.py), torchrun's and
DeepSpeed's launchers; old spellings from Megatron-LM 1.0 to 3.0; ``without_effect.txt`` lists the names of the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from ppsim.formats.megatron.layers import FIRST, LAST, LAYOUT

PIPELINE, TENSOR, CONTEXT = (f"--{kind}-parallel-size" for kind in ("pipeline-model", "tensor-model", "context"))
EXPERT, EXPERT_TENSOR = "--expert-model-parallel-size", "--expert-tensor-parallel-size"
PER_CHUNK, CHUNKS = "--num-layers-per-virtual-pipeline-stage", "--num-virtual-stages-per-pipeline-rank"
GROUP = "--microbatch-group-size-per-virtual-pipeline-stage"
EMBEDDING, LOSS = "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"
COMBINED, GRANULARITY = "--overlap-moe-expert-parallel-comm", "--recompute-granularity"
METHOD, RECOMPUTED_LAYERS = "--recompute-method", "--recompute-num-layers"
MICRO, GLOBAL, LAYERS, EXTRA = "--micro-batch-size", "--global-batch-size", "--num-layers", "--mtp-num-layers"
ZERO_BUBBLE, V_SCHEDULE = "--enable-zero-bubble", "--zero-bubble-v-schedule"
PENDING, V_MEMORY = "--zero-bubble-max-pending-backward", "--zero-bubble-v-schedule-mem-setup"
ZB_H1, DUALPIPE, DUALPIPEV = "--enable-zbh1-pipeline", "--use-dualpipe", "--use-dualpipev"
SEQUENCE_SPLITS, PARTITION = "--num-seq-splits", "--pp-partition-method"
PADDING, NO_PIPELINE = "--allow-padding-num-layers", "--no-pipeline-parallel"
CONFIG, ULYSSES = "--deepspeed_config", "--ds-sequence-parallel-size"

NUMBERS = (
    LAYERS, "--hidden-size", "--seq-length", MICRO, GLOBAL, TENSOR, PIPELINE, CONTEXT, EXPERT, EXPERT_TENSOR, PER_CHUNK,
    CHUNKS, FIRST, LAST, GROUP, RECOMPUTED_LAYERS, EXTRA, SEQUENCE_SPLITS, ULYSSES,
)  # fmt: skip
MODEL_NUMBERS = {
    "--num-attention-heads": "heads", "--num-query-groups": "kv_heads", "--kv-channels": "head_size",
    "--ffn-hidden-size": "ffn", "--vocab-size": "vocabulary", "--padded-vocab-size": "vocabulary",
    "--num-experts": "experts", "--moe-router-topk": "top_k", "--moe-ffn-hidden-size": "expert_ffn",
    "--moe-shared-expert-intermediate-size": "shared_ffn", "--q-lora-rank": "q_lora_rank",
    "--kv-lora-rank": "kv_lora_rank",
    "--qk-head-dim": "qk_head_size", "--qk-pos-emb-head-dim": "rope_head_size", "--v-head-dim": "v_head_size",
}  # fmt: skip
"""Sizes of the model that costs are made of, and their keys in ``costs.model``."""
MODEL_SWITCHES = (
    "--swiglu", "--squared-relu", "--untie-embeddings-and-output-weights", "--group-query-attention",
    "--multi-latent-attention", "--use-flash-attn", "--use-distributed-optimizer",
)  # fmt: skip
MODEL_TEXTS = ("--moe-layer-freq", "--position-embedding-type")
MODEL = frozenset((*MODEL_NUMBERS, *MODEL_SWITCHES, *MODEL_TEXTS))
"""Arguments that matter only where costs are made of the model."""
SWITCHES = (
    "--bf16", "--fp16", "--sequence-parallel", EMBEDDING, LOSS, "--overlap-p2p-communication",
    "--no-overlap-p2p-communication", "--overlap-p2p-communication-warmup-flush", COMBINED, "--delay-wgrad-compute",
    "--overlap-grad-reduce", "--recompute-activations", "--checkpoint-activations", "--moe-layer-recompute",
    ZERO_BUBBLE, V_SCHEDULE, ZB_H1, DUALPIPE, DUALPIPEV, PADDING, NO_PIPELINE, *MODEL_SWITCHES,
)  # fmt: skip
CHOICES: Mapping[str, tuple[str, ...]] = {
    GRANULARITY: ("full", "selective"),
    METHOD: ("uniform", "block"),
    V_MEMORY: ("min", "half", "zb"),
}
TEXTS = (LAYOUT, PENDING, PARTITION, "--recompute-modules", "--rampup-batch-size", CONFIG, *MODEL_TEXTS)
"""Options whose value is a text; of several words the first is kept."""
LAUNCHER = ("--nproc-per-node", "--nnodes", "--num-gpus", "--num-nodes")
OLD = {
    "--encoder-num-layers": LAYERS,
    "--encoder-seq-length": "--seq-length",
    "--batch-size": MICRO,
    "--model-parallel-size": TENSOR,
    "--moe-expert-parallel-size": EXPERT,
    "--checkpoint-num-layers": RECOMPUTED_LAYERS,
    "--activations-checkpoint-num-layers": RECOMPUTED_LAYERS,
    "--activations-checkpoint-method": METHOD,
    "--num-layers-in-first-pipeline-stage": FIRST,
    "--num-layers-in-last-pipeline-stage": LAST,
    "--overlap-p2p-comm": "--overlap-p2p-communication",
    "--moe-topk": "--moe-router-topk",
    "--deepspeed-config": CONFIG,
}
"""Earlier names, and today's."""
MEANT = {
    "--virtual-pipeline-model-parallel-size": CHUNKS,
    "--tensor-parallel-size": TENSOR,
    "--pipeline-parallel-size": PIPELINE,
    "--tp-size": TENSOR,
    "--pp-size": PIPELINE,
}
"""Names that Megatron doesn't have, though other frameworks do."""
_TWO_MODELS = "models of an encoder and a decoder aren't read"
_HOST = "activations that are moved to the host aren't modelled"
_OWN = "this schedule isn't modelled"
REFUSED = {
    "--standalone-embedding-stage": f"say what it does with {LAYOUT}, as in 'E|t*4|t*4|t*4L'",
    "--pipeline-model-parallel-split-rank": _TWO_MODELS,
    "--decoder-num-layers": _TWO_MODELS,
    "--encoder-pipeline-model-parallel-size": _TWO_MODELS,
    "--retro-add-retriever": "models that retrieve aren't read",
    "--yaml-cfg": "what a YAML file of Megatron's says isn't read; give the arguments themselves",
    "--heterogeneous-layers-config-path": "layers that differ by a file aren't read",
    "--heterogeneous-layers-config-encoded-json": "layers that differ by a file aren't read",
    "--hybrid-context-parallel": "microbatches that differ in length by the data aren't modelled",
    "--cpu-offloading": _HOST,
    "--cpu-offloading-num-layers": _HOST,
    "--fine-grained-activation-offloading": _HOST,
    "--offload-chunk-num": _HOST,
    "--swap-attention": _HOST,
    "--enable-1f1b-v": "1F1B over a V isn't modelled; near it are v_half and hanayo",
    "--interleave-group-size": "grouped interleaving isn't modelled; leave it out for Megatron's",
    "--enable-zbh1-exact-semantics": "the second optimizer pass that it adds isn't modelled; leave it out",
    "--enable-exact-optimizer": "the second optimizer pass that it adds isn't modelled; leave it out",
    "--enable-vocab-parallel": "a vocabulary that is shared out over the pipeline isn't modelled",
    "--schedules-method": f"{_OWN}; {DUALPIPEV} is",
    "--use-nanopipe": _OWN,
    "--use-nanopipe-swap": _OWN,
    "--moe-fb-overlap": f"{_OWN}; {COMBINED} is",
    "--num-layer-list": f"say it with {LAYOUT}",
    "--noop-layers": "layers that do nothing aren't read; say what remains with " + LAYOUT,
    "--recompute-in-advance": "recomputation in this order isn't modelled; leave it out",
    "--recompute-in-bubble": "recomputation in this order isn't modelled; leave it out",
    "--adaptive-recompute-device-swap": "recomputation that is chosen while it runs isn't modelled",
    "--enable-recompute-layers-per-pp-rank": "recomputed layers are counted by stage here; leave it out",
    "--num-microbatches-with-partial-activation-checkpoints": "recomputation of some microbatches isn't read",
    "--use-torch-fsdp2": "it can't be combined with a pipeline",
    "--mtp-standalone": f"say it with {LAYOUT}",
    "--split-transformers": "transformers that are split into halves aren't read",
    "--mlp-chunks-for-training": "a product in parts isn't modelled",
    "--attn-cp-size": "give --context-parallel-size",
}  # fmt: skip
"""Options that change the pipeline in a way that isn't read: better no answer than a wrong one."""
PROGRAMS = {
    "t5": _TWO_MODELS, "ict": "models of two encoders aren't read", "retro": "models that retrieve aren't read",
    "vlm": "models with a vision tower aren't read", "mimo": "models with a vision tower aren't read",
    "llava": "models with a vision tower aren't read", "realm": "models of two encoders aren't read",
}  # fmt: skip
"""Parts of a program's name, as in pretrain_t5.py, by which its model isn't a stack of layers alone."""
OTHERS = (
    "--moe-ffn-hidden-size", "--num-workers", "--eval-micro-batch-size", "--eval-global-batch-size",
    "--num-layers-at-start-in-bf16", "--num-layers-at-end-in-bf16", "--fp8-format", "--no-bf16", "--tp-comm-overlap",
    "--decoder-seq-length", "--train-iters", "--max-position-embeddings",
)  # fmt: skip
"""Names near those above that are right as they are."""
KNOWN = frozenset((*NUMBERS, *MODEL_NUMBERS, *SWITCHES, *CHOICES, *TEXTS, *OLD, *REFUSED))
MARKS = frozenset((LAYERS, "--encoder-num-layers", PIPELINE, MICRO, "--hidden-size"))
"""By one of these a command is known as Megatron's."""
PRINTS = ("echo", "printf", ":", "cat", "sed", "grep", "export", "read", "logger")
NOT_MODELLED = {
    "--rampup-batch-size": "the steps after the ramp are simulated, with the whole global batch",
    "--overlap-p2p-communication-warmup-flush": "messages overlap in the warm-up and at the end with or without it",
    "--defer-embedding-wgrad-compute": "that the head's weight gradients can wait isn't modelled",
    "--window-size": "every token attends to all before it here",
}
PER_LAYER = {
    "--hybrid-layer-pattern": "layers of all kinds take the same time here",
    "--hybrid-override-pattern": "layers of all kinds take the same time here",
    "--linear-attention-freq": "layers of all kinds take the same time here",
    "--moe-layer-freq": "layers with and without experts take the same time here",
    "--data-parallel-sharding-strategy": "gathering and scattering what is sharded is part of the time per layer",
}
"""What isn't modelled where costs are a time per layer, and is, or is refused, where they follow from the model."""


@cache
def without_effect() -> frozenset[str]:
    """Options that change nothing of what is simulated."""
    text = (files("ppsim.formats.megatron") / "without_effect.txt").read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if line.startswith("--"))
