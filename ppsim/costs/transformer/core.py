"""The core of attention as terms: scores, softmax, the sum of values, and what context parallel devices exchange.

Source: Korthikanti et al. 2022, section 4.1 (unfused: 5as²b); FlashAttention-2, arXiv 2307.08691 (of the scores only
the log-sum-exp is kept).
"""

from __future__ import annotations

from fractions import Fraction

from ppsim.costs.transformer.sizes import FP32, Sizes
from ppsim.costs.transformer.terms import Exchange, Kept, Product, Term, Work

CORE = ("core_attn",)


def core(sizes: Sizes, query: int, value: int) -> Term:
    """Scores, softmax and the sum of values.

    A flash kernel computes half of a causal mask's square, and in its backward the scores once more: five products for
    the forward's two. Unfused, the scores are there as softmax's output, and as dropout's output and mask.
    """
    tokens = sizes.tokens
    # Per head each token meets all of its sequence, of which its own device has a part with context parallelism.
    pairs = Fraction(sizes.sequence)
    scores = Product(tokens, pairs * sizes.heads, Fraction(query))
    values = Product(tokens, sizes.heads * value, pairs)
    out = Kept("attention output", sizes.element * sizes.heads * value * tokens, for_weights=True)
    if sizes.flash:
        share = visible(sizes)
        inputs = sizes.element * tokens * (sizes.heads * query + sizes.groups * (query + value))
        forward = Work((scores, values), inputs + out.size, share=share, fused=True)
        backward = Work((scores,) * 3 + (values,) * 2, 2 * (inputs + 2 * out.size), share=share, fused=True)
        kept = [out, Kept("log-sum-exp", FP32 * sizes.heads * tokens, CORE)]
        text = "2 products, 5 in the backward, half of each where causal (FlashAttention-2, arXiv 2307.08691)"
    else:
        square = sizes.element * tokens * pairs * sizes.heads
        mask = square / sizes.element if sizes.dropout else Fraction(0)
        dropped = 2 * square + mask if sizes.dropout else Fraction(0)
        forward = Work((scores, values), 2 * square + dropped)
        backward = Work((scores,) * 2 + (values,) * 2, 3 * square + dropped)
        kept = [out, Kept("softmax", square, CORE)]
        if sizes.dropout:
            kept += [Kept("softmax dropout", square, CORE), Kept("softmax mask", mask, CORE)]
        text = "2 products, 4 in the backward; keeps 2as²b, with dropout 5as²b (Korthikanti 2022, 4.1)"
    return Term("attention core", text, forward=forward, input_grad=backward, kept=tuple(kept), module=CORE)


def visible(sizes: Sizes) -> Fraction:
    """The share of all pairs of tokens that a mask leaves: half where causal, less where a window is narrower."""
    if not sizes.model.causal:
        return Fraction(1)
    width = min(sizes.model.window or sizes.sequence, sizes.sequence)
    return Fraction(2 * width * sizes.sequence - width**2, 2 * sizes.sequence**2)


def context(sizes: Sizes, query: int, value: int) -> Term:
    """What context parallelism exchanges: heads against tokens (all-to-all), or keys and values around a ring.

    Source: DeepSpeed-Ulysses, arXiv 2309.14509; Ring Attention, arXiv 2310.01889; Transformer Engine 2.11: with
    all-to-all the output is kept on both sides of its exchange, and the backward exchanges its gradient alone there.
    """
    mine = sizes.element * sizes.tokens
    keys, values = mine * sizes.groups * query, mine * sizes.groups * value
    if sizes.model.latent is not None:
        keys, values = mine * sizes.heads * query, mine * sizes.heads * value
    if sizes.context_by_ring:
        around = Exchange("ring", "context", (keys + values) * sizes.context)
        back = Exchange("ring", "context", 2 * (keys + values) * sizes.context)
        return Term("context ring", "keys and values pass all devices; in the backward their gradients, too",
                    Work(exchanges=(around,)), Work(exchanges=(back,)), module=CORE)  # fmt: skip
    queries, outputs = mine * sizes.heads * query, mine * sizes.heads * value
    both = tuple(Exchange("all_to_all", "context", size) for size in (queries, keys, values, outputs))
    kept = (Kept("attention output, exchanged", outputs),)
    return Term("context exchange", "query, key, value and output change from tokens to heads and back",
                Work(exchanges=both), Work(exchanges=both), kept=kept, module=CORE)  # fmt: skip
