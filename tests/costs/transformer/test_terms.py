"""Terms by hand: each tensor that is kept, each product, each collective."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Any

import pytest

from ppsim.costs.transformer.terms import Exchange, Work
from tests.costs.transformer.terms import costs, kept, layer, of, setting, sizes

LLAMA = {"model": "llama-3-70b", "sequence": 4096}
H, F, A, KV, D, S = 8192, 28672, 64, 8, 128, 4096
"""Hidden, feed-forward width, heads, key-value heads, head size, tokens of LLaMA-3 70B's test."""


def test_a_llama_layer_keeps_these_tensors() -> None:
    """Bytes per token, 2 per element; the norms' inputs and outputs are four tensors of the hidden state."""
    found = kept(of("layer", sizes(costs(**LLAMA))).values())
    assert {key: size / S for key, size in found.items()} == {
        ("attention norm", "norm input"): 2 * H,
        ("attention norm", "norm output"): 2 * H,
        ("attention norm", "norm statistics"): 4,  # RMSNorm: one fp32 number per token
        ("query, key, value", "query"): 2 * A * D,
        ("query, key, value", "key"): 2 * KV * D,
        ("query, key, value", "value"): 2 * KV * D,
        ("attention core", "attention output"): 2 * A * D,
        ("attention core", "log-sum-exp"): 4 * A,
        ("feed-forward norm", "norm input"): 2 * H,
        ("feed-forward norm", "norm output"): 2 * H,
        ("feed-forward norm", "norm statistics"): 4,
        ("feed-forward activation", "product"): 4 * F,  # up and gate
        ("feed-forward activation", "activation"): 2 * F,
    }


def test_tensor_parallel_devices_share_what_they_keep() -> None:
    """With sequence parallelism an eighth of all of it, without it the norms' tensors whole."""
    whole = kept(of("layer", sizes(costs(**LLAMA))).values())
    shared = kept(of("layer", sizes(costs(**LLAMA, tensor_parallel=8))).values())
    assert shared == {key: size / 8 for key, size in whole.items()}
    apart = kept(of("layer", sizes(costs(**LLAMA, tensor_parallel=8, sequence_parallel=False))).values())
    assert apart == {key: size / (1 if "norm" in key[0] else 8) for key, size in whole.items()}


def test_context_parallel_devices_keep_their_tokens_and_a_second_attention_output() -> None:
    whole = kept(of("layer", sizes(costs(**LLAMA))).values())
    shared = kept(of("layer", sizes(costs(**LLAMA, context_parallel=4))).values())
    second = shared.pop(("context exchange", "attention output, exchanged"))
    assert second == 2 * A * D * S / 4
    assert shared == {key: size / 4 for key, size in whole.items()}
    ring = kept(of("layer", sizes(costs(**LLAMA, context_parallel=4, context_exchange="ring"))).values())
    assert ring == shared  # around a ring nothing changes hands but keys and values


def test_an_expert_layer_keeps_its_tokens_once_per_expert_that_they_are_sent_to() -> None:
    """Mixtral: top 2 of 8 experts; two copies of each token go through experts of width 14336."""
    found = kept(of("expert layer", sizes(costs(model="mixtral-8x7b", sequence=S))).values())
    h, f = 4096, 14336
    assert found[("experts up", "experts' input")] == 2 * S * 2 * h
    assert found[("experts activation", "product")] == 2 * S * 4 * f
    assert found[("experts activation", "activation")] == 2 * S * 2 * f
    assert found[("router", "router scores")] == 4 * 8 * S  # fp32
    assert found[("router", "routing map")] == 8 * S  # a byte each
    assert not [key for key in found if key[0] == "experts down"]  # probabilities scale the activation


def test_capacity_pads_every_expert() -> None:
    # DeepSeek-V2: 4096 tokens to 6 of 160 experts are 153.6 each, padded to 154
    plain = sizes(costs(model="deepseek-v2", sequence=S))
    padded = sizes(costs(model="deepseek-v2", sequence=S, expert_capacity=1))
    assert plain.routed == 6 * S and padded.routed == 154 * 160


