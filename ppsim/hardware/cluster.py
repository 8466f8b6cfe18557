"""Ranks on nodes: devices, ports, and the link between two ranks."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from ppsim._model import Flag, Model, OneOrMore, Whole, one_or_list
from ppsim.hardware.device import Device, DeviceField, row_of
from ppsim.hardware.link import FREE, LINK_FIELDS, Link, LinkField, PairLink, class_of
from ppsim.hardware.sharing import Sharing, Switch
from ppsim.units import Factor

Seats = Annotated[
    Annotated[Literal["sequential", "pair_adjacent"], Tag("<one>")] | Annotated[list[Whole], Tag("<list>")],
    Discriminator(one_or_list),
]


class Cluster(Model):
    """Devices, how they sit on nodes, and what connects them."""

    device: DeviceField = Device()
    """A row of the catalog, or {memory: 80 GB, …}."""
    nodes: Whole | None = Field(None, ge=1)
    """How many nodes there are (default: as many as the ranks need)."""
    ranks_per_node: Whole | None = Field(None, ge=1)
    """Ranks on a node (default: all on one; one where only `inter_node` is named)."""
    devices_per_node: Whole | None = Field(None, ge=1)
    """Devices on a node, where a rank is several of them (tensor, context parallelism): `ranks_per_node` follows, in
    the order tensor, context, data, pipeline, and groups that reach beyond a node use the link between nodes."""
    replicas_on_node: Flag | None = None
    """A rank's copies in other pipelines are on its own node, so that gradients are summed over `intra_node` (default:
    where `devices_per_node` says so, else on other nodes)."""
    ranks_per_nic: Whole = Field(1, ge=1)
    """Ranks of a node that share one NIC."""
    nvlink_domain: Whole | None = Field(None, ge=1)
    """Ranks that `intra_node` connects, where it reaches beyond a node (default: `ranks_per_node`)."""
    intra_node: LinkField | None = None
    """The link within a node: a row of the catalog, {like: …, latency: …}, or `free`."""
    inter_node: LinkField | None = None
    """The link between nodes: a row of the catalog, {like: …, latency: …}, or `free`."""
    speed: OneOrMore[Factor] = Fraction(1)
    """Speed of every rank or of each: 0.5 takes twice as long."""
    placement: Seats = "sequential"
    """How ranks fill the nodes: in order, each mirror pair (r, p-1-r) side by side, or a list of the ranks in order."""
    links: list[PairLink] = Field([])
    """Pairs of ranks whose link differs."""
    sharing: Sharing = "queueing"
    """How messages share what they go over: `queueing`, one at a time, first come, first served; `fair`, all at once,
    each with a max-min fair share of its ports, link and switches."""
    switches: list[Switch] = Field([])
    """Switches that several ranks share, under `sharing: fair`."""

    def seats(self, ranks: int) -> list[int]:
        """Ranks in the order in which they fill the nodes."""
        if isinstance(self.placement, list):
            return self.placement
        if self.placement == "pair_adjacent":
            return [r for x in range(ranks // 2) for r in (x, ranks - 1 - x)] + ([ranks // 2] if ranks % 2 else [])
        return list(range(ranks))

    def per_node(self, ranks: int) -> int:
        """Ranks on a node."""
        if self.ranks_per_node is not None:
            return self.ranks_per_node
        return 1 if self.inter_node is not None and self.intra_node is None else ranks

    def seated(self, devices: int, replicas: int) -> Cluster:
        """This cluster for ranks of so many devices with so many copies, as ``devices_per_node`` lets them sit."""
        if self.devices_per_node is None:
            return self
        derived = {
            "ranks_per_node": max(1, self.devices_per_node // (devices * replicas)),
            "replicas_on_node": devices * replicas <= self.devices_per_node,
        }
        return self.model_copy(update={key: value for key, value in derived.items() if getattr(self, key) is None})

    def problems(self, ranks: int) -> Iterator[tuple[str, str]]:
        """(key, what is wrong) with this cluster for so many ranks."""
        per_node = self.per_node(ranks)
        if self.nodes is not None and self.nodes * per_node < ranks:
            yield (
                "nodes",
                f"{self.nodes} nodes of {per_node} ranks hold {self.nodes * per_node} ranks, the pipeline has {ranks}; "
                f"{-(-ranks // per_node)} nodes would do",
            )
        if isinstance(self.speed, list) and len(self.speed) != ranks:
            yield "speed", f"the list has {len(self.speed)} values, there are {ranks} ranks"
        if isinstance(self.placement, list) and sorted(self.placement) != list(range(ranks)):
            yield "placement", f"must list each of the ranks 0 to {ranks - 1} once"
            return
        seen: dict[tuple[int, int], int] = {}
        topology = Topology(self, ranks)
        for index, override in enumerate(self.links):
            key = f"links.{index}.ranks"
            pair = (min(override.ranks), max(override.ranks))
            unknown = [r for r in override.ranks if not 0 <= r < ranks]
            if unknown:
                yield key, f"rank {unknown[0]} is unknown; the ranks are 0 to {ranks - 1}"
            elif pair[0] == pair[1]:
                yield key, f"a link connects two ranks, not {pair[0]} with itself"
            elif pair in seen:
                yield key, f"the pair {pair[0]}, {pair[1]} is given twice (links.{seen[pair]}, too); it holds both ways"
            elif class_of(override.like) == "nvlink" and not topology.near(*pair):
                yield (
                    key,
                    f"ranks {pair[0]} and {pair[1]} are on different nodes, where NVLink does not reach; declare them "
                    "as one domain with 'nvlink_domain', or put them on one node with 'placement'",
                )
            seen.setdefault(pair, index)
        yield from self._switch_problems(ranks)
        named = self.intra_node is not None or self.inter_node is not None or bool(self.links)
        if named and ranks > 1 and (self.intra_node is None or self.inter_node is None):
            pairs = [(topology.near(a, b)) for a, b in zip(range(ranks - 1), range(1, ranks), strict=True)]
            overridden = {(min(o.ranks), max(o.ranks)) for o in self.links if len(o.ranks) == 2}
            needed = [near for a, near in enumerate(pairs) if (a, a + 1) not in overridden]
            if self.intra_node is None and any(needed):
                yield (
                    "intra_node",
                    f"missing: ranks share a node ({per_node} per node); name their link, or write 'free'",
                )
            if self.inter_node is None and not all(needed):
                yield (
                    "inter_node",
                    f"missing: {ranks} ranks at {per_node} per node are on {-(-ranks // per_node)} nodes; name the "
                    "link between nodes, or write 'free'",
                )

    def carried(self, switch: Switch) -> Literal["intra_node", "inter_node"]:
        """The link whose messages go through a switch."""
        return switch.carries or ("inter_node" if self.inter_node is not None else "intra_node")

    def _switch_problems(self, ranks: int) -> Iterator[tuple[str, str]]:
        if self.switches and self.sharing == "queueing":
            yield "switches", "messages share a switch under 'sharing: fair' alone; add that, or leave them out"
        for index, switch in enumerate(self.switches):
            key = f"switches.{index}"
            unknown = [rank for rank in switch.ranks if not 0 <= rank < ranks]
            link: Link | None = getattr(self, self.carried(switch))
            if unknown:
                yield f"{key}.ranks", f"rank {unknown[0]} is unknown; the ranks are 0 to {ranks - 1}"
            elif len(set(switch.ranks)) < len(switch.ranks):
                yield f"{key}.ranks", "a rank is named twice"
            if link is None or link.bandwidth is None:
                yield key, f"it carries messages of {self.carried(switch)}, which has no bandwidth; give that one"


@dataclass(frozen=True)
class Route:
    """How a message gets from one rank to another: its link and its two ports (None: no port)."""

    link: Link
    egress: str | None
    ingress: str | None


class Topology:
    """A cluster with a number of ranks on it: where each sits, and the route between any two."""

    def __init__(self, cluster: Cluster | None, ranks: int) -> None:
        self.cluster = cluster or Cluster()
        self.ranks = ranks
        self.per_node = self.cluster.per_node(ranks)
        self._overrides = {frozenset(o.ranks): o for o in self.cluster.links}

    @cached_property
    def _seat(self) -> list[int]:
        seat = {rank: position for position, rank in enumerate(self.cluster.seats(self.ranks))}
        return [seat.get(rank, rank) for rank in range(self.ranks)]

    @cached_property
    def seating(self) -> Hashable | None:
        """All that decides which ports a message goes through; None where pairs of ranks have links of their own."""
        cluster = self.cluster
        if cluster.links:
            return None
        seats = tuple(cluster.placement) if isinstance(cluster.placement, list) else cluster.placement
        ports = tuple(link and link.has_ports for link in (cluster.intra_node, cluster.inter_node))
        on_node = cluster.replicas_on_node
        return self.ranks, self.per_node, seats, cluster.ranks_per_nic, cluster.nvlink_domain, on_node, ports

    @cached_property
    def links(self) -> tuple[Link, Link, Link]:
        """The link within a node, the one between nodes, the one to a rank's copies in other pipelines."""
        return self.cluster.intra_node or FREE, self.cluster.inter_node or FREE, self.replica_link

    def which(self, a: int, b: int) -> int:
        """Which of ``links`` leads from rank a to rank b, where no pair has its own; to a itself: to its copies."""
        return 2 if a == b else 0 if self.near(a, b) else 1

    def node(self, rank: int) -> int:
        """The node that a rank sits on."""
        return self._seat[rank] // self.per_node

    def nic(self, rank: int) -> str:
        """The NIC that a rank shares with its neighbours, named by node and number."""
        return self._nics[rank]

    @cached_property
    def _nics(self) -> list[str]:
        """By rank: every message between nodes asks for two of them."""
        places = (divmod(seat, self.per_node) for seat in self._seat)
        return [f"node {node} nic {inside // self.cluster.ranks_per_nic}" for node, inside in places]

    def near(self, a: int, b: int) -> bool:
        """Whether two ranks are connected by the link within a node."""
        domain = self.cluster.nvlink_domain or self.per_node
        return self._seat[a] // domain == self._seat[b] // domain

    def speed(self, rank: int) -> Fraction:
        """The rank's speed factor."""
        speed = self.cluster.speed
        return speed[rank] if isinstance(speed, list) else speed

    def link(self, a: int, b: int) -> Link:
        """The link between two ranks, overrides applied."""
        return self._link(a, b, self.near(a, b))

    def _link(self, a: int, b: int, near: bool) -> Link:
        link = (self.cluster.intra_node if near else self.cluster.inter_node) or FREE
        override = self._overrides.get(frozenset((a, b))) if self._overrides else None
        if override is None:
            return link
        changes: dict[str, Any] = {k: v for k in LINK_FIELDS if (v := getattr(override, k)) is not None}
        if override.like is not None:
            base = {k: v for k, v in row_of("link", override.like).items() if k in LINK_FIELDS}
            link = Link.model_validate(base)
        return link.model_copy(update=changes)

    def route(self, a: int, b: int) -> Route:
        """Link and ports from rank a to rank b: within a node a pair per rank, between nodes the NICs' pairs."""
        near = self.near(a, b)
        return self._through(self._link(a, b, near), a, b, near)

    def _through(self, link: Link, a: int, b: int, near: bool) -> Route:
        if not link.has_ports:
            return Route(link, None, None)
        source, target = (f"rank {a}", f"rank {b}") if near else (self.nic(a), self.nic(b))
        return Route(link, f"{source} egress", f"{target} ingress")

    @property
    def replica_link(self) -> Link:
        """The link of gradient sync between a rank and its copies in other pipelines."""
        within, between = self.cluster.intra_node, self.cluster.inter_node
        return (within or between or FREE) if self.cluster.replicas_on_node else (between or within or FREE)

    def replica_route(self, rank: int) -> Route:
        """Link and ports of gradient sync between a rank and its copies in other pipelines."""
        return self._through(self.replica_link, rank, rank, bool(self.cluster.replicas_on_node))
