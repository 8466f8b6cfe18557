"""What tests of terms share: terms by name, kept tensors by term and name, a small way to make a device."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from ppsim.costs import Setting, TransformerCosts
from ppsim.costs.layers import Layer
from ppsim.costs.transformer.count import layers
from ppsim.costs.transformer.device import device
from ppsim.costs.transformer.sizes import Sizes
from ppsim.costs.transformer.terms import Term
from ppsim.hardware.cluster import Cluster
from ppsim.ops.placement import loop


def of(kind: str, sizes: Sizes) -> dict[str, Term]:
    """The terms of the first layer of a kind, by name."""
    return {term.name: term for term in next(terms for name, terms in layers(sizes) if name == kind)}


def kept(terms: Iterable[Term]) -> dict[tuple[str, str], Fraction]:
    """Bytes of kept tensors, by term and tensor."""
    return {(term.name, tensor.name): tensor.size for term in terms for tensor in term.kept}


def costs(**settings: Any) -> TransformerCosts:
    return TransformerCosts.model_validate({"kind": "transformer", **settings})


def setting(ranks: int = 1, **changes: Any) -> Setting:
    """B200s with a link of 900 GB/s, unless changed."""
    cluster = Cluster.model_validate(changes.pop("cluster", {"device": "b200-180gb", "intra_node": "nvlink5"}))
    return Setting(loop(ranks), cluster, **changes)


def sizes(costs: TransformerCosts, **changes: Any) -> Sizes:
    return device(costs, setting(**changes)).sizes


def layer(costs: TransformerCosts, kind: str, recompute: Any = "none", **changes: Any) -> Layer:
    """The first layer of a kind."""
    rows = costs.layer_costs(setting(**changes), recompute).layers
    return next(row for row in rows if row.name == kind)
