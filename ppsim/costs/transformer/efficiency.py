"""Efficiency: what share of a device's and a link's rate a term reaches, and so how long it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag

from ppsim._model import Model, Whole, one_or_list
from ppsim.costs.transformer.terms import Exchange, Group, Product, Work
from ppsim.hardware.link import Link
from ppsim.units import Bandwidth, Factor, Flops, Time

MATMUL, MEMORY, LINK = Fraction(1, 2), Fraction(3, 4), Fraction(3, 4)
"""Guesses for what nobody has measured: of products, of memory's bandwidth, of a link's."""


class Point(Model):
    """The efficiency of products of one size."""

    flops: Flops
    """Operations of the product, 2·m·n·k."""
    efficiency: Factor
    """Share of the device's peak rate."""


class Measured(Model):
    """A product of an m x k by a k x n matrix, as measured."""

    m: Whole = Field(ge=1)
    n: Whole = Field(ge=1)
    k: Whole = Field(ge=1)
    efficiency: Factor
    """Share of the device's peak rate."""


Curve = Annotated[
    Annotated[Factor, Tag("<one>")] | Annotated[list[Point], Field(min_length=1), Tag("<list>")],
    Discriminator(one_or_list),
]


class Efficiency(Model):
    """Shares of peak rates that are reached; what isn't given is a guess, and said to be one."""

    matmul: Curve = MATMUL
    """Of the peak rate by products: a number, or points {flops, efficiency} with times interpolated between them."""
    attention: Factor | None = None
    """Of the peak rate by a flash attention kernel (default: as `matmul`)."""
    memory: Factor = MEMORY
    """Of the memory's bandwidth, by what reads and writes."""
    collective: Bandwidth | None = None
    """Bandwidth of collectives inside ops, one way and per device (default: `link` of the link's)."""
    link: Factor = LINK
    """Of the link's bandwidth by collectives inside ops, where `collective` isn't given."""
    per_layer: Time = Fraction(0)
    """Time per layer and microbatch beside all that: launches and gaps, a third each in F, I and W."""
    shapes: list[Measured] = Field([])
    """Products that were measured; others follow `matmul`."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """(key, what is wrong)."""
        for key in ("matmul", "attention", "memory", "link"):
            value = getattr(self, key)
            if isinstance(value, Fraction) and value > 1:
                yield key, f"{float(value):g} is more than the peak rate; a share such as 0.5 is due"
        if isinstance(self.matmul, list):
            sizes = [point.flops for point in self.matmul]
            if sizes != sorted(set(sizes)):
                yield "matmul", "the points must come in the order of flops, each once"
        seen = [(shape.m, shape.n, shape.k) for shape in self.shapes]
        if len(set(seen)) < len(seen):
            yield "shapes", "a shape is given twice"

    @property
    def guesses(self) -> list[str]:
        """Keys that nobody gave and that a step's time depends on."""
        return [key for key in ("matmul", "memory") if key not in self.model_fields_set]


def _one_number(value: Any) -> Any:
    return value if isinstance(value, dict | Efficiency) else {"matmul": value}


EfficiencyField = Annotated[Efficiency, BeforeValidator(_one_number)]
"""A number, which is the products', or a mapping."""


@dataclass(frozen=True)
class Machine:
    """What terms run on: the device's rates, the links of each group and how many devices are in it."""

    efficiency: Efficiency
    peak: Fraction
    bandwidth: Fraction | None
    links: Mapping[Group, Link]
    members: Mapping[Group, int]
    tree: bool = False
    """Collectives along a tree: fewer hops; else around a ring."""
    element: int = 2
    """Bytes of an element."""

    def seconds(self, work: Work) -> Fraction:
        """The time of one pass: its products, what it reads and writes beside them, its collectives.

        A product takes the longer of computing it and of moving its operands and result.
        Source: the roofline model, Williams et al. 2009.
        """
        if work.fused:
            computed = sum((self._computed(p, self.efficiency.attention) for p in work.products), Fraction(0))
            local = max(computed * work.share, self.moving(work.moved))
        else:
            products = (
                max(self._computed(p) * work.share, self.moving(p.elements * self.element)) for p in work.products
            )
            local = sum(products, Fraction(0)) + self.moving(work.moved)
        return local + sum((self.collective(exchange) for exchange in work.exchanges), Fraction(0))

    def moving(self, size: Fraction) -> Fraction:
        """The time in which so many bytes are read or written; none where the memory's bandwidth isn't known."""
        return Fraction(0) if self.bandwidth is None else size / (self.bandwidth * self.efficiency.memory)

    def _computed(self, product: Product, share: Fraction | None = None) -> Fraction:
        for shape in self.efficiency.shapes:
            if product == Product(Fraction(shape.m), Fraction(shape.n), Fraction(shape.k), product.count):
                return product.flops / (self.peak * shape.efficiency)
        if share is None and isinstance(self.efficiency.matmul, Fraction):
            share = self.efficiency.matmul
        if share is not None:
            return product.flops / (self.peak * share)
        return self._interpolated(product.flops / product.count) * product.count / self.peak

    def _interpolated(self, flops: Fraction) -> Fraction:
        """FLOPs over efficiency: straight lines between points, so that it is exact; beyond them as at the nearest."""
        points = [(point.flops, point.flops / point.efficiency) for point in self.efficiency.matmul]  # type: ignore[union-attr]
        if flops <= points[0][0]:
            return flops * points[0][1] / points[0][0]
        for (low, at_low), (high, at_high) in pairwise(points):
            if flops <= high:
                return at_low + (at_high - at_low) * (flops - low) / (high - low)
        return flops * points[-1][1] / points[-1][0]

    def collective(self, exchange: Exchange) -> Fraction:
        """The time of a collective of n devices over links with latency a and bandwidth b.

        All-gather, reduce-scatter and all-to-all: (n-1)a + S(n-1)/(nb) around a ring, log2(n) hops along a tree; an
        all-reduce is two of them.
        Source: Thakur et al. 2005, optimization of collective communication in MPICH; nccl-tests, PERFORMANCE.md.
        """
        n = self.members[exchange.group]
        if n == 1:
            return Fraction(0)
        link = self.links[exchange.group]
        hops = (n - 1).bit_length() if self.tree and exchange.pattern not in ("all_to_all", "ring") else n - 1
        rate = self.efficiency.collective
        if rate is None and link.bandwidth is not None:
            rate = link.bandwidth * self.efficiency.link
        carried = exchange.size * (n - 1) / (n * rate) if rate is not None else Fraction(0)
        return ((link.latency + link.overhead) * hops + carried) * (2 if exchange.pattern == "all_reduce" else 1)
