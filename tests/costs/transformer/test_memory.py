"""Memory beside activations by hand: weights and what belongs to them, buffers, what bursts in an op."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from ppsim.costs.layers import LayerCosts
from ppsim.costs.transformer.device import device
from tests.costs.transformer.terms import costs, layer, setting

LLAMA = {"model": "llama-3-70b", "sequence": 4096}
H, F, V, S = 8192, 28672, 128256, 4096
HIDDEN = 2 * H * S
"""Bytes of a microbatch's hidden state."""
PARAMETERS = 855_654_400
"""Of a layer: 2h(a + kv)d + 3hf + 2h."""


@pytest.mark.parametrize(
    ("sharding", "weights", "gradients", "state", "reason"),
    [
        ("none", 2, 4, 12, "bf16; fp32; a copy and two moments in fp32"),
        ("optimizer", 2, 4, Fraction(12, 8), "6 + 12/8: Megatron's distributed optimizer"),
        ("gradients", 2, Fraction(4, 8), Fraction(12, 8), "ZeRO 2"),
        ("weights", Fraction(2, 8), Fraction(4, 8), Fraction(12, 8), "ZeRO 3"),
    ],
)
def test_bytes_per_parameter_on_eight_replicas(
    sharding: str, weights: Any, gradients: Any, state: Any, reason: str
) -> None:
    row = layer(costs(**LLAMA, optimizer_sharding=sharding), "layer", data_parallel=8)
    found = (row.weights, row.gradients, row.optimizer_state)
    assert found == (weights * PARAMETERS, gradients * PARAMETERS, state * PARAMETERS), reason


@pytest.mark.parametrize(
    ("precision", "total", "reason"),
    [
        ({}, 18, "2 + 4 + 12"),
        ({"weights": "fp32"}, 16, "4 + 4 + 8: no copy"),
        ({"gradients": "bf16"}, 16, "2 + 2 + 12"),
        ({"optimizer": "momentum"}, 14, "2 + 4 + 4 + 4"),
        ({"optimizer": "sgd"}, 10, "2 + 4 + 4: the copy alone"),
        ({"weights": "fp32", "optimizer": "sgd"}, 8, "4 + 4"),
        ({"optimizer": "8 B"}, 14, "2 + 4 + 8"),
    ],
)
def test_bytes_per_parameter_of_a_precision(precision: dict[str, str], total: int, reason: str) -> None:
    row = layer(costs(**LLAMA, precision=precision), "layer")
    assert row.weights + row.gradients + row.optimizer_state == total * PARAMETERS, reason


def test_context_parallel_devices_shard_the_optimizer_too() -> None:
    given = costs(**LLAMA, context_parallel=4, optimizer_sharding="optimizer")
    assert layer(given, "layer", data_parallel=2).optimizer_state == Fraction(12, 8) * PARAMETERS


def test_experts_are_sharded_over_the_devices_that_hold_the_same_ones() -> None:
    """DeepSeek-V2 on 8 devices, expert parallel 4: 40 experts each, which two devices hold.

    A layer's experts are 3 x 5120 x 1536 each. Sharding them over all 8 would lose three quarters of their state.
    """
    given = costs(model="deepseek-v2", sequence=S, expert_parallel=4, optimizer_sharding="optimizer")
    experts = 40 * 3 * 5120 * 1536
    row = layer(given, "expert layer", data_parallel=8)
    assert row.optimizer_state == Fraction(12, 2) * experts + Fraction(12, 8) * (row.parameters - experts)
    assert row.weights == 2 * row.parameters


def test_a_tied_head_has_the_embeddings_weights_where_both_are_on_one_stage() -> None:
    given = costs(model="gpt2", sequence=1024, vocabulary_padding=1)
    one = given.stage_costs(setting(1))
    two = given.stage_costs(setting(2))
    assert sum(two.weights) - sum(one.weights) == 2 * 50257 * 768


def buffers(given: Any, kind: str) -> dict[str, Fraction]:
    return dict(layer(given, kind).buffers)


def test_one_tensor_without_meaning_for_each_shape_of_a_weight() -> None:
    """bf16: 10240 x 8192, 8192 x 8192, 57344 x 8192, 8192 x 28672 — 1632 MiB; and the products' workspace."""
    found = buffers(costs(**LLAMA), "layer")
    workspace = found.pop("workspace")
    assert workspace == 32 * 2**20
    assert sum(found.values()) == 1632 * 2**20
    assert buffers(costs(**LLAMA, gradient_accumulation="unfused"), "layer") == {"workspace": workspace}
    assert buffers(costs(**LLAMA), "head") == {"workspace": workspace}  # its gradient bursts


def test_grouped_products_have_four_workspaces_more() -> None:
    found = buffers(costs(model="mixtral-8x7b", sequence=S), "expert layer")
    assert found["workspace of grouped products"] == 4 * 32 * 2**20
    assert found["gradient 28672 x 4096"] == 2 * 28672 * 4096  # one, however many experts


def test_layers_of_one_stage_share_their_buffers() -> None:
    given = costs(model={"like": "llama-3-70b", "layers": 2}, sequence=S)
    rows = given.layer_costs(setting()).layers
    one, both = LayerCosts(rows[1:2]).stage_costs([1]), LayerCosts(rows[1:3]).stage_costs([2])
    assert both.gradients[0] - one.gradients[0] == rows[1].gradients


