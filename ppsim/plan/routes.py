"""Routes: the distinct ways of messages, what each takes, and the ports that they use."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ppsim._latest import Latest
from ppsim.hardware.cluster import Topology
from ppsim.hardware.link import Link
from ppsim.ops import NONE, Column, Constant, Ints, Longs, Numbers, narrowest
from ppsim.plan.table import Routes
from ppsim.units import to_ns

KEPT = 16
"""Seatings whose ports are kept: cases of a sweep differ in how fast links are, not in where ranks sit."""
KEPT_ROUTES = 512
"""Links and sizes whose routes are kept, of the ways of one structure: a sweep comes back to them with other times."""


class Ports(NamedTuple):
    """The ports of ways, by number, the ports' names, and which of ``Topology.links`` each way is (none: its own)."""

    egress: Ints
    ingress: Ints
    names: tuple[str, ...]
    link: list[int]


@dataclass(frozen=True, eq=False)
class Ways:
    """The distinct (source, destination) of messages, ascending, and which of them each message goes."""

    ends: list[tuple[int, int]]
    of_message: Ints
    _ports: Latest[Ports] = field(default_factory=lambda: Latest(KEPT), init=False, repr=False)
    _routes: Latest[tuple[Routes, tuple[Link, ...]]] = field(
        default_factory=lambda: Latest(KEPT_ROUTES), init=False, repr=False
    )

    @classmethod
    def of(cls, src: Ints, dst: Ints, ranks: int) -> Ways:
        """Those of messages between so many ranks."""
        if not len(src):
            return cls([], np.empty(0, np.int32))
        code = src.astype(narrowest(ranks * ranks))
        code *= ranks
        code += dst
        codes, of_message = _distinct(code)
        return cls([divmod(c, ranks) for c in codes.tolist()], np.asarray(of_message, np.int32))

    @cached_property
    def columns(self) -> tuple[Ints, Ints]:
        """Sources and destinations."""
        ends = np.array(self.ends, np.int32).reshape(-1, 2)
        return np.ascontiguousarray(ends[:, 0]), np.ascontiguousarray(ends[:, 1])

    def ports(self, topology: Topology) -> Ports:
        """What messages go through, found once for all topologies that agree in that."""
        if topology.seating is None:
            return self._through(topology)
        return self._ports.of(topology.seating, lambda: self._through(topology))

    def _through(self, topology: Topology) -> Ports:
        link = [] if topology.seating is None else [topology.which(src, dst) for src, dst in self.ends]
        if topology.seating is not None and not any(one.has_ports for one in topology.links):
            none = np.full(len(self.ends), NONE, np.int32)
            return Ports(none, none, (), link)
        routes = [topology.replica_route(src) if src == dst else topology.route(src, dst) for src, dst in self.ends]
        number: dict[str | None, int] = {None: NONE}
        egress, ingress = [], []
        for route in routes:
            egress.append(number.setdefault(route.egress, len(number) - 1))
            ingress.append(number.setdefault(route.ingress, len(number) - 1))
        names = tuple(name for name in number if name is not None)
        return Ports(np.array(egress, np.int32), np.array(ingress, np.int32), names, link)

    def links(self, topology: Topology) -> list[Link]:
        """The link of each way."""
        if topology.seating is None:
            return [topology.replica_link if src == dst else topology.link(src, dst) for src, dst in self.ends]
        return [topology.links[which] for which in self.ports(topology).link]

    def routes(self, topology: Topology, size: int) -> Routes:
        """The routes of messages that are all of one size, made once for the same links where no pair has its own."""
        if topology.seating is None:
            return self._of_size(topology, size)
        key = topology.seating, *map(id, topology.links), size
        return self._routes.of(key, lambda: (self._of_size(topology, size), topology.links))[0]

    def _of_size(self, topology: Topology, size: int) -> Routes:
        ports, links = self.ports(topology), self.links(topology)
        taken = _times(links, [size] * len(links))
        return Routes(*self.columns, np.full(len(links), size), *taken, ports.egress, ports.ingress)


def routed(ways: Ways, size: Column, topology: Topology) -> tuple[Routes, tuple[str, ...], Ints]:
    """The distinct (source, destination, bytes), the ports in use, and the route of each message.

    A message from a rank to itself goes to its copy in another pipeline.
    """
    ports = ways.ports(topology)
    sizes, size_of = _distinct(size) if ways.ends else (np.zeros(1, np.int64), Constant(np.int32(0), 0))
    if len(sizes) == 1:
        return ways.routes(topology, int(sizes[0])), ports.names, ways.of_message
    links = ways.links(topology)
    code = ways.of_message.astype(narrowest(len(ways.ends) * len(sizes)))
    codes, code_of = _distinct(code * len(sizes) + size_of)
    way, size = codes // len(sizes), sizes[codes % len(sizes)]
    src, dst = ways.columns
    taken = _times([links[w] for w in way.tolist()], size.tolist())
    routes = Routes(src[way], dst[way], size, *taken, ports.egress[way], ports.ingress[way])
    return routes, ports.names, np.asarray(code_of, np.int32)


def _times(links: list[Link], sizes: list[int]) -> tuple[Longs, Longs]:
    """Ns that a message of each size is on the ports of its link, and those of its flight."""
    made: dict[tuple[int, int], tuple[int, int]] = {}  # most share one link; the list keeps it, so its id stays its own
    rows = []
    for link, size in zip(links, sizes, strict=True):
        key = id(link), size
        if key not in made:
            made[key] = to_ns(link.alone(size)), to_ns(link.latency)
        rows.append(made[key])
    table = np.array(rows, np.int64).reshape(-1, 2).T
    return np.ascontiguousarray(table[0]), np.ascontiguousarray(table[1])


def _distinct(values: Column) -> tuple[Longs, Numbers | Constant]:
    """As np.unique with its inverse, without a sort where the values are few and small."""
    if isinstance(values, Constant):
        return np.asarray([values.value], np.int64), Constant(np.int32(0), len(values))
    low, high = int(values.min()), int(values.max())
    if low >= 0 and high < max(4 * len(values), 1 << 20):
        present = np.zeros(high + 1, bool)
        present[values] = True
        distinct = np.flatnonzero(present)
        place = np.zeros(high + 1, np.int32)
        place[distinct] = np.arange(len(distinct))
        return distinct, place[values]
    distinct, inverse = np.unique(values, return_inverse=True)
    return distinct.astype(np.int64), inverse
