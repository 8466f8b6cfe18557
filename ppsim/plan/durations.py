"""Durations, message sizes and routes: every exact number becomes an integer here, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ppsim.config.experiment import Experiment
from ppsim.hardware.cluster import Link, Topology
from ppsim.ops import COMPUTE, NONE, Ints, Kind, Longs, OpTable, narrowest
from ppsim.plan.table import Routes
from ppsim.schedules.base import Problem
from ppsim.units import to_bytes, to_ns

T = TypeVar("T")
ONE = Fraction(1)


class Weights:
    """Weights of microbatches (or of their slices) as a few distinct values and which of them each has."""

    def __init__(self, experiment: Experiment, problem: Problem) -> None:
        given = experiment.pipeline.microbatch_weights or [ONE]
        parts = len(problem.slices)
        pairs = [(w * parts * s.time, w * parts * s.length) for w in given for s in problem.slices]
        distinct = sorted(set(pairs))
        self.distinct = [time for time, _ in distinct]
        self._lengths = [length for _, length in distinct]
        place = {pair: index for index, pair in enumerate(distinct)}
        self._index = np.array([place[pair] for pair in pairs], np.int64)

    def index(self, microbatch: NDArray[np.signedinteger]) -> Longs:
        """Which distinct weight each row has; rows without a microbatch have weight 1 or whatever comes first."""
        if len(self.distinct) == 1:
            return np.zeros(len(microbatch), np.int64)
        return self._index[np.where(microbatch == NONE, 0, microbatch % len(self._index))]

    def sizes(self, values: tuple[Fraction, ...], stage: Ints, microbatch: Ints) -> Longs:
        """Bytes of each row's stage's value, for its microbatch."""
        table = np.array(per_value(values, lambda value: [to_bytes(value * length) for length in self._lengths]))
        if len(self.distinct) > 1:
            return table[stage, self.index(microbatch)]
        if np.all(table == table[0]):
            return np.broadcast_to(table[0, 0], len(stage))
        return table[:, 0][stage]


def per_value(values: Iterable[Fraction], make: Callable[[Fraction], T]) -> list[T]:
    """``make`` of each value, called once for equal ones; a fraction's own hash takes longer than its two numbers'."""
    made: dict[tuple[int, int], T] = {}
    out = []
    for value in values:
        key = value.as_integer_ratio()
        if key not in made:
            made[key] = make(value)
        out.append(made[key])
    return out


def durations(ops: OpTable, problem: Problem, experiment: Experiment, topology: Topology, weights: Weights) -> Longs:
    """Nanoseconds of every row by itself: cost · weight / speed + op_overhead, rounded once."""
    speeds = [topology.speed(r) for r in range(problem.ranks)]
    distinct_speeds = sorted({speed.as_integer_ratio(): speed for speed in speeds}.values())
    speed_of = np.array([distinct_speeds.index(speed) for speed in speeds], np.int64)
    added = experiment.runtime.op_overhead

    def ns(seconds: Fraction) -> list[list[int]]:
        """By weight and speed."""
        return [[to_ns(seconds * w / v + added) for v in distinct_speeds] for w in weights.distinct]

    table = np.zeros((len(Kind), problem.stages, len(weights.distinct), len(distinct_speeds)), np.int64)
    for kind in COMPUTE:
        if ops.index.has(kind):
            table[kind] = per_value(problem.costs.seconds(kind), ns)
    # Row by row the place in the flattened table; what is the same for all rows adds nothing.
    place = ops.kind.astype(narrowest(table.size))
    place *= problem.stages
    place += ops.stage
    if len(weights.distinct) > 1:
        place *= len(weights.distinct)
        place += weights.index(ops.microbatch)
    if len(distinct_speeds) > 1:
        place *= len(distinct_speeds)
        place += speed_of[ops.rank]
    out: Longs = table.ravel()[place]
    optimizers = ops.index.select(Kind.OPTIM)
    if len(optimizers):
        per_rank = zip(_optimizer_seconds(problem), speeds, strict=True)
        out[optimizers] = np.array([to_ns(seconds / speed) for seconds, speed in per_rank])[ops.rank[optimizers]]
    return out


def _optimizer_seconds(problem: Problem) -> tuple[Fraction, ...]:
    """The optimizer's time per rank: over all the stages that it holds."""
    return tuple(
        sum((problem.costs.optimizer[stage] for stage in held), Fraction(0)) for held in problem.placement.stages_of
    )