@pytest.mark.parametrize(
    ("tensor", "expected", "moment"),
    [
        (1, 4 * F * S, "the activation's two sides: 448 MiB"),
        (2, 4 * F * S // 2, "the same, shared: 224 MiB, as much as input and gradient gathered less what has gone"),
        (8, 4 * H * S - 2 * F * S // 8, "input and its gradient gathered, the activation's output gone"),
    ],
)
def test_a_layers_backward_bursts(tensor: int, expected: int, moment: str) -> None:
    assert layer(costs(**LLAMA, tensor_parallel=tensor), "layer").transient_backward == max(
        expected, 2 * H * S * (tensor > 1) + 2 * F * S // tensor
    ), moment


def test_an_expert_layers_backward_bursts_while_tokens_are_exchanged() -> None:
    # two tensors of 6 copies of every token: 2 x 240 MiB
    assert layer(costs(model="deepseek-v2", sequence=S), "expert layer").transient_backward == 2 * 6 * S * 2 * 5120


@pytest.mark.parametrize(
    ("expert", "copies", "reason"),
    [
        (1, 2, "permuted; the experts' output in the order of tokens"),
        (8, 4, "also as dispatched, and as combined: other tensors where they come from other devices"),
        (160, 3, "one expert on a device: what is dispatched is its input as it is"),
    ],
)
def test_an_expert_layers_forward_bursts_while_tokens_are_combined(expert: int, copies: int, reason: str) -> None:
    """Each is 6 copies of every token, 240 MiB; then the layer's output and the shared experts', 40 MiB each."""
    row = layer(costs(model="deepseek-v2", sequence=S, expert_parallel=expert), "expert layer", data_parallel=160)
    assert row.transient_forward == copies * 6 * S * 2 * 5120 + 2 * S * 2 * 5120, reason


def test_unfused_attention_bursts_by_the_gradients_on_both_sides_of_the_softmax() -> None:
    # 2 x 2as² where the feed-forward layer's 2f + 2f have gone
    row = layer(costs(model="gpt-22b", sequence=2048, attention="unfused"), "layer")
    assert row.transient_backward == 4 * 64 * 2048**2 - 2 * 2048 * 2 * 4 * 6144


def test_unfused_accumulation_bursts_by_the_largest_gradient() -> None:
    fused, loose = (layer(costs(**LLAMA, gradient_accumulation=way), "layer") for way in ("fused", "unfused"))
    assert loose.transient_backward - fused.transient_backward == 2 * 2 * F * H


def test_a_heads_backward_bursts_by_its_gradients() -> None:
    """The weights' gradient in bf16 and the input's; gathered with sequence parallelism, and the input itself."""
    assert layer(costs(**LLAMA), "head").transient_backward == 2 * V * H + HIDDEN
    shared = layer(costs(**LLAMA, tensor_parallel=2), "head").transient_backward
    assert shared == 2 * V * H // 2 + HIDDEN + HIDDEN + HIDDEN // 2


def test_an_unfused_loss_bursts_by_the_logits_beside_the_softmax() -> None:
    row = layer(costs(**LLAMA, cross_entropy="unfused"), "head")
    assert row.transient_forward == 2 * V * S
    # either the cast of the gradient, or, the softmax gone, that and the product's
    assert row.transient_backward == max(2 * V * S, 2 * V * S - 4 * V * S + 2 * V * H + HIDDEN)


def test_an_embeddings_gradient_is_there_for_all_words() -> None:
    assert layer(costs(**LLAMA), "embedding").transient_backward == 2 * V * H


def test_sharded_weights_are_whole_while_their_layer_runs() -> None:
    plain = layer(costs(**LLAMA), "layer", data_parallel=4).transient_backward
    gathered = layer(costs(**LLAMA, optimizer_sharding="weights"), "layer", data_parallel=4).transient_backward
    assert gathered - plain == (2 + 4) * PARAMETERS


@pytest.mark.parametrize(
    ("sharding", "sent", "reason"),
    [
        ("none", 2 * 4, "an all-reduce of fp32 gradients"),
        ("optimizer", 4 + 2, "a reduce-scatter of them, an all-gather of bf16 weights"),
        ("gradients", 2, "gradients are summed in every backward; the weights gathered"),
        ("weights", 0, "weights are gathered in every op"),
    ],
)
def test_what_is_synced_once_a_step(sharding: str, sent: int, reason: str) -> None:
    """A ring of n sends (n-1)/n of it; the pipeline's sync sends 2(d-1)/d of ``synced`` for d replicas."""
    for context in (1, 2):
        given = costs(**LLAMA, optimizer_sharding=sharding, context_parallel=context)
        row, n = layer(given, "layer", data_parallel=4), 4 * context
        assert row.synced is not None
        assert Fraction(2 * 3, 4) * row.synced == Fraction(n - 1, n) * sent * PARAMETERS, reason


def test_without_replicas_context_parallel_devices_sync_in_the_optimizer_step() -> None:
    given = costs(**LLAMA, context_parallel=2, efficiency={"collective": "100 GB/s"})
    alone = costs(**LLAMA, efficiency={"collective": "100 GB/s"})
    with_sync, without = layer(given, "layer"), layer(alone, "layer")
    link_latency = device(given, setting()).machine.links["data"].latency
    assert with_sync.synced == 0
    # half of 8 bytes per parameter at 100 GB/s
    assert with_sync.optimizer - without.optimizer == link_latency + Fraction(8 * PARAMETERS, 2 * 100 * 10**9)


def test_an_optimizer_step_moves_its_shard() -> None:
    """Reads 4 + 12 bytes and writes 12 + 2 of each of its parameters, zeroes all gradients; 8 TB/s at 3/4."""
    row = layer(costs(**LLAMA, optimizer_sharding="optimizer"), "layer", data_parallel=4)
    moved = Fraction(30, 4) * PARAMETERS + 4 * PARAMETERS
    assert row.optimizer == moved / (8000 * 10**9 * Fraction(3, 4))
