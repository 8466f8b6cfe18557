"""Random small plans in which much happens at once: short times, zeros, shared NICs, every way to send and to wait."""

from __future__ import annotations

import random
from typing import Any, Literal

from hypothesis import assume, reject
from hypothesis import strategies as st

import ppsim
from ppsim.analysis.specify import specify
from ppsim.errors import PpsimError
from ppsim.ops import Kind, Op, Ops, Orders, from_ops
from ppsim.ops.placement import Placement, loop, v_shape
from ppsim.plan import Plan, build, check
from ppsim.schedules import Problem, Schedule, known

Cell = Op | tuple[Op, ...]
Rows = list[list[Op]]


class Listed(Schedule):
    """An order as it is given."""

    name: Literal["listed"] = "listed"
    placed: Placement
    tables: tuple[Ops, ...]

    def placement(self, ranks: int) -> Placement:
        return self.placed

    def orders(self, problem: Problem) -> Orders:
        return Orders.of(self.tables)


@st.composite
def plans(draw: st.DrawFn, sharing: str = "queueing") -> Plan:
    """A plan whose messages share ports by that rule; some of them deadlock."""
    ranks, microbatches = draw(st.sampled_from([1, 2, 2, 3, 4, 4])), draw(st.integers(1, 4))
    schedule = draw(listed(ranks, microbatches) | st.sampled_from(sorted(known().keys() - {"file"})).map(_named))
    try:
        stages = schedule.placement(ranks).stages
        experiment = ppsim.Experiment(
            schedule=schedule,
            pipeline={"ranks": ranks, "microbatches": microbatches, **draw(pipelines(stages, microbatches))},
            costs=draw(costs(stages)),
            cluster={**draw(clusters(ranks)), "sharing": sharing},
            runtime=draw(runtimes()),
        )
        problem = experiment.problem()
        orders = check(schedule.orders(problem), problem)
        plan = build(orders, specify(experiment, problem))
    except PpsimError:  # sizes that the schedule can't do, settings that don't go together
        reject()
    assume(len(plan.ops) <= 200)
    return plan


def _named(name: str) -> Schedule:
    try:
        return known()[name]()
    except ValueError:  # it has settings without a default
        reject()


@st.composite
def listed(draw: st.DrawFn, ranks: int, microbatches: int) -> Schedule:
    """Ops in a random order that runs, or in one that is right on every rank but may deadlock between them."""
    placed = draw(st.sampled_from([loop(ranks), loop(ranks, 2), v_shape(ranks)]))
    dice = draw(st.randoms(use_true_random=False))
    rows = _random_rows(placed, microbatches, draw(st.booleans()), draw(st.sampled_from([0.0, 0.0, 0.2])), dice)
    style = draw(st.sampled_from(["plain", "plain", "messages", "moves", "pairs"]))
    cells: list[list[Cell]] = [list(row) for row in rows]
    if style == "messages":
        cells = [list(row) for row in _with_messages(rows, placed, dice)]
    elif style == "moves" and ranks > 1:
        cells = [list(_with_moves(row, rank, ranks, dice)) for rank, row in enumerate(rows)]
    elif style == "pairs":
        cells = [_with_pairs(row, dice) for row in rows]
    return Listed(placed=placed, tables=tuple(from_ops(row) for row in cells))


def _random_rows(placed: Placement, microbatches: int, halves: bool, disorder: float, dice: random.Random) -> Rows:
    backward = Kind.I if halves else Kind.B
    last = placed.stages - 1
    needs: dict[Op, list[Op]] = {}
    for stage in range(placed.stages):
        for k in range(microbatches):
            needs[Op(Kind.F, stage, k)] = [Op(Kind.F, stage - 1, k)] if stage else []
            needs[Op(backward, stage, k)] = [Op(Kind.F, stage, k)] + (
                [Op(backward, stage + 1, k)] if stage < last else []
            )
            if halves:
                needs[Op(Kind.W, stage, k)] = [Op(Kind.I, stage, k)]
    home = {stage: rank for rank, held in enumerate(placed.stages_of) for stage in held}
    rows: Rows = [[] for _ in placed.stages_of]
    done: set[Op] = set()
    while len(done) < len(needs):
        local = dice.random() < disorder  # then inputs from other ranks are ignored

        def may(op: Op, local: bool = local) -> bool:
            return all(need in done or (local and home[need.stage] != home[op.stage]) for need in needs[op])

        op = dice.choice([op for op in needs if op not in done and may(op)])
        done.add(op)
        rows[home[op.stage]].append(op)
    return rows


