"""The terms of a model as a table: what each computes, moves, keeps and sends on one device, for one microbatch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ppsim.costs.layers import Layer
from ppsim.costs.setting import Setting
from ppsim.costs.transformer import count
from ppsim.costs.transformer.costs import TransformerCosts
from ppsim.costs.transformer.device import device
from ppsim.costs.transformer.terms import Term, Work
from ppsim.units import show

HEADER = ("term", "parameters", "FLOPs", "moves", "F", "I", "W", "kept", "sends in F", "in I, W")
Row = tuple[str, ...]


@dataclass(frozen=True)
class LayerTable:
    """The terms of one kind of layer, a row each and a last one for the whole layer; how many such layers there are."""

    name: str
    layers: int
    rows: tuple[Row, ...]
    kept: str
    """The tensors that it leaves to its backward."""
    held: str
    """What is held of its weights throughout, and what bursts in its ops."""
    sources: tuple[tuple[str, str], ...]
    """(term, what its figures follow from)."""


def tables(costs: TransformerCosts, setting: Setting) -> Iterator[LayerTable]:
    """A table for each kind of layer, in the order of the model."""
    here = device(costs, setting)
    rows = costs.layer_costs(setting).layers
    kinds = [layer.name for layer in rows]
    for name, terms in dict(count.layers(here.sizes)).items():
        layer = rows[kinds.index(name)]
        seconds = [[here.machine.seconds(work) for work in _passes(term)] for term in terms]
        yield LayerTable(
            name=name,
            layers=kinds.count(name),
            rows=(
                *(_row(term, times, here.sizes.element) for term, times in zip(terms, seconds, strict=True)),
                *_fixed(name, costs.efficiency.per_layer / 3),
                _total(layer),
            ),
            kept=", ".join(f"{term.name}: {_tensors(term)}" for term in terms if term.kept),
            held=_held(layer),
            sources=tuple(dict.fromkeys((term.name, term.source) for term in terms)),
        )


def _passes(term: Term) -> tuple[Work, Work, Work]:
    return term.forward, term.input_grad, term.weight_grad


def _row(term: Term, seconds: Sequence[Fraction], element: int) -> Row:
    kept = sum((tensor.size for tensor in term.kept), Fraction(0))
    back = (*term.input_grad.exchanges, *term.weight_grad.exchanges)
    return (
        term.name,
        _number(term.all_parameters),
        _number(term.forward.flops),
        _size(_moved(term.forward, element)),
        *(_time(value) for value in seconds),
        _size(kept),
        *(_size(sum((exchange.size for exchange in of), Fraction(0))) for of in (term.forward.exchanges, back)),
    )


def _moved(work: Work, element: int) -> Fraction:
    """Bytes that a pass reads and writes."""
    operands = Fraction(0) if work.fused else sum((product.elements for product in work.products), Fraction(0))
    return work.moved + element * operands


def _fixed(name: str, third: Fraction) -> Iterator[Row]:
    """What a layer takes beside its terms."""
    if third and name not in ("embedding", "head"):
        yield ("launches and gaps", "", "", "", *(_time(third),) * 3, "", "", "")


def _total(layer: Layer) -> Row:
    times = (_time(value) for value in (layer.forward, layer.input_grad, layer.weight_grad))
    return ("all", _number(Fraction(layer.parameters)), "", "", *times, _size(layer.activation), "", "")


def _tensors(term: Term) -> str:
    return " + ".join(f"{tensor.name} {_size(tensor.size)}" for tensor in term.kept)


def _held(layer: Layer) -> str:
    parts = {
        "weights": layer.weights,
        "gradients": layer.gradients,
        "optimizer state": layer.optimizer_state,
        "buffers": sum((size for _, size in layer.buffers), Fraction(0)),
        "bursts in F": layer.transient_forward,
        "in B": layer.transient_backward,
        "message": layer.message,
    }
    return ", ".join(f"{name} {_size(size)}" for name, size in parts.items() if size)


def _number(value: Fraction) -> str:
    """With four digits and a letter for thousands, millions, …"""
    for factor, letter in ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= factor:
            return f"{float(value / factor):.4g} {letter}"
    return f"{float(value):.4g}" if value else ""


def _time(value: Fraction) -> str:
    return f"{float(value * 1000):.4g} ms" if value else ""


def _size(value: Fraction) -> str:
    """In MiB, which a profiler shows; small ones as they are."""
    return f"{float(value / 2**20):.1f} MiB" if value >= 2**20 else show(value, "size") if value else ""
