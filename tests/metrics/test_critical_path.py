"""The chain that determines the makespan, on timelines worked out by hand, and what must hold for any."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from ppsim import metrics
from ppsim.metrics import Run
from ppsim.metrics import critical_path as critical
from ppsim.metrics.critical_path import Path, critical_path
from ppsim.ops.placement import Placement, loop
from ppsim.schedules import known
from tests import reference
from tests.metrics.executed import Rows, executed
from tests.metrics.strategies import Case, cases
from tests.metrics.test_waits import contended

GB = "1 GB/s"


def names(run: Run) -> list[str]:
    """The path's links in words: '0F0' an op, '0F0>' a transfer of its output."""
    path = run.once(critical_path)
    producer = run.plan.transfers.producer
    return [
        str(run.plan.ops[row]) if row >= 0 else f"{run.plan.ops[int(producer[transfer])]}>"
        for row, transfer in zip(path.row.tolist(), path.transfer.tolist(), strict=True)
    ]


def kinds(run: Run) -> dict[str, int]:
    """Ns by kind, those that take any."""
    return {name: ns for name, ns in critical.by_kind(run).items() if ns}


def flights(run: Run) -> int:
    return run.once(critical_path).flights


def check_gapless(run: Run, path: Path) -> None:
    makespan = run.timeline.makespan
    assert [0, *path.end.tolist()] == [*path.start.tolist(), makespan]
    assert sum(critical.by_kind(run).values()) == makespan
    of_transfer = path.occupancy + path.latency + path.queue
    assert np.array_equal(np.where(path.transfer >= 0, path.end - path.start, 0), of_transfer)
    assert np.all((path.row >= 0) != (path.transfer >= 0))


def test_free_links() -> None:
    # 0F0 0-10, 1F0 10-20, 1B0 20-40, 1F1 40-50, 1B1 50-70, 0B1 70-90: rank 1 is never idle in between.
    run = executed("1f1b", 2, 2)
    assert names(run) == ["0F0", "0F0>", "1F0", "1B0", "1F1", "1B1", "1B1>", "0B1"]
    assert kinds(run) == {"F": 30, "B": 60}
    assert flights(run) == 2  # a message on a free link counts


def test_queue_goes_through_what_held_the_port() -> None:
    # 1F2's message was ready at 105 and left 110-125, when that of 1B0 (95-110) had left the port: its 15 ns are queue.
    run = contended()
    assert names(run) == [
        "0F0", "0F0>", "1F0", "1F0>", "2F0", "2B0", "2B0>", "1B0", "1B0>", "1F2>", "2F2", "2B2", "2B2>", "1B2", "1B2>",
        "0B2",
    ]  # fmt: skip
    # F: 0F0 1F0 2F0 2F2; B: 2B0 1B0 2B2 1B2 0B2; six messages of 15 ns, and the one in the way.
    assert kinds(run) == {"F": 40, "B": 50, "transfer": 90, "queue": 15}
    assert flights(run) == 6  # not that of 1B0's message: 1F2's doesn't wait for its flight
    path = run.once(critical_path)
    assert path.queue.tolist()[8] == 15
    assert (path.occupancy.tolist()[8], path.latency.tolist()[8]) == (0, 0)


