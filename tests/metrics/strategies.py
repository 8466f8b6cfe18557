"""Random small experiments, of every feature that makes a rank wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from ppsim.errors import DeadlockError
from ppsim.metrics import Run
from ppsim.ops import Kind, Op, Ops, Orders, from_ops
from ppsim.schedules import Batched, Problem, Schedule, known
from tests.metrics.executed import executed

PLAIN = ("1f1b", "gpipe", "eager_1f1b", "interleaved_1f1b", "naive")
OTHERS = ("bpipe", "chimera", "dualpipe", "dualpipev", "forward_only", "pipedream", "seq1f1b", "zbv")
"""Moves, two directions, fused pairs, split backwards, no flush, no backwards, slices."""


class Listed(Schedule):
    """Another schedule's order with each SEND so many ops after its producer, each RECV so many before its consumer."""

    name: str = "listed"
    of: str
    send_after: int = 0
    recv_before: int = 0

    def placement(self, ranks: int) -> Any:
        return known()[self.of]().placement(ranks)

    def orders(self, problem: Problem) -> Orders:
        plain = known()[self.of]().orders(problem)
        home = {op: rank for rank, table in enumerate(plain) for op in table}
        return Orders.of([self._rank(table, rank, home) for rank, table in enumerate(plain)])

    def _rank(self, table: Ops, rank: int, home: dict[Op, int]) -> Ops:
        listed: list[tuple[float, int, Op]] = []
        for place, op in enumerate(table):
            up = 1 if op.kind == Kind.F else -1
            send, receive = (Kind.SEND_F, Kind.RECV_F) if up == 1 else (Kind.SEND_B, Kind.RECV_B)
            listed.append((place, 1, op))
            if home.get(op._replace(stage=op.stage + up), rank) != rank:
                listed.append((min(place + self.send_after, len(table)) + 0.5, 0, op._replace(kind=send)))
            if home.get(op._replace(stage=op.stage - up), rank) != rank:
                listed.append((max(place - self.recv_before, 0) - 0.5, 0, op._replace(kind=receive)))
        return from_ops(op for _, _, op in sorted(listed, key=lambda item: item[:2]))


class Moving(Schedule):
    """1F1B in which each rank but the last sends some activations to the next one, and back."""

    name: str = "moving"
    moved: tuple[int, ...]

    def orders(self, problem: Problem) -> Orders:
        plain = known()["1f1b"]().orders(problem)
        return Orders.of([self._rank(table, (rank + 1) % problem.ranks) for rank, table in enumerate(plain)])

    def _rank(self, table: Ops, peer: int) -> Ops:
        listed: list[Op] = []
        for op in table:
            moved = op.microbatch in self.moved and peer != 0
            if moved and op.kind == Kind.B:
                listed.append(Op(Kind.LOAD, op.stage, op.microbatch, 0, peer))
            listed.append(op)
            if moved and op.kind == Kind.F:
                listed.append(Op(Kind.EVICT, op.stage, op.microbatch, 0, peer))
        return from_ops(listed)


@dataclass(frozen=True)
class Case:
    """What ``executed`` takes; ``latency`` of all links in ns."""

    schedule: Schedule
    ranks: int
    microbatches: int
    latency: int
    fused: bool
    link: dict[str, Any]
    nodes: dict[str, Any]
    sections: dict[str, Any]

    def run(self, latency: int | None = None) -> Run:
        """Simulated; a deadlock is no case."""
        flight = f"{self.latency if latency is None else latency} ns"
        cluster = {**self.nodes, "inter_node": {**self.link, "latency": flight}}
        if "ranks_per_node" in self.nodes:
            cluster["intra_node"] = {"latency": flight}
        try:
            return executed(self.schedule, self.ranks, self.microbatches, cluster=cluster, **self.sections)
        except DeadlockError:
            assume(False)
            raise


@st.composite
def cases(draw: st.DrawFn, ports: bool = True) -> Case:
    """Schedules, listed sends, moves, steps, barriers, replicas, recomputation; unequal costs of 0 to 6 ns."""
    ranks, microbatches = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    name = draw(st.sampled_from(PLAIN))
    how = draw(st.sampled_from(["plain", "listed", "moving", "other"]))
    if how == "listed":
        near = st.integers(0, 2)
        schedule: Schedule = Listed(of=name, send_after=draw(near), recv_before=draw(near))
    elif how == "moving":
        schedule = Moving(moved=tuple(sorted(draw(st.sets(st.integers(0, 4), min_size=1)))))
    else:
        schedule = known()[draw(st.sampled_from(OTHERS)) if how == "other" else name]()
    if schedule.name in ("chimera", "dualpipe", "dualpipev"):
        ranks = draw(st.sampled_from([2, 4]))
        microbatches = 2 * ranks
    fused = isinstance(schedule, Batched) and draw(st.booleans())
    small = st.integers(0, 6)

    def per_stage(unit: str) -> list[str]:
        return [f"{draw(small)} {unit}" for _ in range(schedule.placement(ranks).stages)]

    costs = {
        "forward": per_stage("ns"),
        "input_grad": per_stage("ns"),
        "weight_grad": per_stage("ns"),
        "message": per_stage("B"),
        "activation": per_stage("B"),
        "weights": per_stage("B"),
        "optimizer": f"{draw(small)} ns",
    }
    flushes = not schedule.asynchronous
    pipeline = {
        "steps": draw(st.integers(1, 2)),
        "data_parallel": draw(st.integers(1, 2)) if flushes else 1,
        "grad_bucket": "3 B",
        "recompute": draw(st.sampled_from(["none", "full", "except_last"])),
        "recompute_when": draw(st.sampled_from(["early", "late"])),
        "batch_sync": draw(st.sampled_from([[], [], [0]])) if flushes else [],
    }
    runtime = {
        "send": "overlapped" if fused else draw(st.sampled_from(["overlapped", "blocking", "rendezvous"])),
        "p2p": "fused" if fused else "separate",
        "eager_threshold": draw(st.sampled_from(["0 B", "3 B"])),
        "grad_sync": draw(st.sampled_from(["end", "overlapped"])),
        "barrier": draw(st.booleans()),
    }
    link = {"bandwidth": "1 GB/s", "overhead": f"{draw(st.integers(0, 1))} ns"} if ports and draw(st.booleans()) else {}
    nodes = {"ranks_per_node": 2, "ranks_per_nic": 2} if draw(st.booleans()) else {}
    if nodes and draw(st.booleans()):
        nodes["placement"] = [*range(0, ranks, 2), *range(1, ranks, 2)]
    sections = {"costs": costs, "pipeline": pipeline, "runtime": runtime}
    return Case(schedule, ranks, microbatches, draw(st.integers(0, 3)), fused, link, nodes, sections)
