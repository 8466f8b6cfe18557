"""Megatron's fused sends and receives, against a second program that runs its calls one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppsim.errors import ConfigError
from ppsim.schedules.interleaved_1f1b import default_group, group_table
from tests.runs import makespan_ms, simulated, span_ms

Call = tuple[str, Any]
"""('run', op) or ('batch', messages): an op is (kind, stage, microbatch), a message (op that made it)."""
Op = tuple[str, int, int]


def calls_1f1b(p: int, m: int, rank: int) -> Iterator[Call]:
    """Warm-up {recv F}, F, {send F}; {recv F}; pairs F, {send F, recv B}, B, {send B, recv next F}; then {recv B}, B,
    {send B}.
    """
    warm = min(p - rank - 1, m)
    receive_f = [[("F", rank - 1, k)] if rank > 0 else [] for k in range(m)]
    receive_b = [[("B", rank + 1, k)] if rank < p - 1 else [] for k in range(m)]
    send_f = [[("F", rank, k)] if rank < p - 1 else [] for k in range(m)]
    send_b = [[("B", rank, k)] if rank > 0 else [] for k in range(m)]
    for k in range(warm):
        yield "batch", receive_f[k]
        yield "run", ("F", rank, k)
        yield "batch", send_f[k]
    if warm < m:
        yield "batch", receive_f[warm]
    for k in range(warm, m):
        back = k - warm
        yield "run", ("F", rank, k)
        yield "batch", send_f[k] + receive_b[back]
        yield "run", ("B", rank, back)
        yield "batch", send_b[back] + (receive_f[k + 1] if k + 1 < m else [])
    for back in range(m - warm, m):
        yield "batch", receive_b[back]
        yield "run", ("B", rank, back)
        yield "batch", send_b[back]


def calls_interleaved(p: int, m: int, v: int, rank: int) -> Iterator[Call]:
    """{recv first F}; warm-up F {send F, recv next F}, the last also recv first B; pairs F, B {all}; B {send, recv}.

    Where all forwards are warm-up, the first backward's gradient is received after the last forward's output is sent.
    The rank that leads (0 for forwards, p - 1 for backwards) is p - 1 turns ahead of the one that feeds it: after its
    turn k it receives what that one made in its turn k - (p - 1), which is its next input where groups have p.
    """
    last = p * v - 1
    group = default_group(p, m)
    chunk, microbatch = (column.tolist() for column in group_table(m, v, group))
    forward = [("F", c * p + rank, k) for c, k in zip(chunk, microbatch, strict=True)]
    backward = [("B", (v - 1 - c) * p + rank, k) for c, k in zip(chunk, microbatch, strict=True)]
    total = len(forward)
    warm = min(2 * (p - rank - 1) + (v - 1) * group, total)

    def receive(ops: list[Op], index: int) -> list[Op]:
        kind, leads = ops[0][0], rank == (0 if ops[0][0] == "F" else p - 1)
        if leads and index > 0:
            fed = index - 1 - (min(p, group) - 1)
            if fed < 0 or chunk[fed] == v - 1:
                return []
            feeder = (p - 1 if kind == "F" else 0) + p * (chunk[fed] if kind == "F" else v - 1 - chunk[fed])
            return [(kind, feeder, microbatch[fed])]
        if index >= total:
            return []
        kind, stage, k = ops[index]
        source = stage - 1 if kind == "F" else stage + 1
        return [(kind, source, k)] if 0 <= source <= last else []

    def send(op: Op) -> list[Op]:
        target = op[1] + 1 if op[0] == "F" else op[1] - 1
        return [op] if 0 <= target <= last else []

    yield "batch", receive(forward, 0)
    for k in range(warm):
        yield "run", forward[k]
        also = receive(backward, 0) if k == warm - 1 and warm < total else []
        yield "batch", send(forward[k]) + receive(forward, k + 1) + also
    if warm == total:
        yield "batch", receive(backward, 0)
    for k in range(warm, total):
        back = k - warm
        yield "run", forward[k]
        yield "run", backward[back]
        yield "batch", send(forward[k]) + send(backward[back]) + receive(forward, k + 1) + receive(backward, back + 1)
    for back in range(total - warm, total):
        yield "run", backward[back]
        yield "batch", send(backward[back]) + receive(backward, back + 1)


def start_times(programs: list[list[Call]], time: dict[tuple[str, int], int], latency: int) -> dict[Op, int]:
    """When each op starts: a batch is over when its messages have arrived; each leaves when both ranks are there."""
    both: dict[Op, list[tuple[int, int]]] = {}
    for rank, program in enumerate(programs):
        for index, (what, messages) in enumerate(program):
            for message in messages if what == "batch" else ():
                both.setdefault(message, []).append((rank, index))
    begin: dict[tuple[int, int], int] = {}
    position, clock = [0] * len(programs), [0] * len(programs)
    ops: dict[Op, int] = {}
    moved = True
    while moved:
        moved = False
        for rank, program in enumerate(programs):
            while position[rank] < len(program):
                here = rank, position[rank]
                what, content = program[position[rank]]
                begin.setdefault(here, clock[rank])
                if what == "run":
                    ops[content] = clock[rank]
                    clock[rank] += time[content[0], content[1]]
                else:
                    if not all(side in begin for message in content for side in both[message]):
                        break
                    arrivals = [max(begin[side] for side in both[message]) + latency for message in content]
                    clock[rank] = max([clock[rank], *arrivals])
                position[rank] += 1
                moved = True
    assert all(len(sides) == 2 for sides in both.values())
    assert position == [len(program) for program in programs]
    return ops


Case = tuple[int, int, int, int, dict[tuple[str, int], int]]
"""p, m, v, latency and the time of each (kind, stage)."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    v = draw(st.integers(1, 3))
    p = draw(st.integers(1 if v == 1 else 2, 5))
    times = {(kind, s): draw(st.integers(0, 5)) for kind in "FB" for s in range(p * v)}
    return p, draw(st.integers(1, 13)), v, draw(st.integers(0, 4)), times


