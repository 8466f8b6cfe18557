"""Models: parameters to the digits that others print, and config.json of every family."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ppsim.costs.transformer import TransformerModel, active_parameters, expand, parameters
from ppsim.costs.transformer.count import with_mtp
from ppsim.costs.transformer.huggingface import FAMILIES, settings
from ppsim.hardware import catalog


def model(name: str, **changes: Any) -> TransformerModel:
    return TransformerModel.model_validate(expand({"like": name, **changes}))


@pytest.mark.parametrize(
    ("name", "billions", "reason"),
    [
        ("llama-3-8b", "8.030", "Meta-Llama-3-8B's safetensors: 8,030,261,248"),
        ("llama-3-70b", "70.554", "Meta-Llama-3-70B's: 70,553,706,496"),
        ("llama-3-405b", "405.85", "with 8 kv heads"),
        ("mixtral-8x7b", "46.703", "Mixtral-8x7B's: 46,702,792,704"),
        ("deepseek-v2", "235.74", "DeepSeek-V2's: 235,741,434,880"),
        ("deepseek-v3", "671.03", "671,026,419,200: README of DeepSeek-V3, main model"),
        ("llama-2-7b", "6.738", "Llama-2-7b's: 6,738,415,616"),
        ("qwen3-8b", "8.191", "Qwen3-8B's: 8,190,735,360"),
        ("qwen3-30b-a3b", "30.532", "Qwen3-30B-A3B's: 30,532,122,624"),
        ("gpt2", "0.124", "GPT-2 small: 124,439,808"),
        ("gpt3-175b", "174.6", "Megatron-LM, SC 2021, table 2"),
        ("bert-large", "0.334", "24 x 12,596,224 + (30522 + 512 + 2) x 1024 + 2 x 1024, by hand"),
    ],
)
def test_a_model_has_its_parameters_to_the_printed_digit(name: str, billions: str, reason: str) -> None:
    decimals = len(billions.partition(".")[2])
    assert f"{parameters(model(name)) / 1e9:.{decimals}f}" == billions, reason


def test_more_kv_heads_are_more_parameters() -> None:
    # 126 layers x 2 x 8 more heads of 128 x 16384: 4.228 B
    assert f"{parameters(model('llama-3-405b', kv_heads=16)) / 1e9:.2f}" == "410.08"


def test_prediction_layers_are_counted_apart() -> None:
    # Hugging Face counts 684.49 B with an embedding and a head of the prediction layer's own, 2 x 129280 x 7168.
    assert f"{(with_mtp(model('deepseek-v3')) + 2 * 129280 * 7168) / 1e9:.2f}" == "684.49"


@pytest.mark.parametrize(
    ("name", "ends", "billions"),
    [
        ("mixtral-8x7b", 2, "12.88"),  # Mistral: 12.9 B active
        ("deepseek-v3", 2, "37.55"),  # with embedding and head
        ("deepseek-v3", 1, "36.63"),  # with the head alone
        ("llama-3-8b", 2, "8.03"),  # all of a dense model
        ("gpt2", 1, "0.12"),  # the head is the embedding
    ],
)
def test_active_parameters(name: str, ends: int, billions: str) -> None:
    assert f"{active_parameters(model(name), ends) / 1e9:.2f}" == billions


@pytest.mark.parametrize("name", [name for name in catalog.models() if name.startswith("gpt-")])
def test_a_gpt_has_the_parameters_in_its_name(name: str) -> None:
    """Names are the papers' counts: Megatron-LM SC 2021 table 1, Korthikanti table 3, Zero Bubble table 3."""
    printed = name.removeprefix("gpt-").removesuffix("b")
    decimals = len(printed.partition(".")[2])
    assert f"{parameters(model(name)) / 1e9:.{decimals}f}" == printed


@pytest.mark.parametrize("name", [name for name in catalog.models() if name.startswith("gpt-")])
def test_a_gpt_is_megatrons_equation(name: str) -> None:
    """P = 12 l h^2 (1 + 13/12h + (V + s)/12lh), which leaves out the final norm's 2h. Source: SC 2021, equation 2."""
    m = model(name)
    equation = 12 * m.layers * m.hidden**2 + 13 * m.layers * m.hidden + (m.vocabulary + m.positions) * m.hidden
    assert parameters(m) == equation + 2 * m.hidden


