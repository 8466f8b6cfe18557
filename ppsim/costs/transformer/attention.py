"""Attention as terms: norm, projections, the core, the output projection.

Kept tensors follow what frameworks' autograd keeps. Source: Korthikanti et al. 2022, section 4.1 (34 sbh + 5 as²b);
FlashAttention, arXiv 2205.14135 (of the scores only the log-sum-exp is kept); Transformer Engine 2.11 (inputs and
outputs of norms; with context parallelism by all-to-all the core's output on both sides of the exchange).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from ppsim.costs.transformer.core import context, core
from ppsim.costs.transformer.model import LatentAttention
from ppsim.costs.transformer.sizes import FP32, Sizes
from ppsim.costs.transformer.terms import Exchange, Kept, Product, Term, Work

LAYERNORM = ("layernorm",)
LATENT = ("mla_up_proj",)


def norm(name: str, width: Fraction, tokens: Fraction, sizes: Sizes, module: tuple[str, ...] = ()) -> Term:
    """A norm over ``width`` channels: it reads and writes its input, its backward reads two tensors and writes one."""
    size = sizes.element * width * tokens
    statistics = FP32 * tokens * (1 if sizes.model.norm == "rms" else 2)
    return Term(
        name,
        "reads x, writes y; backward reads x and dy, writes dx; keeps both and 1 (RMS) or 2 numbers per token",
        forward=Work(moved=2 * size),
        input_grad=Work(moved=3 * size),
        kept=(
            Kept("norm input", size, module),
            Kept("norm output", size, (*module, *LAYERNORM), for_weights=True),
            Kept("norm statistics", statistics, module),
        ),
        parameters=width * (1 if sizes.model.norm == "rms" else 2),
        module=(*module, *LAYERNORM),
    )


def linear(name: str, product: Product, sizes: Sizes, bias: bool = False, **rest: object) -> Term:
    """A product with a weight matrix: its backward is two products of as many operations.

    With fused accumulation the weights' gradient is added to the sum in fp32 by the product itself, else it is written
    and added by another pass.
    """
    weights = product.n * product.k
    pass_over = Work(moved=Fraction(0) if sizes.fused_accumulation else weights * (2 * sizes.element + 2 * FP32))
    return Term(
        name,
        "2·m·n·k operations; twice as many in the backward",
        forward=Work((product,)),
        input_grad=Work((product.for_input,)),
        weight_grad=Work((product.for_weight,), pass_over.moved),
        parameters=weights + (product.n if bias else 0),
        matrices=((int(product.n), int(product.k)),),
        held=sizes.element * product.m * product.n * product.count,
        **rest,  # type: ignore[arg-type]
    )


def into_rows(term: Term, sizes: Sizes) -> Term:
    """A row-parallel product with its collectives; sequence parallelism spreads its output's gradient."""
    return with_exchanges(replace(term, held=term.held / sizes.spread), *sizes.out_of_rows())


def with_exchanges(term: Term, forward: Work, backward: Work) -> Term:
    """The term with collectives beside its own work."""
    return replace(
        term,
        forward=replace(term.forward, exchanges=(*term.forward.exchanges, *forward.exchanges)),
        input_grad=replace(term.input_grad, exchanges=(*term.input_grad.exchanges, *backward.exchanges)),
    )


def terms(sizes: Sizes) -> Iterator[Term]:
    """The attention block of one layer."""
    model = sizes.model
    yield norm("attention norm", Fraction(model.hidden), sizes.tokens / sizes.spread, sizes)
    if model.latent is not None:
        yield from _latent_projections(sizes, model.latent)
        query, value = model.latent.nope_size + model.latent.rope_size, model.latent.value_size
    else:
        yield from _projections(sizes)
        query = value = model.head
    yield core(sizes, query, value)
    if sizes.context > 1:
        yield context(sizes, query, value)
    product = Product(sizes.tokens, Fraction(model.hidden), sizes.heads * value)
    yield into_rows(linear("attention output", product, sizes, model.bias), sizes)
    yield residual("attention residual", sizes)


