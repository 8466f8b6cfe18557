"""A measured step again: its ops in their order, each for the time that it took, when its inputs are there.

What is left out are the gaps between an op and what it waited for: a launch, a sync, anything that isn't recorded. So
the replay tells how much of the step the recorded ops explain, and the gaps what an op costs beside its own time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ppsim.analysis.measured.graph import Graph, Times
from ppsim.analysis.measured.lanes import Lanes
from ppsim.analysis.measured.table import Messages
from ppsim.ops import Kind

_MADE_BY = {Kind.F: ((Kind.F,), -1), Kind.B: ((Kind.B, Kind.I), 1), Kind.I: ((Kind.B, Kind.I), 1)}
"""What makes an op's input: kinds, and how many stages away."""
_ENDS = {Kind.F: (Kind.SEND_F, Kind.RECV_F), Kind.B: (Kind.SEND_B, Kind.RECV_B), Kind.I: (Kind.SEND_B, Kind.RECV_B)}


@dataclass(frozen=True, eq=False)
class Hops:
    """The messages between ranks, a row each: who makes and who uses it (numbers of ops), how long it is on its way."""

    producer: np.ndarray
    consumer: np.ndarray
    src: np.ndarray
    dst: np.ndarray
    kind: np.ndarray
    transit: Times
    """Ns, shape (messages, replicas, steps); NaN where it wasn't recorded."""
    bytes: np.ndarray
    """-1 where it isn't known."""
    held: Times | None = None
    """How long it held its ports, and how long it then flew, where the source tells that."""
    flight: Times | None = None

    def __len__(self) -> int:
        return len(self.producer)

    @property
    def measured(self) -> bool:
        """Whether any transit was recorded."""
        return bool(len(self) and not np.all(np.isnan(self.transit)))


