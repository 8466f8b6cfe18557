"""Lines: what messages go over and share, with exact capacities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from ppsim.hardware.cluster import Topology
from ppsim.ops import NONE
from ppsim.plan.table import Lines, Routes
from ppsim.units import to_ns


def shared(routes: Routes, topology: Topology) -> tuple[Routes, Lines | None]:
    """The lines of all routes; and the routes, which hold their ports for as long as their slowest line takes alone.

    A port carries as much as the fastest of its links. A link of an overhead alone has that as its work, at 1 B/s.
    None under ``sharing: queueing``.
    """
    if topology.cluster.sharing == "queueing":
        return routes, None
    ends = list(zip(routes.src.tolist(), routes.dst.tolist(), routes.bytes.tolist(), strict=True))
    ports = list(zip(routes.egress.tolist(), routes.ingress.tolist(), strict=True))
    links = [(topology.replica_route(src) if src == dst else topology.route(src, dst)).link for src, dst, _ in ends]
    rates = [link.bandwidth or Fraction(1) for link in links]
    capacity = [Fraction(0)] * (max((max(pair) for pair in ports), default=NONE) + 1)
    for pair, rate in zip(ports, rates, strict=True):
        for port in pair:
            if port != NONE:
                capacity[port] = max(capacity[port], rate)
    of_route: list[tuple[int, ...]] = []
    others: dict[tuple[str, int, int], int] = {}
    for (src, dst, _), pair, rate in zip(ends, ports, rates, strict=True):
        if pair[0] == NONE:
            of_route.append(())
            continue
        more = {("link", src, dst): rate} if rate < min(capacity[port] for port in pair) else {}
        more |= dict(_switches(src, dst, topology))
        for line, limit in more.items():
            if line not in others:
                others[line] = len(capacity)
                capacity.append(limit)
        of_route.append((*dict.fromkeys(pair), *(others[line] for line in more)))
    work = [size + link.overhead * rate for (_, _, size), link, rate in zip(ends, links, rates, strict=True)]
    lines = Lines(tuple(capacity), tuple(work), tuple(of_route))
    alone = [to_ns(lines.alone(route)) if mine else 0 for route, mine in enumerate(of_route)]
    return replace(routes, occupancy=np.array(alone, np.int64)), lines


def _switches(src: int, dst: int, topology: Topology) -> Iterator[tuple[tuple[str, int, int], Fraction]]:
    """The switches that a message goes through, each one way or both; a rank's copies elsewhere are on other nodes."""
    cluster = topology.cluster
    way = "intra_node" if src != dst and topology.near(src, dst) else "inter_node"
    if src == dst and cluster.inter_node is None:
        way = "intra_node"
    for number, switch in enumerate(cluster.switches):
        if cluster.carried(switch) == way:
            if src in switch.ranks:
                yield ("switch", number, 0), switch.bandwidth
            if dst in switch.ranks:
                yield ("switch", number, 1), switch.bandwidth