def test_message_of_no_bytes_at_a_port() -> None:
    # Stages 0 to 3 on ranks 2, 1, 0, 3; ranks 0 and 2 share a NIC, which only the messages of stage 2 hold: 25 ns.
    # 0F0 0-10, 1F0 10-11, 2F0 11-23, its message 23-48. 0F2 ends at 30, 2F1 (23-35) at 35: the former is ready first,
    # leaves at 48 in no time, then 2F1's message 48-73. 2F2 49-61, its message 73-98, 3F2 98-99.
    class Shuffled(Rows):
        def placement(self, ranks: int) -> Placement:
            return Placement("shuffled", ((2,), (1,), (0,), (3,)))

    run = executed(
        Shuffled(rows=("2F0 2F1 2F2", "1F0 1F1 1F2", "0F0 0F1 0F2", "3F0 3F1 3F2")), 4, 3,
        costs={"forward": ["10 ns", "1 ns", "12 ns", "1 ns"], "message": ["0 B", "0 B", "25 B", "0 B"]},
        cluster={
            "ranks_per_node": 2, "ranks_per_nic": 2, "placement": [0, 2, 1, 3],
            "intra_node": "free", "inter_node": {"bandwidth": GB},
        },
    )  # fmt: skip
    assert names(run) == ["0F0", "0F0>", "1F0", "1F0>", "2F0", "2F0>", "0F2>", "2F1>", "2F2>", "3F2"]
    assert kinds(run) == {"F": 10 + 1 + 12 + 1, "queue": 25 + 25, "transfer": 25}
    assert flights(run) == 3


def test_blocking_send() -> None:
    # 0F0 0-10, message 10-15, 1F0 15-25, 1B0 25-45, whose message holds rank 1 until 50; 1F1 50-60, 1B1 60-80 (80-85).
    run = executed("1f1b", 2, 2, costs={"message": "5 B"}, link={"bandwidth": GB}, runtime={"send": "blocking"})
    assert names(run) == ["0F0", "0F0>", "1F0", "1B0", "1B0>", "1F1", "1B1", "1B1>", "0B1"]
    assert kinds(run) == {"F": 30, "B": 60, "transfer": 15}
    assert flights(run) == 2  # rank 1 waits until 1B0's message has left, not until it has arrived


def test_rendezvous() -> None:
    # 0F1 has ended at 20, but its message waits for its receiver, until 1B0 has ended at 45.
    run = executed("1f1b", 2, 2, costs={"message": "5 B"}, link={"bandwidth": GB}, runtime={"send": "rendezvous"})
    assert names(run) == ["0F0", "0F0>", "1F0", "1B0", "0F1>", "1F1", "1B1", "1B1>", "0B1"]
    assert kinds(run) == {"F": 30, "B": 60, "transfer": 15}
    assert flights(run) == 3


def test_listed_send_and_recv() -> None:
    # SEND and RECV take no time of their own: 0F0 10, message 5 + 2, 1F0 10, 1B0 20, message 5 + 2, 0B0 20.
    rows = Rows(rows=("0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"))
    run = executed(rows, 2, 1, costs={"message": "5 B"}, link={"bandwidth": GB, "latency": "2 ns"})
    assert names(run) == ["0F0", "0F0>", "1F0", "1B0", "1B0>", "0B0"]
    assert kinds(run) == {"F": 20, "B": 40, "transfer": 10, "latency": 4}


def test_gradient_sync_and_optimizer() -> None:
    # 0F0 10, flight 2, 1F0 10, 1B0 20, flight 2, 0B0 20, bucket 8 + 2, OPTIM 7.
    run = executed(
        "gpipe", 2, 1, pipeline={"data_parallel": 2}, costs={"weights": "8 B", "optimizer": "7 ns"},
        link={"bandwidth": GB, "latency": "2 ns"},
    )  # fmt: skip
    assert names(run) == ["0F0", "0F0>", "1F0", "1B0", "1B0>", "0B0", "0REDUCE_GRAD>", "0OPTIM"]
    assert kinds(run) == {"F": 20, "B": 40, "OPTIM": 7, "transfer": 8, "latency": 6}


def test_barrier_passes_the_path_to_the_slowest_rank() -> None:
    # Each step ends with 0B0 (40-60); both ranks start the next one then, and the path starts over at rank 0's forward.
    run = executed("gpipe", 2, 1, pipeline={"steps": 2})
    step = ["0F0", "0F0>", "1F0", "1B0", "1B0>", "0B0", "0OPTIM"]
    assert names(run) == step + [f"{name[:-1]}@1>" if name.endswith(">") else f"{name}@1" for name in step]


