"""Parameters of a model, and the layers that it is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from ppsim.costs.transformer import attention, ends, feed_forward
from ppsim.costs.transformer.attention import linear, norm
from ppsim.costs.transformer.model import TransformerModel
from ppsim.costs.transformer.sizes import Sizes
from ppsim.costs.transformer.terms import Product, Term


def decoder(sizes: Sizes, experts: bool) -> list[Term]:
    """The terms of one decoder layer."""
    return [*attention.terms(sizes), *feed_forward.terms(sizes, experts)]


def prediction(sizes: Sizes) -> list[Term]:
    """The terms of one multi-token prediction layer: two norms, a projection of both to one, a decoder layer, a norm.

    Source: DeepSeek-V3, arXiv 2412.19437, section 2.2.
    """
    hidden, part = Fraction(sizes.model.hidden), sizes.tokens / sizes.spread
    product = Product(sizes.tokens, hidden / sizes.tensor, 2 * hidden)
    return [
        norm("norm of the hidden state", hidden, part, sizes),
        norm("norm of the next token", hidden, part, sizes),
        attention.with_exchanges(linear("projection of both", product, sizes), *sizes.into_columns()),
        *decoder(sizes, sizes.model.experts is not None),
        norm("norm of the prediction", hidden, part, sizes),
    ]


def layers(sizes: Sizes) -> Iterator[tuple[str, list[Term]]]:
    """(kind, terms) of all layers in their order: embedding, dense or expert layers, mtp, head."""
    model = sizes.model
    yield "embedding", list(ends.embedding(sizes))
    known: dict[bool, list[Term]] = {}
    for index in range(model.layers):
        experts = model.has_experts(index)
        if experts not in known:
            known[experts] = decoder(sizes, experts)
        yield "expert layer" if experts else "layer", known[experts]
    if model.mtp:
        predicts = prediction(sizes)
        yield from (("mtp", predicts) for _ in range(model.mtp))
    yield "head", list(ends.head(sizes))


def parameters(model: TransformerModel) -> int:
    """Parameters of the whole model, tied ones once, without padding, without multi-token prediction layers.

    Those are counted by ``with_mtp``. Source: Megatron-LM, SC 2021, equation 2 (of GPT); the layers' matrices else.
    """
    return _total(replace(Sizes(model), model=model.model_copy(update={"mtp": 0})))


def with_mtp(model: TransformerModel) -> int:
    """Parameters with multi-token prediction layers, whose embedding and head are the model's own."""
    return _total(Sizes(model))


def active_parameters(model: TransformerModel, ends_counted: int = 2) -> int:
    """Parameters that one token meets: of the experts those that it is sent to, and the shared ones.

    ``ends_counted``: 2 counts embedding and head, 1 the head alone (a look-up multiplies nothing), 0 neither.
    """
    sent = {} if model.experts is None else {"experts": model.top_k, "router_bias": False}
    routed = 0 if model.experts is None else sum(model.has_experts(i) for i in range(model.layers))
    unused = routed * ((model.experts or 0) - (model.top_k or 0)) * model.hidden  # a token meets the whole router
    bias = routed * (model.experts or 0) if model.router_bias else 0
    whole = _total(Sizes(model.model_copy(update={**sent, "mtp": 0}))) + unused + bias
    if ends_counted == 2 or (ends_counted == 1 and model.tied):
        return whole
    return whole - model.vocabulary * model.hidden * (1 if ends_counted == 1 or model.tied else 2)


def _total(sizes: Sizes) -> int:
    counted = sum((term.all_parameters for _, terms in layers(sizes) for term in terms), Fraction(0))
    if sizes.model.tied:
        counted -= sizes.model.vocabulary * sizes.model.hidden
    return int(counted)