def fused_durations(
    ops: OpTable, forward: Longs, problem: Problem, experiment: Experiment, topology: Topology, weights: Weights
) -> Longs | None:
    """Nanoseconds of fused pairs (given by their forwards' rows) where ``costs.overlapped`` says so, else None."""
    overlapped = problem.costs.overlapped
    if overlapped is None or not len(forward):
        return None
    longer = np.maximum(weights.index(ops.microbatch[forward]), weights.index(ops.microbatch[forward + 1]))
    cases, case_of = np.unique(
        np.stack([ops.stage[forward], longer, ops.rank[forward]], axis=1), axis=0, return_inverse=True
    )
    ns = [
        to_ns(overlapped[s] * weights.distinct[w] / topology.speed(r) + experiment.runtime.op_overhead)
        for s, w, r in cases.tolist()
    ]
    return np.array(ns, np.int64)[case_of.ravel()]


@dataclass
class RouteBook:
    """Numbers the distinct (source, destination, bytes) routes and the ports that they use."""

    topology: Topology

    def __post_init__(self) -> None:
        self._rows: list[tuple[int, int, int, int, int, int, int]] = []
        self._known: dict[tuple[int, int, int], int] = {}
        self._times: dict[tuple[int, int], tuple[Link, int, int]] = {}
        self._ports: dict[str, int] = {}

    @property
    def ports(self) -> tuple[str, ...]:
        """Names of the ports in use, by number."""
        return tuple(self._ports)

    def number(self, src: Ints, dst: Ints, size: Longs) -> Ints:
        """The route of each message from rank ``src`` to rank ``dst`` of ``size`` bytes; src = dst: to its replicas."""
        if not len(src):
            return np.empty(0, np.int32)
        sizes, size_of = _distinct(size)
        p = self.topology.ranks
        code = src.astype(narrowest(p * p * len(sizes)))
        code *= p
        code += dst
        if len(sizes) > 1:
            code = code * len(sizes) + size_of
        codes, code_of = _distinct(code)
        routes = [
            self._route(c // len(sizes) // p, c // len(sizes) % p, int(sizes[c % len(sizes)])) for c in codes.tolist()
        ]
        return np.array(routes, np.int32)[code_of]

    def _route(self, src: int, dst: int, size: int) -> int:
        key = (src, dst, size)
        if key not in self._known:
            route = self.topology.replica_route(src) if src == dst else self.topology.route(src, dst)
            ports = (self._port(route.egress), self._port(route.ingress))
            self._known[key] = len(self._rows)
            self._rows.append((src, dst, size, *self._ns(route.link, size), *ports))
        return self._known[key]

    def _ns(self, link: Link, size: int) -> tuple[int, int]:
        """Occupancy and latency; most routes share one link, which is kept so that its id stays its own."""
        key = id(link), size
        if key not in self._times:
            seconds = link.overhead + (size / link.bandwidth if link.bandwidth is not None else 0)
            self._times[key] = link, to_ns(seconds), to_ns(link.latency)
        return self._times[key][1:]

    def _port(self, name: str | None) -> int:
        return NONE if name is None else self._ports.setdefault(name, len(self._ports))

    def finish(self) -> Routes:
        """All routes as columns."""
        table = np.array(self._rows, np.int64).reshape(-1, 7)
        narrow = table.astype(np.int32)
        return Routes(
            narrow[:, 0],
            narrow[:, 1],
            table[:, 2].copy(),
            table[:, 3].copy(),
            table[:, 4].copy(),
            narrow[:, 5],
            narrow[:, 6],
        )


def _distinct(values: NDArray[np.signedinteger]) -> tuple[Longs, Longs]:
    """As np.unique with its inverse, without a sort where the values are few and small."""
    low, high = int(values.min()), int(values.max())
    if low == high:
        return np.array([low], np.int64), np.broadcast_to(np.int64(0), len(values))
    if low >= 0 and high < max(4 * len(values), 1 << 20):
        present = np.zeros(high + 1, bool)
        present[values] = True
        distinct = np.flatnonzero(present)
        place = np.zeros(high + 1, np.int32)
        place[distinct] = np.arange(len(distinct))
        return distinct, place[values]
    distinct, place = np.unique(values, return_inverse=True)
    return distinct.astype(np.int64), place
