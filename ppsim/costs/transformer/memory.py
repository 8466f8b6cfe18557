"""Memory of a model on a device beside its activations: weights and what belongs to them, and what bursts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from ppsim.costs.transformer.sizes import FP32, Sizes
from ppsim.costs.transformer.terms import Term

ZERO = Fraction(0)
SHARDINGS = ("none", "optimizer", "gradients", "weights")
Sharding = Literal["none", "optimizer", "gradients", "weights"]


@dataclass(frozen=True)
class Held:
    """Bytes per parameter, and over how many devices each is sharded.

    With Adam in mixed precision 2 of weights, 4 of gradients and 12 of the optimizer's: a copy in fp32 and two moments.
    Source: ZeRO, arXiv 1910.02054, section 3.1; Megatron-LM core, docs/distributed_optimizer: 6 + 12/d with d shards.
    """

    weight: int
    gradient: int
    state: Fraction
    sharding: Sharding
    shards: int
    """Data and context parallel devices."""
    expert_shards: int
    """Devices that hold the same experts."""

    def weights(self, terms: Sequence[Term]) -> Fraction:
        """Bytes of the weights."""
        return self._bytes(terms, Fraction(self.weight), "weights")

    def gradients(self, terms: Sequence[Term]) -> Fraction:
        """Bytes of the gradients' sums."""
        return self._bytes(terms, Fraction(self.gradient), "gradients")

    def optimizer(self, terms: Sequence[Term]) -> Fraction:
        """Bytes of what the optimizer keeps."""
        return self._bytes(terms, self.state, "optimizer")

    def _bytes(self, terms: Sequence[Term], size: Fraction, since: Sharding) -> Fraction:
        """Sharded where ``sharding`` says so for this part."""
        sharded = SHARDINGS.index(self.sharding) >= SHARDINGS.index(since)
        return sum(
            (
                size * term.parameters / (self.shards if sharded else 1)
                + size * term.expert_parameters / (self.expert_shards if sharded else 1)
                for term in terms
            ),
            ZERO,
        )

    def synced(self, terms: Sequence[Term]) -> Fraction:
        """Bytes that a device sends to sum gradients once a step, and to gather what the optimizer has updated.

        A ring's all-reduce of n devices sends 2(n-1)/n of the gradients; where the optimizer is sharded, a
        reduce-scatter and an all-gather of the weights send (n-1)/n each. Gradients that are sharded themselves are
        summed in every backward, weights that are sharded themselves are gathered in every op.
        Source: Patarasuk and Yuan 2009; ZeRO, arXiv 1910.02054, section 7.
        """
        sent = ZERO
        for term in terms:
            for count, n in ((term.parameters, self.shards), (term.expert_parameters, self.expert_shards)):
                sent += count * self._sent() * (n - 1) / n
        return sent

    def _sent(self) -> int:
        return {
            "none": 2 * self.gradient,
            "optimizer": self.gradient + self.weight,
            "gradients": self.weight,
            "weights": 0,
        }[self.sharding]

    def updated(self, terms: Sequence[Term]) -> Fraction:
        """Bytes that an optimizer step reads and writes.

        It reads gradients, reads and writes its state, writes weights, each of its shard; all gradients are zeroed.
        """
        per_parameter = self.gradient + 2 * self.state + self.weight
        sharded = self.sharding != "none"
        return self.gradients(terms) + sum(
            (
                per_parameter * term.parameters / (self.shards if sharded else 1)
                + per_parameter * term.expert_parameters / (self.expert_shards if sharded else 1)
                for term in terms
            ),
            ZERO,
        )


def buffers(terms: Sequence[Term], sizes: Sizes, workspace: Fraction) -> tuple[tuple[str, Fraction], ...]:
    """What a device holds throughout, one of each.

    With fused accumulation a product adds a weight's gradient to the sum by itself, and autograd is handed a tensor
    without meaning, one for each shape. Products have a workspace, grouped ones one per stream (4).
    Source: Transformer Engine 2.11, pytorch/module/base.py (get_dummy_wgrad), pytorch/cpp_extensions/gemm.py.
    """
    found = {"workspace": workspace}
    for term in terms:
        if sizes.fused_accumulation:
            found |= {f"gradient {n} x {k}": Fraction(sizes.element * n * k) for n, k in term.matrices}
        if term.expert_parameters:
            found["workspace of grouped products"] = 4 * workspace
    return tuple(found.items())


