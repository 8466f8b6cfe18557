"""Terms: the parts of a layer that its costs are the sum of, each with what it computes, moves, keeps and sends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Group = Literal["tensor", "context", "expert", "data"]
Pattern = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "ring"]
ZERO = Fraction(0)


@dataclass(frozen=True)
class Product:
    """``count`` products of an m x k by a k x n matrix: 2·m·n·k operations each."""

    m: Fraction
    n: Fraction
    k: Fraction
    count: int = 1

    @property
    def flops(self) -> Fraction:
        """Operations of all of them."""
        return 2 * self.m * self.n * self.k * self.count

    @property
    def elements(self) -> Fraction:
        """Elements of all their operands and results."""
        return (self.m * self.k + self.k * self.n + self.m * self.n) * self.count

    @property
    def for_input(self) -> Product:
        """The product that gives the gradient of its left operand."""
        return Product(self.m, self.k, self.n, self.count)

    @property
    def for_weight(self) -> Product:
        """The product that gives the gradient of its right operand, the weights."""
        return Product(self.k, self.n, self.m, self.count)


@dataclass(frozen=True)
class Exchange:
    """A collective among the devices of a group; ``size``: bytes of the whole tensor gathered, summed or exchanged."""

    pattern: Pattern
    group: Group
    size: Fraction


@dataclass(frozen=True)
class Work:
    """What one pass of a term does: products of matrices, bytes read and written beside them, collectives."""

    products: tuple[Product, ...] = ()
    moved: Fraction = ZERO
    exchanges: tuple[Exchange, ...] = ()
    share: Fraction = Fraction(1)
    """The share of the products that is computed: half of them where a kernel skips what a causal mask hides."""
    fused: bool = False
    """The products are one kernel, and ``moved`` is all that it reads and writes."""

    @property
    def flops(self) -> Fraction:
        """Operations that are computed."""
        return sum((product.flops for product in self.products), ZERO) * self.share

    @property
    def model_flops(self) -> Fraction:
        """Operations with nothing skipped: what papers count."""
        return sum((product.flops for product in self.products), ZERO)


NOTHING = Work()


@dataclass(frozen=True)
class Kept:
    """A tensor that the forward leaves to the backward; it goes where any module of ``module`` is recomputed."""

    name: str
    size: Fraction
    module: tuple[str, ...] = ()
    for_weights: bool = False
    """The weights' gradients need it."""


@dataclass(frozen=True)
class Term:
    """One operation of a layer on one device, for one microbatch."""

    name: str
    source: str
    forward: Work = NOTHING
    input_grad: Work = NOTHING
    weight_grad: Work = NOTHING
    kept: tuple[Kept, ...] = ()
    parameters: Fraction = ZERO
    """Parameters that each device has."""
    expert_parameters: Fraction = ZERO
    """Parameters of experts that each device has: sharded over fewer devices."""
    matrices: tuple[tuple[int, int], ...] = ()
    """Shapes of weight matrices on a device whose products add the gradient to the sum by themselves."""
    held: Fraction = ZERO
    """Bytes of its output's gradient, which the weights' gradients need."""
    module: tuple[str, ...] = ()
    """Modules that it is part of: where any of them is recomputed, its forward is run again."""

    @property
    def all_parameters(self) -> Fraction:
        """Parameters on a device."""
        return self.parameters + self.expert_parameters


def kept_bytes(terms: Iterable[Term], recomputed: frozenset[str] = frozenset()) -> Fraction:
    """Bytes that terms leave to the backward, where some modules are recomputed."""
    return sum((k.size for term in terms for k in term.kept if not recomputed.intersection(k.module)), ZERO)
