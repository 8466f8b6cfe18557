"""What slows a job down: how long its steps would take if every op of a kind took the same time, and who prevents it.

S = mean step as simulated with the ops' own durations, without gaps before their launch, over the mean step in which
every op takes the one value of its kind: over all stages, replicas and steps the mean, for communication the median of
its transfer (its end less the latest start among those that take part). The factor of some ops is the ideal step with
only those at their own durations, over the ideal step; factors don't add up, and can be below 1.
Source: Lin et al. 2025, "Understanding Stragglers in Large Model Training Using What-if Analysis", equations 1, 2, 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ppsim.analysis.measured.graph import Graph, Times
from ppsim.analysis.measured.lanes import Lanes
from ppsim.analysis.measured.table import Flags, Scope
from ppsim.ops import NONE, Kind

CLOCK_SLACK_NS = 10_000_000
"""A transfer that is this much below zero is a clock's error, and counts nothing. Source: the same, its code."""
_SENDS = (Kind.SEND_F, Kind.SEND_B)
_COMPUTE_OF = {Kind.RECV_F: Kind.F, Kind.SEND_F: Kind.F, Kind.RECV_B: Kind.B, Kind.SEND_B: Kind.B}


@dataclass(frozen=True)
class Slowdown:
    """The slowdown S, and the factors of stages, replicas, kinds and workers, by name, the largest first."""

    slowdown: float
    stage: dict[str, float]
    data_parallel: dict[str, float]
    kind: dict[str, float]
    worker: dict[str, float]
    steps_s: tuple[float, ...]
    """By step, as simulated with the ops' own durations."""
    ideal_s: float
    """The mean ideal step."""
    by_stage: float
    """S with one median per kind and stage instead: the imbalance of stages is hidden in it."""

    def factors(self) -> dict[str, dict[str, float]]:
        """The factors by what they are factors of."""
        return {key: getattr(self, key) for key in ("stage", "data_parallel", "kind", "worker")}


def slowdown(lanes: Lanes) -> Slowdown:
    """The slowdown of a measured run, and whom it is due to."""
    graph, shared = _Wiring(lanes).graph()
    own = _durations(lanes, graph, shared)
    names = np.array([lanes.measured.labels[label].group for label in lanes.label.tolist()], object)
    kinds, of_kind = np.unique(lanes.label, return_inverse=True)
    medians = {int(k) for k in kinds if lanes.measured.labels[k].kind not in _WORK or lanes.measured.labels[k].scope}
    ideal = _typical(own, of_kind.reshape(-1), [int(k) in medians for k in kinds])
    by_stage = np.unique(np.stack([lanes.label, lanes.rank]), axis=1, return_inverse=True)
    second = _typical(own, by_stage[1].reshape(-1), [True] * by_stage[0].shape[1])

    def mean_step(duration: Times) -> float:
        return float(_steps(graph, duration).mean())

    base = mean_step(ideal)
    steps = _steps(graph, own)

    def factor(ops: Flags, replica: int | slice = slice(None)) -> float:
        mixed = ideal.copy()
        where = np.flatnonzero(ops)
        mixed[where, replica] = own[where, replica]
        return mean_step(mixed) / base

    everything = np.ones(len(lanes), bool)
    ranks, replicas = range(lanes.measured.ranks), range(lanes.measured.replicas)
    return Slowdown(
        slowdown=float(steps.mean()) / base,
        stage=_sorted({str(r): factor(lanes.rank == r) for r in ranks}),
        data_parallel=_sorted({str(d): factor(everything, d) for d in replicas}),
        kind=_sorted({name: factor(names == name) for name in sorted({*names.tolist()})}),
        worker=_sorted({f"{r},{d}": factor(lanes.rank == r, d) for r in ranks for d in replicas}),
        steps_s=tuple((steps / 1e9).tolist()),
        ideal_s=base / 1e9,
        by_stage=float(steps.mean()) / mean_step(second),
    )


_WORK = (Kind.F, Kind.B, Kind.I, Kind.W, Kind.R, Kind.OPTIM, None)
"""Kinds whose typical value is the mean, where a worker does them by itself; of all others it is the median."""


def _sorted(found: dict[str, float]) -> dict[str, float]:
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _steps(graph: Graph, duration: Times) -> Times:
    steps: Times = graph.ends(duration).max(axis=(0, 1))
    return steps


def _typical(own: Times, group: np.ndarray, medians: list[bool]) -> Times:
    out = np.empty_like(own)
    for number, median in enumerate(medians):
        mine = group == number
        out[mine] = np.median(own[mine]) if median else own[mine].mean()
    return out


def _durations(lanes: Lanes, graph: Graph, shared: set[int]) -> Times:
    """Each op's own duration; of one that several do together its end less the latest start among them."""
    own = lanes.duration.astype(np.float64)
    for number in shared:
        members = list(graph.together[number])
        last = lanes.start[members].max(axis=0)
        if number in graph.wide:
            last = np.broadcast_to(last.max(axis=0), last.shape)
        transfer = (lanes.end[members] - last).astype(np.float64)
        own[members] = np.where(transfer <= -CLOCK_SLACK_NS, 0.0, transfer)
    return own


