"""The two ends of a model as terms: the embedding; the final norm, the output projection and the loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from ppsim.costs.transformer.attention import linear, norm, with_exchanges
from ppsim.costs.transformer.sizes import FP32, Sizes
from ppsim.costs.transformer.terms import Exchange, Kept, Product, Term, Work

TOKEN_ID = 8
"""Bytes of a token's number (int64)."""


def embedding(sizes: Sizes) -> Iterator[Term]:
    """Looks up words, adds learned positions and segments, and drops out."""
    model, hidden = sizes.model, sizes.hidden
    words = Fraction(sizes.vocabulary * model.hidden)
    exchanges: tuple[Exchange, ...] = ()
    if sizes.tensor > 1:
        pattern = "reduce_scatter" if sizes.sequence_parallel else "all_reduce"
        exchanges = (Exchange(pattern, "tensor", hidden),)  # type: ignore[arg-type]
    back = (Exchange("all_gather", "tensor", hidden),) if sizes.spread > 1 else ()
    mask = sizes.hidden_part / sizes.element if sizes.dropout else Fraction(0)
    kept = [Kept("token ids", TOKEN_ID * sizes.tokens)] + ([Kept("dropout mask", mask)] if mask else [])
    yield Term(
        "word embedding",
        "reads and writes a row per token; its gradient is written for all words, and added to the sum",
        forward=Work(moved=2 * hidden, exchanges=exchanges),
        weight_grad=Work(moved=2 * hidden + words * (2 * sizes.element + 2 * FP32), exchanges=back),
        kept=tuple(kept),
        parameters=words,
    )
    if model.positions or model.segments:
        yield Term(
            "position and segment embedding",
            "adds a row of each to every token",
            forward=Work(moved=3 * sizes.hidden_part),
            weight_grad=Work(moved=2 * sizes.hidden_part),
            parameters=Fraction((model.positions + model.segments) * model.hidden),
        )
    if model.segments:
        part = sizes.tokens / sizes.spread
        yield norm("embedding norm", Fraction(model.hidden), part, sizes)


def head(sizes: Sizes) -> Iterator[Term]:
    """Final norm, output projection and loss; multi-token prediction computes the last two once more per layer."""
    model, tokens = sizes.model, sizes.tokens
    if not model.segments:  # BERT's layers end in a norm of their own
        yield norm("final norm", Fraction(model.hidden), tokens / sizes.spread, sizes)
    product = Product(tokens, Fraction(sizes.vocabulary), Fraction(model.hidden))
    output = with_exchanges(linear("output projection", product, sizes), *sizes.into_columns())
    yield replace(output, matrices=())
    yield loss(sizes)
    for _ in range(model.mtp):
        yield replace(output, name="output projection, next token but one", parameters=Fraction(0), matrices=())
        yield loss(sizes)


def loss(sizes: Sizes) -> Term:
    """Cross entropy. Fused: the gradient replaces the logits in place. Unfused: softmax in fp32 beside them.

    Source: Transformer Engine 2.11, pytorch/triton/cross_entropy.py (fused: logits are read twice and written once);
    Megatron-LM core, tensor_parallel/cross_entropy.py (unfused: .float(), the exponentials are kept).
    """
    words = sizes.vocabulary * sizes.tokens
    per_token = FP32 * sizes.tokens
    exchanges = (Exchange("all_reduce", "tensor", per_token),) * 3 if sizes.tensor > 1 else ()
    logits = sizes.element * words
    if sizes.fused_cross_entropy:
        forward, backward, kept = 3 * logits, 2 * logits, (Kept("logits", logits),)
    else:
        single = FP32 * words
        # cast, largest, exponentials, sum, division; then the gradient in place, and its cast
        forward, backward, kept = logits + 8 * single, 3 * single + logits, (Kept("softmax in fp32", single),)
    return Term(
        "cross entropy",
        "fused: 3 passes over the logits and 2 in the backward; unfused: in fp32",
        forward=Work(moved=forward, exchanges=exchanges),
        input_grad=Work(moved=backward),
        kept=kept,
    )