@dataclass(frozen=True, eq=False)
class Replay:
    """What a measured step waits for, and how long it takes with other times; ops have the numbers of the lanes."""

    lanes: Lanes

    @cached_property
    def previous(self) -> np.ndarray:
        """The op before each compute op on its rank; -1: none."""
        out = np.full(len(self.lanes), -1)
        for rank in range(self.lanes.measured.ranks):
            mine = self.lanes.of_rank(rank, self.lanes.computes)
            out[mine[1:]] = mine[:-1]
        return out

    @cached_property
    def heads(self) -> np.ndarray:
        """By op the one that waits for its inputs: itself, or of a fused pair the first, which waits for both's."""
        out = np.arange(len(self.lanes))
        second = np.flatnonzero(self.lanes.seconds)
        out[second] = self.previous[second]
        return out

    @cached_property
    def inputs(self) -> list[tuple[int, int]]:
        """(producer, consumer) of every input that an op has from another stage."""
        where = self.lanes.where()
        found: list[tuple[int, int]] = []
        for (kind, stage, microbatch), node in where.items():
            if Kind(kind) not in _MADE_BY:
                continue
            kinds, step = _MADE_BY[Kind(kind)]
            producers = (where.get((maker, stage + step, microbatch)) for maker in kinds)
            found += [(producer, int(self.heads[node])) for producer in producers if producer is not None]
        return found

    @cached_property
    def hops(self) -> Hops:
        """The inputs that come from another rank."""
        lanes = self.lanes
        pairs = [(a, b) for a, b in self.inputs if lanes.rank[a] != lanes.rank[b]]
        producer, consumer = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
        shape = (len(pairs), *lanes.start.shape[1:])
        transit, size = np.full(shape, np.nan), np.full(len(pairs), -1, np.int64)
        where = lanes.where()
        for row, (a, _) in enumerate(pairs):
            send, receive = _ENDS[Kind(int(lanes.kind[a]))]
            stage, microbatch = int(lanes.stage[a]), int(lanes.microbatch[a])
            sent = where.get((send, stage, microbatch))
            taken = where.get((receive, stage + (1 if receive == Kind.RECV_F else -1), microbatch))
            if sent is not None and taken is not None:
                begun = np.maximum(lanes.start[sent], lanes.start[taken])
                transit[row] = np.maximum(lanes.end[taken] - begun, 0)
        rank, kind = lanes.rank, lanes.kind
        if lanes.measured.messages is None:
            return Hops(producer, consumer, rank[producer], rank[consumer], kind[producer], transit, size)
        held, flight = np.full(shape, np.nan), np.full(shape, np.nan)
        _recorded(lanes, lanes.measured.messages, pairs, (transit, size, held, flight))
        return Hops(producer, consumer, rank[producer], rank[consumer], kind[producer], transit, size, held, flight)

    @cached_property
    def graph(self) -> Graph:
        """Compute ops in the order of each rank, and a node per message, after all others."""
        lanes, hops = self.lanes, self.hops
        before: list[set[int]] = [set() for _ in range(len(lanes) + len(hops))]
        for node, earlier in enumerate(self.previous.tolist()):
            if earlier >= 0:
                before[node].add(earlier)
        for producer, consumer in self.inputs:
            if lanes.rank[producer] == lanes.rank[consumer]:
                before[consumer].add(producer)
        for row, (producer, consumer) in enumerate(zip(hops.producer.tolist(), hops.consumer.tolist(), strict=True)):
            before[len(lanes) + row].add(producer)
            before[consumer].add(len(lanes) + row)
        return Graph(tuple(tuple(sorted(nodes)) for nodes in before))

    @cached_property
    def duration(self) -> Times:
        """Each compute op's own time, 0 for others; the second of a fused pair takes none."""
        lanes = self.lanes
        own = np.where(lanes.computes[:, None, None], lanes.duration, 0).astype(np.float64)
        own[lanes.seconds] = 0
        return own

    @cached_property
    def transit(self) -> Times:
        """Each message's own time on its way, 0 where it wasn't recorded."""
        return np.nan_to_num(self.hops.transit, nan=0.0)

    def span(self, duration: Times, transit: Times, overhead: float = 0.0) -> Times:
        """By step, ns from the first compute op's start to the last one's end over all replicas, with these times."""
        ends = self.ends(duration, transit, overhead)
        first = self.starts(ends, duration).min(axis=0)
        last = ends[self.lanes.computes].max(axis=0)
        span: Times = (last - first).max(axis=0)
        return span

    def ends(self, duration: Times, transit: Times, overhead: float = 0.0) -> Times:
        """When every op ends, each beginning ``overhead`` after what it waits for; shape as the lanes'."""
        lag = np.zeros(len(self.graph.before))
        lag[: len(self.lanes)][self.lanes.computes] = overhead
        lag[: len(self.lanes)][self.lanes.seconds] = 0
        shape = self.lanes.start.shape[1:]
        times = np.concatenate(
            [np.broadcast_to(duration, (len(self.lanes), *shape)), np.broadcast_to(transit, (len(self.hops), *shape))]
        )
        return self.graph.ends(times, np.broadcast_to(lag[:, None, None], times.shape))[: len(self.lanes)]

    def starts(self, ends: Times, duration: Times) -> Times:
        """When every compute op starts, given when it ends."""
        starts: Times = (ends - duration)[self.lanes.computes]
        return starts

    @cached_property
    def gaps(self) -> Times:
        """By compute op, ns between the moment when all that it waits for was there and its start; NaN where it has
        nothing to wait for, or is the second of a fused pair."""
        lanes, hops = self.lanes, self.hops
        ready = np.full(lanes.start.shape, -np.inf)
        some = np.flatnonzero(self.previous >= 0)
        ready[some] = lanes.end[self.previous[some]]
        for producer, consumer in self.inputs:
            if lanes.rank[producer] == lanes.rank[consumer]:
                np.maximum(ready[consumer], lanes.end[producer], out=ready[consumer])
        for row, (producer, consumer) in enumerate(zip(hops.producer.tolist(), hops.consumer.tolist(), strict=True)):
            np.maximum(ready[consumer], lanes.end[producer] + self.transit[row], out=ready[consumer])
        gaps = np.where(np.isfinite(ready), lanes.start - ready, np.nan)
        gaps[~lanes.computes] = np.nan
        gaps[lanes.seconds] = np.nan
        return gaps


def _recorded(lanes: Lanes, messages: Messages, pairs: list[tuple[int, int]], into: tuple[np.ndarray, ...]) -> None:
    """Transit, size, time on the ports and flight of each message that the source tells of itself."""
    transit, size, held, flight = into
    number = {step: i for i, step in enumerate(lanes.steps)}
    steps = [number.get(lanes.measured.steps[step], -1) for step in range(len(lanes.measured.steps))]
    row_of: dict[tuple[int, ...], int] = {}
    for row, (a, b) in enumerate(pairs):
        row_of[int(lanes.kind[a]), int(lanes.stage[a]), int(lanes.microbatch[a]), int(lanes.rank[b])] = row
    way = messages.arrive - messages.ready
    keys = zip(
        messages.kind.tolist(),
        messages.stage.tolist(),
        messages.microbatch.tolist(),
        messages.dst.tolist(),
        strict=True,
    )
    for i, key in enumerate(keys):
        row, step = row_of.get(key, -1), steps[int(messages.step[i])]
        if row >= 0 and step >= 0:
            transit[row, :, step] = way[i]
            size[row] = messages.bytes[i]
            held[row, :, step] = messages.left[i] - messages.start[i]
            flight[row, :, step] = messages.arrive[i] - messages.left[i]