@pytest.mark.parametrize(
    ("layers", "printed"), [(3, "282.2M"), (13, "785.8M"), (103, "5.3B"), (415, "21.0B"), (1663, "83.9B")]
)
def test_gpipes_transformers(layers: int, printed: str) -> None:
    """GPipe, table 1: d_model 2048, d_ff 8192, 32k words. 282.2M is 0.1 % off the count with 32,000 words (282.3M)."""
    count = parameters(model("gpipe-transformer-48", layers=layers))
    unit, tolerance = (1e6, 0.15) if printed.endswith("M") else (1e9, 0.05)
    assert count / unit == pytest.approx(float(printed[:-1]), abs=tolerance)


CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama-3-8b": ("llama", {
        "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False, "attention_bias": False,
    }),
    "mistral-7b": ("mistral", {
        "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "vocab_size": 32000, "sliding_window": 4096,
    }),
    "mixtral-8x7b": ("mixtral", {
        "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2,
        "sliding_window": None,
    }),
    "qwen3-4b": ("qwen3", {
        "hidden_size": 2560, "intermediate_size": 9728, "num_attention_heads": 32, "num_hidden_layers": 36,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": True,
        "use_sliding_window": False, "sliding_window": None, "attention_bias": False,
    }),
    "qwen3-30b-a3b": ("qwen3_moe", {
        "hidden_size": 2048, "intermediate_size": 6144, "num_attention_heads": 32, "num_hidden_layers": 48,
        "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8,
        "moe_intermediate_size": 768, "decoder_sparse_step": 1, "mlp_only_layers": [],
    }),
    "deepseek-v2": ("deepseek_v2", {
        "hidden_size": 5120, "intermediate_size": 12288, "num_attention_heads": 128, "num_hidden_layers": 60,
        "num_key_value_heads": 128, "vocab_size": 102400, "n_routed_experts": 160, "num_experts_per_tok": 6,
        "n_shared_experts": 2, "moe_intermediate_size": 1536, "first_k_dense_replace": 1, "moe_layer_freq": 1,
        "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    }),
    "deepseek-v3": ("deepseek_v3", {
        "hidden_size": 7168, "intermediate_size": 18432, "num_attention_heads": 128, "num_hidden_layers": 61,
        "num_key_value_heads": 128, "vocab_size": 129280, "n_routed_experts": 256, "num_experts_per_tok": 8,
        "n_shared_experts": 1, "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "moe_layer_freq": 1,
        "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128,
    }),
    "gpt2": ("gpt2", {"n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257}),
}  # fmt: skip
"""The keys that size a model, as in the config.json at each row's source."""


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_json_is_its_row_of_the_catalog(name: str, tmp_path: Any) -> None:
    kind, content = CONFIGS[name]
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": kind, "torch_dtype": "bfloat16", **content}))
    read, row = model(str(path)), model(name)
    assert parameters(read) == parameters(row)
    for key in ("layers", "hidden", "head", "groups", "expert_width", "window", "mtp", "qk_norm", "latent"):
        assert getattr(read, key) == getattr(row, key), key
    assert read.like is None  # its sizes say it all


@pytest.mark.parametrize(
    ("kind", "content", "billions"),
    [
        # GPT-Neo-1.3B has no biases at query, key and value: 1,315,575,808.
        ("gpt_neo", {"hidden_size": 2048, "num_layers": 24, "num_heads": 16, "vocab_size": 50257,
                     "max_position_embeddings": 2048, "intermediate_size": None}, "1.3156"),
        # GPT-NeoX-20B: 20,554,567,680 with 50432 words; norms beside one another have as many weights.
        ("gpt_neox", {"hidden_size": 6144, "num_hidden_layers": 44, "num_attention_heads": 64, "vocab_size": 50432,
                      "intermediate_size": 24576, "tie_word_embeddings": False}, "20.5546"),
        # Qwen2-7B: 7,615,616,512, with biases at query, key and value.
        ("qwen2", {"hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
                   "vocab_size": 152064, "intermediate_size": 18944}, "7.6156"),
        # Qwen1.5-MoE-A2.7B: 14,315,784,192, with a gate for the shared experts.
        ("qwen2_moe", {"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16,
                       "num_key_value_heads": 16, "vocab_size": 151936, "intermediate_size": 5632, "num_experts": 60,
                       "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
                       "shared_expert_intermediate_size": 5632}, "14.3158"),
    ],
)  # fmt: skip
def test_other_families(kind: str, content: dict[str, Any], billions: str) -> None:
    read = TransformerModel.model_validate(settings({"model_type": kind, **content}))
    assert f"{parameters(read) / 1e9:.4f}" == billions


def test_every_family_is_tested() -> None:
    tested = {kind for kind, _ in CONFIGS.values()} | {"gpt_neo", "gpt_neox", "qwen2", "qwen2_moe"}
    assert tested == set(FAMILIES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"model_type": "t5", "is_encoder_decoder": True}, "'t5' is an encoder-decoder"),
        ({"model_type": "lama"}, "model_type 'lama' is unknown; did you mean 'llama'?"),
        ({"model_type": "mamba"}, "or give the sizes inline: layers, hidden, heads"),
        ({}, "has no model_type; known: llama, mistral"),
        (
            {"architectures": ["LlamaForCausalLM"]},
            'its architectures say \'LlamaForCausalLM\': write "model_type": "llama"',
        ),
        ({"model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"]}, 'write "model_type": "deepseek_v3"'),
        ({"model_type": "llava", "text_config": {"model_type": "llama"}}, "its text_config is a llama: save that part"),
        ({"model_type": "llama", "hidden_size": 64}, "lacks num_hidden_layers, num_attention_heads, vocab_size, int"),
        ({"model_type": "deepseek_v3", **CONFIGS["deepseek-v3"][1], "v_head_dim": None}, "lacks v_head_dim, which"),
        ({"model_type": "llama", **CONFIGS["llama-3-8b"][1], "attention_bias": True}, "'attention_bias: true'"),
    ],
)
def test_a_config_json_that_cant_be_read_says_what_is_missing(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        settings(content)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("[1]", "a mapping with 'model_type' is due"), ("{", "not JSON"), ("[" * 5000, "not"), ("x" * (2 << 20), "MiB")],
)
def test_a_file_that_is_no_config_json_is_one_line(text: str, message: str, tmp_path: Any) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ValueError) as error:
        model(str(path))
    assert str(path) in str(error.value) and message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_directory_is_no_config_json(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="a directory, where a model's"):
        model(str(tmp_path))