def in_layer_backward(sizes: Sizes, experts: bool) -> Fraction:
    """The most bytes that a layer's backward needs beside all its activations, its last tensors going first.

    The largest of some moments; what the backward has freed by then is taken off. Gradients come in and go out as
    messages. With sequence parallelism a product's input, or its output's gradient, is gathered for it.
    Source: the order of autograd (last operation first), the tensors of ``feed_forward`` and ``attention``.
    """
    gathered = sizes.hidden if sizes.spread > 1 else ZERO
    moments = [ZERO]
    if experts:
        moments += _in_experts(sizes)
        kept = ZERO  # more than it is worth to count
    else:
        moments += _in_dense(sizes, Fraction(sizes.model.width, sizes.tensor) * sizes.tokens, gathered)
        kept = sizes.element * sizes.tokens * Fraction(sizes.model.width, sizes.tensor) * (1 + _up(sizes))
    if not sizes.flash:  # gradients of the softmax's output and of its input, when the feed-forward layer is done
        square = sizes.element * sizes.tokens * sizes.sequence * sizes.heads
        moments.append(2 * square - kept)
    loose = ZERO
    if not sizes.fused_accumulation:  # the largest matrix's gradient, until it is added to the sum
        loose = sizes.element * _largest_matrix(sizes, experts)
    return max(moments) + loose


def in_expert_forward(sizes: Sizes) -> Fraction:
    """The most bytes that an expert layer's forward needs beside what it keeps.

    While tokens are combined, the function's own variables hold them as permuted, as dispatched, as the experts'
    output in the order of devices, and as combined; then the layer's output and that of the shared experts. What isn't
    exchanged, or not sorted because there is one expert, is the same tensor.
    Source: Megatron-LM core, transformer/moe/moe_layer.py (MoELayer.forward) and token_dispatcher.py.
    """
    sent = sizes.element * sizes.model.hidden * sizes.routed
    copies = 2 if sizes.expert == 1 else 3 + (sizes.experts > 1)
    return copies * sent + sizes.hidden_part * (2 if sizes.model.shared_width else 1)


def _up(sizes: Sizes) -> int:
    return 2 if sizes.model.gated else 1


def _in_dense(sizes: Sizes, elements: Fraction, gathered: Fraction) -> list[Fraction]:
    """Moments of a dense feed-forward layer: its down projection, its activation, its up projection."""
    result = sizes.element * elements
    product = result * _up(sizes)
    return [
        gathered + result,  # the output's gradient gathered, the activation's gradient
        result + product - result,  # gradients on both sides of the activation, whose output has gone
        gathered + product + sizes.hidden - result - product,  # the input gathered, its gradient
    ]


def _in_experts(sizes: Sizes) -> list[Fraction]:
    """Moments of a layer of experts: an exchange of tokens, between two tensors; the experts' down projection."""
    sent = sizes.element * sizes.model.hidden * sizes.routed
    result = sizes.element * Fraction(sizes.model.expert_width, sizes.expert_tensor) * sizes.routed
    return [2 * sent, sent + result]


def _largest_matrix(sizes: Sizes, experts: bool) -> Fraction:
    model = sizes.model
    width = Fraction(max(model.shared_width, 1) if experts else model.width, sizes.tensor)
    return max(width * _up(sizes), (sizes.heads + 2 * sizes.groups) * model.head) * model.hidden


def in_head_backward(sizes: Sizes) -> Fraction:
    """The same for the head: its weights' gradient, its input's gradient, and the input gathered.

    The output projection isn't one of the layers that hand on a tensor without meaning: its gradient is there in bf16.
    With a fused loss the logits become their own gradient; else that is cast from fp32.
    Source: Megatron-LM core, tensor_parallel/layers.py (LinearWithGradAccumulationAndAsyncCommunication).
    """
    gathered = sizes.hidden + sizes.hidden_part if sizes.spread > 1 else ZERO
    product = sizes.element * sizes.vocabulary * sizes.model.hidden + sizes.hidden + gathered
    if sizes.fused_cross_entropy:
        return product
    logits, single = sizes.element * sizes.vocabulary * sizes.tokens, FP32 * sizes.vocabulary * sizes.tokens
    return max(logits, logits - single + product)


def in_head_forward(sizes: Sizes) -> Fraction:
    """The same for the head's forward: an unfused loss has the logits beside the softmax in fp32."""
    return ZERO if sizes.fused_cross_entropy else sizes.element * sizes.vocabulary * sizes.tokens


def in_embedding_backward(sizes: Sizes) -> Fraction:
    """The embedding's gradient, written for all words before it is added to the sum."""
    return Fraction(sizes.element * sizes.vocabulary * sizes.model.hidden)