def test_latent_attention_keeps_narrow_and_wide_tensors() -> None:
    """DeepSeek-V2: ranks 1536 and 512; 128 heads with 128 + 64 for query and key, 128 for value."""
    found = kept(of("layer", sizes(costs(model="deepseek-v2", sequence=S))).values())
    per_token = {key: size / S for key, size in found.items() if "feed-forward" not in key[0]}
    assert per_token == {
        ("attention norm", "norm input"): 2 * 5120,
        ("attention norm", "norm output"): 2 * 5120,
        ("attention norm", "norm statistics"): 4,
        ("query norm", "norm input"): 2 * 1536,
        ("query norm", "norm output"): 2 * 1536,
        ("query norm", "norm statistics"): 4,
        ("query up", "query"): 2 * 128 * 192,
        ("key and value norm", "norm input"): 2 * 512,
        ("key and value norm", "norm output"): 2 * 512,
        ("key and value norm", "norm statistics"): 4,
        ("key and value up", "key"): 2 * 128 * 192,
        ("key and value up", "value"): 2 * 128 * 128,
        ("attention core", "attention output"): 2 * 128 * 128,
        ("attention core", "log-sum-exp"): 4 * 128,
    }


GPT = {"model": "gpt-22b", "sequence": 2048, "attention": "unfused", "dropout": True, "sequence_parallel": False}


@pytest.mark.parametrize("heads", [16, 64])
@pytest.mark.parametrize("tensor", [1, 2, 8])
@pytest.mark.parametrize("spread", [False, True])
def test_a_gpt_layer_keeps_what_korthikanti_counts(heads: int, tensor: int, spread: bool) -> None:
    """sbh (10 + 24/t + 5as/ht), and sbh/t (34 + 5as/h) with sequence parallelism; they neglect norm statistics.

    Source: Korthikanti et al. 2022, equations 1, 2 and 4.
    """
    if spread and tensor == 1:
        return
    given = {**GPT, "model": {"like": "gpt-22b", "heads": heads}, "sequence_parallel": spread}
    found = kept(of("layer", sizes(costs(**given, tensor_parallel=tensor), micro_batch=4)).values())
    total = sum(size for key, size in found.items() if key[1] != "norm statistics")
    s, b, h, a, t = 2048, 4, 6144, heads, tensor
    if spread:
        assert total == Fraction(s * b * h * 34, t) + Fraction(s * b * 5 * a * s, t)
    else:
        assert total == s * b * h * 10 + Fraction(s * b * h * 24, t) + Fraction(s * b * 5 * a * s, t)


def test_what_selective_recomputation_leaves_is_korthikantis_34_sbh() -> None:
    """Source: Korthikanti et al. 2022, equation 6."""
    given = costs(**{**GPT, "sequence_parallel": None}, tensor_parallel=8)
    row = layer(given, "layer", "selective", micro_batch=4)
    statistics = 2 * 8 * 4 * 2048 // 8  # two numbers of four bytes per token, two norms, an eighth of the tokens
    assert row.kept - statistics == 34 * 2048 * 4 * 6144 // 8


@pytest.mark.parametrize(
    ("module", "gone"),
    [
        ("layernorm", 2 * 2 * H),  # both norms' outputs
        ("mlp", 6 * F),  # the product and the activation
        ("core_attn", 4 * A),  # of a flash kernel the log-sum-exp alone
    ],
)
def test_a_module_that_is_recomputed_keeps_only_what_comes_in(module: str, gone: int) -> None:
    row = layer(costs(**LLAMA, recompute_modules=[module]), "layer", "selective")
    assert row.activation - row.kept == gone * S
    assert row.recompute > 0


def test_a_layer_that_is_recomputed_keeps_its_input() -> None:
    row = layer(costs(**LLAMA), "layer", "full")
    assert row.kept == 2 * H * S
    assert row.recompute == row.forward
    assert layer(costs(**LLAMA), "head", "full").recompute == 0  # its logits are kept