@settings(max_examples=150, deadline=None)
@given(cases())
def test_every_op_starts_when_megatrons_calls_let_it(case: Case) -> None:
    p, m, v, latency, times = case
    if v == 1:
        schedule: Any = "1f1b"
        programs = [list(calls_1f1b(p, m, rank)) for rank in range(p)]
    else:
        schedule = {"name": "interleaved_1f1b", "virtual_stages": v}
        programs = [list(calls_interleaved(p, m, v, rank)) for rank in range(p)]
    costs = {key: [f"{times[kind, s]} ms" for s in range(p * v)] for key, kind in (("forward", "F"), ("backward", "B"))}
    run = simulated(
        schedule, {"ranks": p, "microbatches": m}, costs=costs, runtime={"p2p": "fused"},
        cluster={"inter_node": {"latency": f"{latency} ms"}},
    )  # fmt: skip
    expected = start_times(programs, times, latency)
    plan = run.plan
    found = {
        ("FB"[int(plan.ops.kind[i])], int(plan.ops.stage[i]), int(plan.ops.microbatch[i])): int(run.timeline.start[i])
        // 10**6
        for i in range(len(plan.ops))
    }
    assert found == expected


@pytest.mark.parametrize(
    ("p2p", "latency", "expected"), [("separate", 0, 213), ("separate", 250, 220.5), ("fused", 250, 234.25)]
)
def test_interleaved_pays_more_for_latency_where_batches_wait(p2p: str, latency: int, expected: float) -> None:
    """p=8, m=32, v=2, F=1, B=2 per stage op: 3(mv + p - 1) = 213; + 2c(pv - 1) asynchronous; fused as the task says."""
    run = simulated(
        {"name": "interleaved_1f1b", "virtual_stages": 2}, {"ranks": 8, "microbatches": 32},
        cluster={"inter_node": {"latency": f"{latency} us"}}, runtime={"p2p": p2p},
    )  # fmt: skip
    assert makespan_ms(run) == expected


def test_a_batch_holds_both_of_its_ranks() -> None:
    """p=2, m=2, F=1, B=2, a flight of 1. Rank 0: F0, {send F0} 1-2, F1 2-3, {send F1, recv B0} from 3.

    Rank 1: {recv F0} until 2, F0 2-3, B0 3-5, {send B0, recv F1} from 5: both messages arrive at 6, for both ranks.
    """
    link = {"inter_node": {"latency": "1 ms"}}
    run = simulated("1f1b", {"ranks": 2, "microbatches": 2}, cluster=link, runtime={"p2p": "fused"})
    assert [span_ms(run, op) for op in ("0F1", "1F0", "1B0")] == [(2, 3), (2, 3), (3, 5)]
    assert [span_ms(run, op) for op in ("0B0", "1F1")] == [(6, 8), (6, 7)]


def test_steps_repeat_and_an_overlapped_sync_does_not_split_a_batch() -> None:
    """Two steps with a barrier take twice one, and the overlapped sync of a stage stands between two backwards."""
    schedule = {"name": "interleaved_1f1b", "virtual_stages": 2}
    link = {"cluster": {"inter_node": {"latency": "250 us"}}}
    one = simulated(schedule, {"ranks": 4, "microbatches": 8}, runtime={"p2p": "fused"}, **link)
    runtime = {"p2p": "fused", "grad_sync": "overlapped"}
    pipeline = {"ranks": 4, "microbatches": 8, "data_parallel": 2}
    synced = simulated(schedule, pipeline, runtime=runtime, costs={"weights": "0 B"}, **link)
    two = simulated(schedule, {"ranks": 4, "microbatches": 8, "steps": 2}, runtime={"p2p": "fused"}, **link)
    assert makespan_ms(two) == 2 * makespan_ms(one)
    # The empty bucket of the last stage still flies for 0.25 ms before the optimizer may run.
    assert makespan_ms(synced) == makespan_ms(one) + 0.25


@pytest.mark.parametrize(
    ("schedule", "runtime", "message"),
    [
        (
            "gpipe",
            {"p2p": "fused"},
            "runtime.p2p: no framework fuses the sends and receives of 'gpipe'; 'separate' works, or another schedule: "
            "1f1b, interleaved_1f1b",
        ),
        (
            {"name": "interleaved_1f1b", "combined": True},
            {"p2p": "fused"},
            "runtime.p2p: no framework fuses the sends and receives of 'interleaved_1f1b' in this form; 'separate' "
            "works, or another schedule: 1f1b, interleaved_1f1b",
        ),
        (
            "1f1b",
            {"p2p": "fused", "send": "blocking"},
            "runtime.send: 'blocking' contradicts p2p: fused, whose batches themselves wait for both sides; leave one "
            "of them out",
        ),
        (
            "1f1b",
            {"preset": "megatron", "send": "rendezvous"},
            "runtime.send: 'rendezvous' contradicts p2p: fused, whose batches themselves wait for both sides; leave "
            "one of them out",
        ),
    ],
)
def test_what_cannot_be_fused_is_an_error(schedule: Any, runtime: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        simulated(schedule, {"ranks": 4, "microbatches": 8}, runtime=runtime)
    assert str(caught.value) == message