def _with_messages(rows: Rows, placed: Placement, dice: random.Random) -> Rows:
    """A SEND somewhere after each op whose output crosses ranks, a RECV somewhere before the op that takes it."""
    home = {stage: rank for rank, held in enumerate(placed.stages_of) for stage in held}
    out = [list(row) for row in rows]
    for row in rows:
        for op in row:
            if op.kind == Kind.W:
                continue
            forward = op.kind == Kind.F
            taker = op._replace(stage=op.stage + (1 if forward else -1))
            if home.get(taker.stage, home[op.stage]) == home[op.stage]:
                continue
            mine, theirs = out[home[op.stage]], out[home[taker.stage]]
            send = op._replace(kind=Kind.SEND_F if forward else Kind.SEND_B)
            receive = taker._replace(kind=Kind.RECV_F if forward else Kind.RECV_B)
            after, before = mine.index(op) + 1, theirs.index(taker)
            mine.insert(min(len(mine), after + dice.choice((0, 0, 0, 1, 3))), send)
            theirs.insert(max(0, before - dice.choice((0, 0, 0, 1, 3))), receive)
    return out


def _with_moves(row: list[Op], rank: int, ranks: int, dice: random.Random) -> list[Op]:
    """Some activations go to another rank after their forward and come back before their backward."""
    out = list(row)
    for op in row:
        if op.kind == Kind.F and dice.random() < 0.5:
            peer = dice.choice([r for r in range(ranks) if r != rank])
            backward = next(o for o in row if o.kind in (Kind.B, Kind.I) and o[1:3] == op[1:3])
            first, last = out.index(op) + 1, out.index(backward)
            load = dice.randint(first, last)
            out.insert(load, op._replace(kind=Kind.LOAD, peer=peer))
            out.insert(dice.randint(first, load), op._replace(kind=Kind.EVICT, peer=peer))
    return out


def _with_pairs(row: list[Op], dice: random.Random) -> list[Cell]:
    """Some neighbours F, B (or I) of different microbatches become a fused pair."""
    out: list[Cell] = []
    for op in row:
        before = out[-1] if out else None
        pairs = isinstance(before, Op) and before.kind == Kind.F and op.kind in (Kind.B, Kind.I)
        if pairs and isinstance(before, Op) and before.microbatch != op.microbatch and dice.random() < 0.7:
            out[-1] = (before, op)
        else:
            out.append(op)
    return out


def _some(unit: str, most: int) -> st.SearchStrategy[str]:
    return st.integers(0, most).map(lambda value: f"{value} {unit}")


@st.composite
def costs(draw: st.DrawFn, stages: int) -> dict[str, Any]:
    times = st.lists(_some("ns", 3), min_size=stages, max_size=stages) | _some("ns", 2)
    return {
        "per": "stage",
        "forward": draw(times),
        "input_grad": draw(times),
        "weight_grad": draw(times),
        "optimizer": draw(_some("ns", 2)),
        "activation": "3 B",
        "stage_input": "1 B",
        "weights": draw(_some("B", 3)),
        "message": draw(_some("B", 3)),
        "pair": draw(st.sampled_from(["atomic", "serial"])),
    }


@st.composite
def clusters(draw: st.DrawFn, ranks: int) -> dict[str, Any]:
    free, flight = st.just("free"), st.fixed_dictionaries({"latency": _some("ns", 2)})
    bandwidth = st.sampled_from(["1 GB/s", "3 GB/s"])
    ports = st.fixed_dictionaries({"bandwidth": bandwidth, "latency": _some("ns", 2), "overhead": _some("ns", 1)})
    contended = draw(st.booleans())

    def link() -> Any:
        return draw(ports if contended else free | flight | ports)

    found = {
        "ranks_per_node": draw(st.integers(1, 3)),
        "ranks_per_nic": draw(st.integers(1, 3)),
        "intra_node": link(),
        "inter_node": link(),
        "speed": [draw(st.sampled_from([1, 1, 2])) for _ in range(ranks)],
    }
    if ranks > 1 and draw(st.booleans()):
        found["links"] = [{"ranks": [0, ranks - 1], "bandwidth": "2 GB/s"}]
    return found


@st.composite
def pipelines(draw: st.DrawFn, stages: int, microbatches: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "steps": draw(st.sampled_from([1, 1, 2])),
        "recompute": draw(st.sampled_from(["none", "none", "full", "except_last"])),
        "recompute_when": draw(st.sampled_from(["early", "late"])),
        "data_parallel": draw(st.sampled_from([1, 1, 2])),
        "grad_bucket": draw(st.sampled_from(["1 B", "2 B"])),
        "batch_sync": draw(st.sampled_from([[], [], [], [stages - 1], "all"])),
    }
    if draw(st.booleans()):
        found["microbatch_weights"] = [draw(st.sampled_from([1, 2])) for _ in range(microbatches)]
    return found


@st.composite
def runtimes(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "send": draw(st.sampled_from(["overlapped", "overlapped", "overlapped", "blocking", "rendezvous"])),
        "p2p": draw(st.sampled_from(["separate", "separate", "separate", "fused"])),
        "eager_threshold": draw(_some("B", 2)),
        "op_overhead": draw(st.sampled_from(["0 ns", "0 ns", "1 ns"])),
        "grad_sync": draw(st.sampled_from(["end", "overlapped"])),
        "barrier": draw(st.booleans()),
        **draw(st.sampled_from([{}, {}, {"transport": "gloo", "receives": draw(st.sampled_from(["late", "early"]))}])),
    }