class _Wiring:
    """What waits for what, as that paper has it.

    A worker's compute ops in turn; each kind of message in turn, a receive posted once the compute op of its kind
    before its own has ended; parameters before the first forward; after the last compute op the syncs and the optimizer
    in the order in which they ran.
    """

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.before: list[set[int]] = [set() for _ in range(len(lanes))]
        self.where = lanes.where()

    def graph(self) -> tuple[Graph, set[int]]:
        """The graph, and which of its groups there are (all)."""
        lanes = self.lanes
        for rank in range(lanes.measured.ranks):
            computes = lanes.of_rank(rank, lanes.computes).tolist()
            self._chain(computes)
            self._messages(rank, computes)
            self._rest(rank, computes)
        if not np.any(lanes.messages):
            self._inputs()
        together, wide = self._groups()
        before = tuple(tuple(sorted(nodes)) for nodes in self.before)
        return Graph(before, tuple(together), frozenset(wide)), {*range(len(together))}

    def _chain(self, nodes: list[int]) -> None:
        for earlier, later in pairwise(nodes):
            self.before[later].add(earlier)

    def _messages(self, rank: int, computes: list[int]) -> None:
        lanes = self.lanes
        by_kind = {kind: [i for i in computes if lanes.kind[i] == kind] for kind in (Kind.F, Kind.B)}
        place = {node: (kind, n) for kind, nodes in by_kind.items() for n, node in enumerate(nodes)}
        first_backward = computes.index(by_kind[Kind.B][0]) if by_kind[Kind.B] else 0
        for kind, compute_kind in _COMPUTE_OF.items():
            mine = lanes.of_rank(rank, lanes.messages & (lanes.kind == kind)).tolist()
            self._chain(mine)
            for message in mine:
                work = self.where.get((compute_kind, int(lanes.stage[message]), int(lanes.microbatch[message])))
                if work is None or work not in place:
                    continue
                if kind in _SENDS:
                    self.before[message].add(work)
                    continue
                self.before[work].add(message)
                if (n := place[work][1]) > 0:
                    self.before[message].add(by_kind[compute_kind][n - 1])
            if mine and compute_kind == Kind.B and first_backward >= 2:
                self.before[mine[0]].add(computes[first_backward - 2])

    def _rest(self, rank: int, computes: list[int]) -> None:
        """Syncs and the optimizer: before the first compute op, beside the compute ops, or after the last."""
        lanes = self.lanes
        rest = lanes.of_rank(rank, ~lanes.computes & ~lanes.messages).tolist()
        if not computes:
            self._chain(rest)
            return
        first, last = computes[0], computes[-1]
        gathers = [i for i in rest if lanes.kind[i] == Kind.UNSHARD]
        self._chain(gathers)
        for gather in gathers:
            chunk = lanes.stage[gather]
            users = [i for i in computes if lanes.kind[i] == Kind.F and chunk in (NONE, lanes.stage[i])]
            self.before[users[0] if users else first].add(gather)
        early = float(np.median(lanes.start[last]))
        beside = [i for i in rest if i not in gathers and float(np.median(lanes.start[i])) < early]
        for sync in beside:
            done = [i for i in computes if lanes.kind[i] != Kind.F and lanes.stage[sync] in (NONE, lanes.stage[i])]
            self.before[sync].add(done[-1] if done else last)
        self._chain(gathers[-1:] + beside)
        after = [i for i in rest if i not in gathers and i not in beside]
        self._chain([last, *after])
        if beside and after:
            self.before[after[0]].add(beside[-1])

    def _inputs(self) -> None:
        """Where no messages were recorded, an op waits for its input's producer itself."""
        for (kind, stage, microbatch), node in self.where.items():
            sources = {
                Kind.F: [(Kind.F, stage - 1)],
                Kind.B: [(Kind.B, stage + 1), (Kind.I, stage + 1)],
                Kind.I: [(Kind.B, stage + 1), (Kind.I, stage + 1)],
            }
            for source, where in sources.get(Kind(kind), []):
                if (producer := self.where.get((source, where, microbatch))) is not None:
                    self.before[node].add(producer)

    def _groups(self) -> tuple[list[tuple[int, ...]], list[int]]:
        lanes, labels = self.lanes, self.lanes.measured.labels
        together: list[tuple[int, ...]] = []
        wide: list[int] = []
        for node in np.flatnonzero(lanes.messages).tolist():
            kind, stage, microbatch = int(lanes.kind[node]), int(lanes.stage[node]), int(lanes.microbatch[node])
            if kind not in _SENDS:
                continue
            taker = (Kind.RECV_F, stage + 1) if kind == Kind.SEND_F else (Kind.RECV_B, stage - 1)
            if (receive := self.where.get((*taker, microbatch))) is not None:
                together.append((node, receive))
        last = lanes.measured.ranks - 1
        for label, each in enumerate(labels):
            mine = np.flatnonzero(lanes.label == label)
            if each.scope in (Scope.ALONE, Scope.PAIR) or not len(mine):
                continue
            for nodes in self._parties(mine, each.scope, last):
                if each.scope != Scope.REPLICAS or lanes.measured.replicas > 1:
                    if each.scope in (Scope.REPLICAS, Scope.ALL):
                        wide.append(len(together))
                    together.append(tuple(nodes))
        return together, wide

    def _parties(self, mine: np.ndarray, scope: Scope, last: int) -> list[list[int]]:
        """Who does these ops together: each rank by itself, or the n-th of all ranks (of the first and the last)."""
        if scope == Scope.REPLICAS:
            return [[int(node)] for node in mine]
        ranks = self.lanes.rank[mine]
        per_rank = [mine[ranks == rank].tolist() for rank in ((0, last) if scope == Scope.ENDS else range(last + 1))]
        rounds = max(map(len, per_rank))
        return [[nodes[n] for nodes in per_rank if n < len(nodes)] for n in range(rounds)]