def residual(name: str, sizes: Sizes, module: tuple[str, ...] = ()) -> Term:
    """Dropout, if any, and the sum with the residual; of it only dropout's mask is kept, a byte per element."""
    size = sizes.hidden_part
    mask = size / sizes.element if sizes.dropout else Fraction(0)
    return Term(
        name,
        "reads two tensors, writes one; dropout keeps a mask of one byte per element (Korthikanti 2022, 4.1)",
        forward=Work(moved=3 * size + mask),
        input_grad=Work(moved=(2 * size + mask) if sizes.dropout else Fraction(0)),
        kept=(Kept("dropout mask", mask, module),) if mask else (),
    )


def _projections(sizes: Sizes) -> Iterator[Term]:
    model, tokens = sizes.model, sizes.tokens
    heads = sizes.heads + 2 * sizes.groups
    product = Product(tokens, heads * model.head, Fraction(model.hidden))
    whole = linear(
        "query, key, value",
        product,
        sizes,
        model.has_qkv_bias,
        kept=(
            Kept("query", sizes.element * sizes.heads * model.head * tokens),
            Kept("key", sizes.element * sizes.groups * model.head * tokens),
            Kept("value", sizes.element * sizes.groups * model.head * tokens),
        ),
    )
    yield with_exchanges(whole, *sizes.into_columns())
    turned = sizes.element * (sizes.heads + sizes.groups) * model.head * tokens
    if model.qk_norm:
        yield Term(
            "query and key norm",
            "a norm over each head's channels; its outputs are the query and key that are kept",
            forward=Work(moved=2 * turned),
            input_grad=Work(moved=3 * turned),
            kept=(
                Kept("norm input", turned),
                Kept("norm statistics", FP32 * (sizes.heads + sizes.groups) * tokens),
            ),
            parameters=Fraction(2 * model.head),
        )
    if not model.positions and model.causal:
        yield Term(
            "rotary positions",
            "reads and writes query and key, in both directions; keeps nothing of its own",
            forward=Work(moved=2 * turned),
            input_grad=Work(moved=2 * turned),
        )


def _latent_projections(sizes: Sizes, latent: LatentAttention) -> Iterator[Term]:
    """Queries, keys and values of multi-head latent attention; the narrow projections are whole on every device.

    Source: DeepSeek-V2, arXiv 2405.04434, section 2.1; Megatron-LM core, transformer/multi_latent_attention.py.
    """
    model, tokens = sizes.model, sizes.tokens
    hidden, part = Fraction(model.hidden), tokens / sizes.spread
    each = latent.nope_size + latent.rope_size
    source = Fraction(latent.query_rank or model.hidden)
    if latent.query_rank:
        yield linear("query down", Product(part, source, hidden), sizes)
        yield norm("query norm", source, part, sizes)
    query = Kept("query", sizes.element * sizes.heads * each * tokens, LATENT)
    product = Product(tokens, sizes.heads * each, source)
    yield with_exchanges(linear("query up", product, sizes, kept=(query,), module=LATENT), *_gathered(sizes, source))
    rank = Fraction(latent.key_rank)
    yield linear("key and value down", Product(part, rank + latent.rope_size, hidden), sizes)
    yield norm("key and value norm", rank, part, sizes)
    kept = (
        Kept("key", sizes.element * sizes.heads * each * tokens, LATENT),
        Kept("value", sizes.element * sizes.heads * latent.value_size * tokens, LATENT),
    )
    product = Product(tokens, sizes.heads * (latent.nope_size + latent.value_size), rank)
    up = linear("key and value up", product, sizes, kept=kept, module=LATENT)
    yield with_exchanges(up, *_gathered(sizes, rank + latent.rope_size))
    turned = sizes.element * sizes.heads * each * tokens
    yield Term(
        "rotary positions",
        "writes query and key with their positions, in both directions",
        forward=Work(moved=4 * turned),
        input_grad=Work(moved=4 * turned),
        module=LATENT,
    )


def _gathered(sizes: Sizes, width: Fraction) -> tuple[Work, Work]:
    """The narrow tensor is gathered before a projection up, whose backward scatters and gathers it again."""
    if sizes.tensor == 1:
        return Work(), Work()
    size = sizes.element * width * sizes.tokens
    if not sizes.sequence_parallel:
        return Work(), Work(exchanges=(Exchange("all_reduce", "tensor", size),))
    gather, scatter = Exchange("all_gather", "tensor", size), Exchange("reduce_scatter", "tensor", size)
    return Work(exchanges=(gather,)), Work(exchanges=(scatter, gather))