def test_operations_of_a_gpt_layer() -> None:
    """Forward sbh (24h + 4s), I sbh (24h + 8s), W 24 sbh². Source: Zero Bubble, arXiv 2401.10241, table 1."""
    terms = of("layer", sizes(costs(**GPT))).values()
    s, h = 2048, 6144
    assert sum(term.forward.flops for term in terms) == s * h * (24 * h + 4 * s)
    assert sum(term.input_grad.flops for term in terms) == s * h * (24 * h + 8 * s)
    assert sum(term.weight_grad.flops for term in terms) == 24 * s * h * h


def test_a_weight_gradient_needs_korthikantis_inputs_and_zero_bubbles_gradients() -> None:
    """32 sbh of a GPT layer between I and W. Source: Zero Bubble, arXiv 2401.10241, table 1 (M_W)."""
    assert layer(costs(**GPT), "layer").held_for_weight_grad == 32 * 2048 * 6144


def test_a_flash_kernel_computes_half_of_a_causal_square_and_the_scores_twice() -> None:
    core = of("layer", sizes(costs(**LLAMA)))["attention core"]
    pair = 2 * S * S * H  # one product over all pairs
    assert core.forward.flops == 2 * pair // 2 and core.input_grad.flops == 5 * pair // 2
    assert core.forward.model_flops == 2 * pair  # papers count the whole square
    # a window of w: each token but the first w meets w: (2ws - w²) / 2s² of all pairs
    narrow = of("layer", sizes(costs(model={"like": "llama-3-70b", "window": 1024}, sequence=S)))["attention core"]
    assert narrow.forward.flops == 2 * pair * Fraction(2 * 1024 * S - 1024**2, 2 * S * S)
    whole = of("layer", sizes(costs(model={"like": "llama-3-70b", "causal": False}, sequence=S)))["attention core"]
    assert whole.forward.flops == 2 * pair


def test_operations_of_a_model_are_megatrons() -> None:
    """72 B s l h² (1 + s/6h + V/12lh) of a step. Source: SC 2021, equation 3 without recomputation."""
    given = costs(model="gpt-22b", sequence=2048)
    forward = sum(row.flops for row in given.layer_costs(setting()).layers)
    s, layers, h, v = 2048, 48, 6144, 51200
    assert 3 * forward == 72 * s * layers * h * h * (1 + Fraction(s, 6 * h) + Fraction(v, 12 * layers * h))


