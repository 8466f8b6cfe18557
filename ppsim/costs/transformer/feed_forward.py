"""Feed-forward layers as terms: dense ones, and experts with their router and their exchange of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from ppsim.costs.transformer.attention import into_rows, linear, norm, residual, with_exchanges
from ppsim.costs.transformer.sizes import FP32, Sizes
from ppsim.costs.transformer.terms import Exchange, Kept, Product, Term, Work

MLP, MOE, MOE_ACT, SHARED = ("mlp",), ("moe",), ("moe", "moe_act"), ("moe", "shared_experts")
WHOLE_MOE = ("moe",)


def terms(sizes: Sizes, experts: bool) -> Iterator[Term]:
    """The feed-forward block of one layer."""
    part = sizes.tokens / sizes.spread
    yield norm("feed-forward norm", Fraction(sizes.model.hidden), part, sizes)
    if experts:
        yield from _experts(sizes)
    else:
        width = Fraction(sizes.model.width, sizes.tensor)
        yield from _dense("feed-forward", width, sizes, MLP)
    yield residual("feed-forward residual", sizes)


def _dense(name: str, width: Fraction, sizes: Sizes, module: tuple[str, ...]) -> Iterator[Term]:
    """Up (twice as wide where gated), activation, down."""
    model, tokens = sizes.model, sizes.tokens
    up = linear(
        f"{name} up", Product(tokens, width * _up(sizes), Fraction(model.hidden)), sizes, model.bias, module=module
    )
    yield with_exchanges(up, *sizes.into_columns())
    yield activation(f"{name} activation", width * tokens, sizes, module, module)
    down = linear(f"{name} down", Product(tokens, Fraction(model.hidden), width), sizes, model.bias, module=module)
    yield into_rows(down, sizes)


def _up(sizes: Sizes) -> int:
    return 2 if sizes.model.gated else 1


def activation(name: str, elements: Fraction, sizes: Sizes, module: tuple[str, ...], result: tuple[str, ...]) -> Term:
    """GELU, or SwiGLU of twice as many elements; its input and its output are kept.

    Source: Korthikanti et al. 2022, section 4.1 (the input for its own backward, the output for the product's).
    """
    size = sizes.element * elements
    given = size * _up(sizes)
    return Term(
        name,
        "reads the product, writes the activation; backward reads both gradients' inputs, writes one",
        forward=Work(moved=given + size),
        input_grad=Work(moved=2 * given + size),
        kept=(Kept("product", given, module), Kept("activation", size, result, for_weights=True)),
        module=result,
    )


def _experts(sizes: Sizes) -> Iterator[Term]:
    """Router, dispatch, the experts' two products, combination, and the experts that all tokens go through.

    The probabilities scale the activation inside the experts, so that the experts' output is not kept.
    Source: Megatron-LM core, transformer/moe (token_dispatcher.py, experts.py, router.py).
    """
    model, part = sizes.model, sizes.tokens / sizes.spread
    count, hidden = Fraction(model.experts or 0), Fraction(model.hidden)
    router = linear("router", Product(part, count, hidden), sizes, module=WHOLE_MOE)
    yield replace(
        router,
        kept=(Kept("router scores", FP32 * count * part, WHOLE_MOE), Kept("routing map", count * part, WHOLE_MOE)),
        parameters=router.parameters + (count if model.router_bias else 0),
        matrices=(),  # a plain product, not one that accumulates by itself
    )
    routed = sizes.routed
    sent = sizes.element * hidden * routed
    yield _permutation("dispatch", sent, sizes)
    width = Fraction(model.expert_width, sizes.expert_tensor)
    each, held = routed / sizes.experts, sizes.experts
    up = _grouped("experts up", Product(each, width * _up(sizes), hidden, held), sizes)
    yield replace(up, kept=(Kept("experts' input", sent, WHOLE_MOE, for_weights=True),))
    yield activation("experts activation", width * routed, sizes, WHOLE_MOE, MOE_ACT)
    yield _grouped("experts down", Product(each, hidden, width, held), sizes)
    yield _permutation("combine", sent, sizes)
    if model.shared_width:
        yield from _dense("shared experts", Fraction(model.shared_width, sizes.tensor), sizes, SHARED)
        if model.shared_gate:
            yield linear("shared experts gate", Product(part, Fraction(1), hidden), sizes, module=SHARED)


def _grouped(name: str, product: Product, sizes: Sizes) -> Term:
    """A product for each expert."""
    term = linear(name, product, sizes, sizes.model.bias, module=WHOLE_MOE)
    mine = term.parameters * product.count
    return replace(term, parameters=Fraction(0), expert_parameters=mine)


def _permutation(name: str, sent: Fraction, sizes: Sizes) -> Term:
    """Tokens in the order of experts, and their exchange with the other devices that hold experts.

    Two permutations (by device, by expert), each of which reads and writes all tokens; the backward does the same.
    """
    exchanges = []
    local = sent / sizes.expert_tensor
    if sizes.expert > 1:
        exchanges.append(Exchange("all_to_all", "expert", local))
    if sizes.expert_tensor > 1:
        pattern = "all_gather" if name == "dispatch" else "reduce_scatter"
        exchanges.append(Exchange(pattern, "tensor", sent))  # type: ignore[arg-type]
    back = [Exchange("all_gather", "tensor", sent) if e.pattern == "reduce_scatter" else e for e in exchanges]
    back = [
        Exchange("reduce_scatter", "tensor", sent) if e.pattern == "all_gather" and name == "dispatch" else e
        for e in back
    ]
    moved = 4 * sent
    return Term(
        f"expert {name}",
        "two permutations, each reads and writes every token; an all-to-all of them all",
        forward=Work(moved=moved, exchanges=tuple(exchanges)),
        input_grad=Work(moved=moved, exchanges=tuple(back)),
        module=WHOLE_MOE,
    )
