"""Routes: the distinct ways of messages, what each takes, and the ports that they use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ppsim.hardware.cluster import Link, Topology
from ppsim.ops import NONE, Column, Constant, Ints, Longs, Numbers, narrowest
from ppsim.plan.table import Routes
from ppsim.units import to_ns


@dataclass(frozen=True, eq=False)
class Ways:
    """The distinct (source, destination) of messages, ascending, and which of them each message goes."""

    ends: list[tuple[int, int]]
    of_message: Ints

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


def routed(ways: Ways, size: Column, topology: Topology) -> tuple[Routes, tuple[str, ...], Ints]:
    """The distinct (source, destination, bytes), the ports in use, and the route of each message.

    A message from a rank to itself goes to its copy in another pipeline.
    """
    if not ways.ends:
        return *_routes([], topology), ways.of_message
    sizes, size_of = _distinct(size)
    if len(sizes) == 1:
        only = int(sizes[0])
        return *_routes([(src, dst, only) for src, dst in ways.ends], topology), ways.of_message
    code = ways.of_message.astype(narrowest(len(ways.ends) * len(sizes)))
    codes, code_of = _distinct(code * len(sizes) + size_of)
    ends = [(*ways.ends[c // len(sizes)], int(sizes[c % len(sizes)])) for c in codes.tolist()]
    return *_routes(ends, topology), np.asarray(code_of, np.int32)


def _routes(ends: list[tuple[int, int, int]], topology: Topology) -> tuple[Routes, tuple[str, ...]]:
    """A row for each (source, destination, bytes), and the names of the ports, by number."""
    ports: dict[str, int] = {}
    times: dict[tuple[int, int], tuple[Link, int, int]] = {}
    rows = []
    for src, dst, size in ends:
        route = topology.replica_route(src) if src == dst else topology.route(src, dst)
        link = route.link
        if (id(link), size) not in times:  # most routes share one link; it is kept so that its id stays its own
            seconds = link.overhead + (size / link.bandwidth if link.bandwidth is not None else 0)
            times[id(link), size] = link, to_ns(seconds), to_ns(link.latency)
        used = (NONE if name is None else ports.setdefault(name, len(ports)) for name in (route.egress, route.ingress))
        rows.append((src, dst, size, *times[id(link), size][1:], *used))
    table = np.array(rows, np.int64).reshape(-1, 7)
    small, large = np.ascontiguousarray(table.T, np.int32), np.ascontiguousarray(table.T)
    return Routes(small[0], small[1], large[2], large[3], large[4], small[5], small[6]), tuple(ports)


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