def test_moves() -> None:
    # 50 bytes to rank 1 and back, 10-60-110, then the backward.
    rows = Rows(rows=("0F0 0EVICT0>1 0LOAD0<1 0B0", "1F0 1B0"))
    run = executed(rows, 2, 1, costs={"activation": "50 B"}, link={"bandwidth": GB})
    assert names(run) == ["0F0", "0EVICT0>1>", "0LOAD0<1>", "0B0"]
    assert kinds(run) == {"F": 10, "B": 20, "transfer": 100}


def test_recomputation() -> None:
    # Early: rank 1's chain 1F0 1R0 1B0 1F1 1R1 1B1, then 0B1.
    run = executed("1f1b", 2, 2, pipeline={"recompute": "full"})
    assert kinds(run) == {"F": 10 + 20, "R": 20, "B": 40 + 20}


def test_fused_pair_is_one_link() -> None:
    # One rank with both stages: 0F0 1F0 (1B0 with 0F1 as a pair of 10 + 20) 0B0 1F1 1B1 0B1: always busy.
    class Pair(Rows):
        def placement(self, ranks: int) -> Placement:
            return loop(ranks, 2)

    run = executed(Pair(rows=("0F0 1F0 (0F1;1B0)OVERLAP_F_B 0B0 1F1 1B1 0B1",)), 1, 2)
    assert names(run) == ["0F0", "1F0", "0F1", "0B0", "1F1", "1B1", "0B1"]
    assert critical.by_kind(run) == {"F": 30, "OVERLAP_F_B": 30, "B": 60}


def test_metric() -> None:
    found = metrics.known("run")["critical_path"].of(executed("1f1b", 2, 2))
    assert found == {"by_kind_s": {"F": 30e-9, "B": 60e-9, "transfer": 0, "latency": 0, "queue": 0}, "flights": 2}


@pytest.mark.parametrize(
    ("schedule", "p", "m", "expected", "reason"),
    [
        ("gpipe", 4, 16, 6, "fill and drain only: 2 (p-1)"),
        ("eager_1f1b", 4, 64, 6, "the longer warm-up hides all others"),
        ("naive", 4, 5, 30, "every microbatch goes up and down by itself: 2 (p-1) m"),
        ({"name": "interleaved_1f1b", "virtual_stages": 2}, 4, 8, 14, "up and down through all stages: 2 (pv-1)"),
        ("1f1b", 4, 64, 100, "F = 1, B = 2: 211.0 with a latency of 0.1, 201 without: (211 - 201) / 0.1"),
    ],
)
@pytest.mark.parametrize("latency", [0, 1])
def test_flights(schedule: Any, p: int, m: int, expected: int, reason: str, latency: int) -> None:
    # On free links, too, the path takes the input where the rank's own order would do as well, so that its flights are
    # what the first nanosecond of latency costs.
    run = executed(schedule, p, m, link={"latency": f"{latency} ns"})
    assert flights(run) == expected, reason
    assert run.problem is not None
    chosen = {"name": schedule} if isinstance(schedule, str) else schedule
    rows = list(known()[chosen["name"]](**chosen).orders(run.problem))
    with_less, with_more = (reference.makespan(rows, {"F": 10, "B": 20}, c) for c in (latency, latency + 1))
    assert with_less is not None
    assert with_more is not None
    assert flights(run) == with_more - with_less


@given(cases())
@settings(max_examples=50, deadline=None)
def test_gapless(case: Case) -> None:
    run = case.run()
    check_gapless(run, run.once(critical_path))


@given(cases(ports=False))
@settings(max_examples=40, deadline=None)
def test_flights_are_the_slope_of_the_makespan(case: Case) -> None:
    """Without ports all times are sums and maxima, so the makespan is convex and piecewise linear in the latency.

    A critical path's flights are a slope between the one to the left and the one to the right; where these agree, the
    flights are the derivative.
    """
    latency = case.latency + 1
    before, here, after = (case.run(latency=latency + change) for change in (-1, 0, 1))
    left = here.timeline.makespan - before.timeline.makespan
    right = after.timeline.makespan - here.timeline.makespan
    assert left <= flights(here) <= right
