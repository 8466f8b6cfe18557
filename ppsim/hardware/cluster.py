"""Ranks on nodes: devices, ports, and the link between two ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from ppsim._model import Model, OneOrMore, Whole, one_or_list
from ppsim.hardware import catalog
from ppsim.units import Factor, PositiveBandwidth, Rate, Size, Time

ZERO = Fraction(0)


def _row(kind: str, name: str) -> Mapping[str, Any]:
    """A row of the catalog; ``free`` is a link with nothing in it. Raises ValueError."""
    if kind == "link" and name == "free":
        return {}
    if kind == "link" and name.lower() in ("free", "none", "ideal", "infinite"):
        raise ValueError(f"unknown link '{name}'; did you mean 'free', a link without cost?")
    return catalog.row(kind, name)


def _known_link(name: str | None) -> str | None:
    if name is not None:
        _row("link", name)
    return name


def _from_catalog(kind: str, fields: tuple[str, ...], model: type[Model]) -> BeforeValidator:
    """A row's name, or {like: row, …} with changes, into the row's fields."""

    def expand(value: object) -> object:
        if isinstance(value, str):
            if kind == "link" and value == "free":
                return {}
            value = {"like": value}
        if isinstance(value, dict) and isinstance(value.get("like"), str):
            row = _row(kind, value["like"])
            return {**{key: row[key] for key in fields if key in row}, **value}
        return value

    return BeforeValidator(expand, json_schema_input_type=str | model)


class Device(Model):
    """A device: its memory and its rates; memory that isn't given isn't limited, rates are then not known."""

    like: str | None = None
    """The row of the catalog that this is, or changes."""
    memory: Size | None = None
    """Its memory."""
    peak_flops: Rate | None = None
    """Its peak rate in `peak_dtype`, for MFU and for costs from a model."""
    peak_dtype: str = "bf16"
    """The data type of `peak_flops`."""
    peaks: dict[str, Rate] = Field({})
    """Peak rates in other data types, as in {fp8: 1979 TFLOP/s}."""
    memory_bandwidth: PositiveBandwidth | None = None
    """Of its own memory, for costs from a model."""

    def peak(self, dtype: str) -> Fraction | None:
        """The peak rate in a data type; 16-bit types have the same. None where it isn't known."""
        same = {"bf16": ("bf16", "fp16"), "fp16": ("fp16", "bf16")}.get(dtype, (dtype,))
        known = {**({self.peak_dtype: self.peak_flops} if self.peak_flops is not None else {}), **self.peaks}
        return next((known[name] for name in same if name in known), None)


class Link(Model):
    """A link, one way: a message holds its ports for ``overhead + bytes / bandwidth`` and arrives ``latency`` later."""

    like: str | None = None
    """The row of the catalog that this is, or changes."""
    bandwidth: PositiveBandwidth | None = None
    """One way. Without it a message takes no time on the ports, however large."""
    latency: Time = ZERO
    """Time of flight; it doesn't hold the ports."""
    overhead: Time = ZERO
    """Time per message on the ports, whatever its size."""

    @property
    def has_ports(self) -> bool:
        """Whether messages queue: a free link, and one with a latency alone, has no ports."""
        return self.bandwidth is not None or self.overhead > 0


class PairLink(Model):
    """What one pair of ranks has instead of the default, in both directions."""

    @model_validator(mode="before")
    @classmethod
    def _both_ways(cls, value: object) -> object:
        if isinstance(value, dict) and {"src", "dst"} & set(value):
            ends = ", ".join(str(value.get(end, "?")) for end in ("src", "dst"))
            raise ValueError(f"a pair's link holds in both directions; write 'ranks: [{ends}]'")
        return value

    ranks: list[Whole] = Field(min_length=2, max_length=2)
    """The two ranks."""
    like: Annotated[str | None, AfterValidator(_known_link)] = None
    """A row of the catalog for this pair, or `free`."""
    bandwidth: PositiveBandwidth | None = None
    """One way; unset: the default's."""
    latency: Time | None = None
    """Time of flight; unset: the default's."""
    overhead: Time | None = None
    """Time per message on the ports; unset: the default's."""


LINK_FIELDS = ("bandwidth", "latency", "overhead")
DEVICE_FIELDS = ("memory", "peak_flops", "peak_dtype", "peaks", "memory_bandwidth")
LinkField = Annotated[Link, _from_catalog("link", LINK_FIELDS, Link)]
DeviceField = Annotated[Device, _from_catalog("device", DEVICE_FIELDS, Device)]


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
    """Devices on a node, where a rank is several of them (tensor, context parallelism); groups that reach beyond a node
    use the link between nodes."""
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
            elif _class_of(override.like) == "nvlink" and not topology.near(*pair):
                yield (
                    key,
                    f"ranks {pair[0]} and {pair[1]} are on different nodes, where NVLink does not reach; declare them "
                    "as one domain with 'nvlink_domain', or put them on one node with 'placement'",
                )
            seen.setdefault(pair, index)
        named = self.intra_node is not None or self.inter_node is not None or bool(self.links)
        if named and ranks > 1:
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


def _class_of(row: str | None) -> str | None:
    if row is None or row == "free":
        return None
    return str(catalog.row("link", row).get("class"))


@dataclass(frozen=True)
class Route:
    """How a message gets from one rank to another: its link and its two ports (None: no port)."""

    link: Link
    egress: str | None
    ingress: str | None


FREE = Link()


class Topology:
    """A cluster with a number of ranks on it: where each sits, and the route between any two."""

    def __init__(self, cluster: Cluster | None, ranks: int) -> None:
        self.cluster = cluster or Cluster()
        self.ranks = ranks
        self.per_node = self.cluster.per_node(ranks)
        seat = {rank: position for position, rank in enumerate(self.cluster.seats(ranks))}
        self._seat = [seat.get(r, r) for r in range(ranks)]
        self._overrides = {frozenset(o.ranks): o for o in self.cluster.links}

    def node(self, rank: int) -> int:
        """The node that a rank sits on."""
        return self._seat[rank] // self.per_node

    def nic(self, rank: int) -> str:
        """The NIC that a rank shares with its neighbours, named by node and number."""
        inside = self._seat[rank] % self.per_node
        return f"node {self.node(rank)} nic {inside // self.cluster.ranks_per_nic}"

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
        link = (self.cluster.intra_node if self.near(a, b) else self.cluster.inter_node) or FREE
        override = self._overrides.get(frozenset((a, b))) if self._overrides else None
        if override is None:
            return link
        changes: dict[str, Any] = {k: v for k in LINK_FIELDS if (v := getattr(override, k)) is not None}
        if override.like is not None:
            base = {k: v for k, v in _row("link", override.like).items() if k in LINK_FIELDS}
            link = Link.model_validate(base)
        return link.model_copy(update=changes)

    def route(self, a: int, b: int) -> Route:
        """Link and ports from rank a to rank b: within a node a pair per rank, between nodes the NICs' pairs."""
        link = self.link(a, b)
        if not link.has_ports:
            return Route(link, None, None)
        if self.near(a, b):
            return Route(link, f"rank {a} egress", f"rank {b} ingress")
        return Route(link, f"{self.nic(a)} egress", f"{self.nic(b)} ingress")

    def replica_route(self, rank: int) -> Route:
        """Link and ports of gradient sync between a rank and its copies in other pipelines, on other nodes."""
        link = self.cluster.inter_node or self.cluster.intra_node or FREE
        if not link.has_ports:
            return Route(link, None, None)
        return Route(link, f"{self.nic(rank)} egress", f"{self.nic(rank)} ingress")