def test_a_row_with_changes_is_a_model_of_its_own() -> None:
    # 12 of 80 layers: 12 x 855,654,400 + 2 x 128256 x 8192 + 8192, by hand
    assert parameters(model("llama-3-70b", layers=12)) == 12 * 855_654_400 + 2 * 128256 * 8192 + 8192


@pytest.mark.parametrize(
    ("sizes", "key", "message"),
    [
        ({"hidden": 100, "heads": 7}, "heads", "hidden 100 isn't a multiple of 7 heads; give head_size, or 5 heads"),
        ({"heads": 8, "kv_heads": 3}, "kv_heads", "8 heads aren't a multiple of 3 kv_heads"),
        ({"top_k": 2}, "top_k", "is for a model with experts"),
        ({"experts": 4}, "top_k", "missing"),
        ({"experts": 4, "top_k": 5}, "top_k", "a token can't be sent to 5 of 4 experts; at most 4"),
        ({"experts": 4, "top_k": 2, "dense_layers": 9}, "dense_layers", "9 dense layers are more than all 2 layers"),
    ],
)
def test_sizes_that_contradict_each_other(sizes: dict[str, Any], key: str, message: str) -> None:
    small = TransformerModel(**{"layers": 2, "hidden": 64, "heads": 8, "vocabulary": 128, **sizes})
    found = dict(small.problems())
    assert message in found[key]