def test_products_have_the_shapes_of_their_weights() -> None:
    terms = of("layer", sizes(costs(**LLAMA, tensor_parallel=2)))
    shapes = {name: term.matrices for name, term in terms.items() if term.matrices}
    assert shapes == {
        "query, key, value": ((D * (A + 2 * KV) // 2, H),),
        "attention output": ((H, D * A // 2),),
        "feed-forward up": ((2 * F // 2, H),),
        "feed-forward down": ((H, F // 2),),
    }
    for term in terms.values():
        if term.matrices:
            assert term.parameters == prod(term.matrices[0])


def exchanges(work: Work) -> list[tuple[str, str, Fraction]]:
    return [(e.pattern, e.group, e.size) for e in work.exchanges]


def sent(given: Any, kind: str = "layer") -> dict[str, list[tuple[str, str, Fraction]]]:
    found: dict[str, list[tuple[str, str, Fraction]]] = {"forward": [], "input_grad": [], "weight_grad": []}
    for term in of(kind, sizes(given)).values():
        for key, value in found.items():
            value += exchanges(getattr(term, key))
    return found


def test_tensor_parallel_collectives() -> None:
    """Two all-reduces each way, or as many all-gathers and reduce-scatters, and two more gathers for the weights.

    Source: Megatron-LM, SC 2021, section 2.3; Korthikanti et al. 2022, section 4.2.2.
    """
    hidden = 2 * H * S
    apart = sent(costs(**LLAMA, tensor_parallel=4, sequence_parallel=False))
    assert apart["forward"] == apart["input_grad"] == [("all_reduce", "tensor", hidden)] * 2
    spread = sent(costs(**LLAMA, tensor_parallel=4))
    gather, scatter = ("all_gather", "tensor", hidden), ("reduce_scatter", "tensor", hidden)
    assert sorted(spread["forward"]) == [gather] * 2 + [scatter] * 2
    assert sorted(spread["input_grad"]) == [gather] * 4 + [scatter] * 2
    assert sent(costs(**LLAMA)) == {"forward": [], "input_grad": [], "weight_grad": []}


def test_context_parallel_collectives() -> None:
    """All-to-all of query, key, value and output, each way; around a ring keys and values, and their gradients."""
    mine = 2 * S // 4
    a2a = sent(costs(**LLAMA, context_parallel=4))
    tensors = [mine * A * D, mine * KV * D, mine * KV * D, mine * A * D]
    assert a2a["forward"] == a2a["input_grad"] == [("all_to_all", "context", size) for size in tensors]
    ring = sent(costs(**LLAMA, context_parallel=4, context_exchange="ring"))
    assert ring["forward"] == [("ring", "context", 2 * 2 * S * KV * D)]  # all devices' keys and values
    assert ring["input_grad"] == [("ring", "context", 2 * 2 * 2 * S * KV * D)]


def test_expert_parallel_collectives() -> None:
    """Each token goes to two experts, out and back, each way. Mixtral on 4 devices."""
    found = sent(costs(model="mixtral-8x7b", sequence=S, expert_parallel=4), "expert layer")
    assert found["forward"] == found["input_grad"] == [("all_to_all", "expert", 2 * S * 2 * 4096)] * 2
    cut = sent(
        costs(model="mixtral-8x7b", sequence=S, tensor_parallel=2, expert_parallel=2, expert_tensor_parallel=2),
        "expert layer",
    )
    moved = 2 * S // 2 * 2 * 4096  # half of the tokens, twice
    assert cut["forward"].count(("all_to_all", "expert", moved)) == 2
    assert ("all_gather", "tensor", 2 * moved) in cut["forward"]  # dispatch; combine scatters
    assert ("reduce_scatter", "tensor", 2 * moved) in cut["forward"]


def test_the_ends_of_a_model() -> None:
    given = costs(**LLAMA, tensor_parallel=4)
    head = of("head", sizes(given))
    words = 128512 // 4  # 128256 padded to a multiple of 512
    assert head["output projection"].parameters == words * H
    assert kept(head.values())[("cross entropy", "logits")] == 2 * words * S
    assert head["cross entropy"].forward.exchanges == (Exchange("all_reduce", "tensor", Fraction(4 * S)),) * 3
    loose = of("head", sizes(costs(**LLAMA, cross_entropy="unfused")))
    assert kept(loose.values())[("cross entropy", "softmax in fp32")] == 4 * 128256 * S
    embedding = of("embedding", sizes(given))["word embedding"]
    assert exchanges(embedding.forward) == [("reduce_scatter", "tensor", 2 * H * S)]
    assert embedding.input_grad == Work()


def test_prediction_layers_compute_the_loss_once_more() -> None:
    """DeepSeek-V3: two norms, a projection of 2h to h, an expert layer, a norm; and the head's product again."""
    given = sizes(costs(model="deepseek-v3", sequence=S))
    head = of("head", given)
    again = head["output projection, next token but one"]
    assert again.forward.flops == head["output projection"].forward.flops and again.parameters == 0
    assert of("mtp", given)["projection of both"].parameters == 2 * 7168 * 7168


def test_the_output_is_the_message() -> None:
    # b·s·h of 2 bytes, spread by sequence parallelism
    assert layer(costs(**LLAMA), "layer").message == 2 * H * S
    assert layer(costs(**LLAMA, tensor_parallel=4), "layer").message == 2 * H * S // 4
    assert layer(costs(**LLAMA, tensor_parallel=4, sequence_parallel=False), "layer").message == 2 * H * S
    assert layer(costs(**LLAMA), "layer", micro_batch=3).message == 3 * 2 * H * S
    assert layer(costs(**LLAMA), "head").message == 0
