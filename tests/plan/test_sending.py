"""Send modes: buffered, blocking and rendezvous sends; orders that list their sends and receives."""

from __future__ import annotations

from typing import Any

import pytest

from ppsim.errors import DeadlockError, ScheduleError
from ppsim.metrics import Run
from ppsim.schedules import Schedule
from tests.runs import listed, makespan_ms, row_of, simulated, span_ms
from tests.test_goldens import ASAP, LATE

# SimGrid, 1F1B and interleaved 1F1B with rendezvous sends (a transfer starts when its receiver posts): times per stage
# op F = 1, B = 2, and c on the wire for each hop, without latency. (p, m, v, c, makespan)
SIMGRID = [
    (2, 4, 1, "0.1", 15.5),
    (2, 4, 1, "0.5", 17.500001),
    (4, 4, 1, "0.1", 22.100001),
    (4, 4, 1, "0.5", 26.500003),
    (4, 8, 1, "0.1", 34.900001),
    (4, 8, 1, "0.5", 42.500005),
    (8, 64, 1, "0.1", 226.900007),
    (8, 64, 1, "0.5", 282.500033),
    (4, 8, 2, "0.1", 59.900001),
    (4, 8, 2, "0.5", 72.000008),
    (8, 32, 3, "0.1", 327.20001),
    (8, 32, 3, "0.5", 408.000048),
]
SIMGRID_LARGE = [
    (32, 512, 1, "0.1", 1737.300052),
    (32, 512, 1, "0.5", 2170.500258),
    (64, 1024, 1, "0.1", 3478.100104),
    (64, 1024, 1, "0.5", 4346.500518),
    (16, 256, 4, "0.1", 3322.400099),
    (16, 256, 4, "0.5", 4152.000494),
]


def hops(p: int, m: int, v: int, c: str, send: str) -> float:
    """The makespan where every hop takes c ms on the wire."""
    schedule: Any = {"name": "interleaved_1f1b", "virtual_stages": v} if v > 1 else "1f1b"
    link = {"bandwidth": f"{1 / float(c)} GB/s"}
    costs = {"message": "1 MB"}
    run = simulated(
        schedule, {"ranks": p, "microbatches": m}, costs=costs, cluster={"inter_node": link}, runtime={"send": send}
    )
    return makespan_ms(run)


@pytest.mark.parametrize(("p", "m", "v", "c", "expected"), SIMGRID)
def test_rendezvous_as_simgrid(p: int, m: int, v: int, c: str, expected: float) -> None:
    assert hops(p, m, v, c, "rendezvous") == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "m", "v", "c", "expected"), SIMGRID_LARGE)
def test_rendezvous_as_simgrid_at_scale(p: int, m: int, v: int, c: str, expected: float) -> None:
    assert hops(p, m, v, c, "rendezvous") == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("p", "m", "v", "c", "expected"), [(8, 64, 1, "0.1", 225.4), (8, 32, 3, "0.5", 332)])
def test_buffered_sends_are_faster(p: int, m: int, v: int, c: str, expected: float) -> None:
    """Where rendezvous gives 226.9 and 408.0: figures given with the task."""
    assert hops(p, m, v, c, "overlapped") == pytest.approx(expected)


def two_ranks(send: str, message: str = "1 MB", threshold: str = "0 B") -> Run:
    """GPipe with 2 ranks and 2 microbatches over a link of 1 GB/s: a message of 1 MB takes 1 ms."""
    return simulated(
        "gpipe", {"ranks": 2, "microbatches": 2}, costs={"message": message},
        cluster={"inter_node": {"bandwidth": "1 GB/s"}}, runtime={"send": send, "eager_threshold": threshold},
    )  # fmt: skip


def test_overlapped_sends_hold_nobody() -> None:
    """0F0 0-1, 0F1 1-2; their messages 1-2 and 2-3; 1F0 2-3, 1F1 3-4."""
    run = two_ranks("overlapped")
    assert [span_ms(run, op) for op in ("0F1", "1F0", "1F1")] == [(1, 2), (2, 3), (3, 4)]


def test_blocking_sends_hold_the_sender_until_the_message_has_left() -> None:
    """0F1 waits until 2; rank 1 likewise after 1B0 (4-6... its message leaves at 7), so that 1B1 runs 7-9."""
    run = two_ranks("blocking")
    assert [span_ms(run, op) for op in ("0F0", "0F1", "1F0", "1F1")] == [(0, 1), (2, 3), (2, 3), (4, 5)]
    assert [span_ms(run, op) for op in ("1B0", "1B1", "0B0", "0B1")] == [(5, 7), (8, 10), (8, 10), (11, 13)]


def test_blocking_waits_for_the_ports_not_for_the_flight() -> None:
    run = simulated(
        "gpipe", {"ranks": 2, "microbatches": 2}, costs={"message": "1 MB"}, runtime={"send": "blocking"},
        cluster={"inter_node": {"bandwidth": "1 GB/s", "latency": "5 ms"}},
    )  # fmt: skip
    assert [span_ms(run, op) for op in ("0F1", "1F0")] == [(2, 3), (7, 8)]


def test_rendezvous_starts_a_message_when_the_receiver_is_there() -> None:
    """Rank 1 is free at 0, so that 0F0's message goes at 1; 0F1's waits until 1F0 has ended, at 3, and arrives at 4.

    The sender never waits: 0F1 runs at 1. Back: 1B0 5-7, its message 7-8; 0B0 8-10, meanwhile 1B1 7-9, whose message
    waits for 0B0's end at 10 and arrives at 11; 0B1 11-13.
    """
    run = two_ranks("rendezvous")
    assert [span_ms(run, op) for op in ("0F1", "1F0", "1F1")] == [(1, 2), (2, 3), (4, 5)]
    assert [span_ms(run, op) for op in ("1B0", "1B1", "0B0", "0B1")] == [(5, 7), (7, 9), (8, 10), (11, 13)]


@pytest.mark.parametrize(("threshold", "as_mode"), [("999999 B", "rendezvous"), ("1 MB", "overlapped")])
def test_messages_up_to_the_threshold_are_buffered(threshold: str, as_mode: str) -> None:
    found, expected = two_ranks("rendezvous", threshold=threshold), two_ranks(as_mode)
    assert found.timeline.start.tolist() == expected.timeline.start.tolist()


def explicit(rows: tuple[str, ...], send: str = "overlapped", m: int = 2, **settings: Any) -> Run:
    pipeline = {"ranks": len(rows), "microbatches": m}
    return simulated(listed(*rows), pipeline, runtime={"send": send}, **settings)


@pytest.mark.parametrize(("rows", "expected"), [(ASAP, 21), (LATE, 15)])
def test_a_receive_that_is_posted_too_early_holds_its_rank(rows: tuple[str, ...], expected: int) -> None:
    """public question D11 (pytorch/pytorch#172668): 21 where RECVs stand as early as they can, 15 right before their use."""
    assert makespan_ms(explicit(rows)) == expected


def test_early_receives_meet_their_senders_and_late_ones_do_not() -> None:
    """Under rendezvous D11's early order runs as before; the late one has both ranks sending at each other."""
    assert makespan_ms(explicit(ASAP, "rendezvous")) == 21
    with pytest.raises(DeadlockError, match="the cycle: rank 0 at 0SEND_F1 waits for 1RECV_F1"):
        explicit(LATE, "rendezvous")


SEND_SEND = (
    "0F0 0SEND_F0 0F1 0SEND_F1 2RECV_F0 2F0 2SEND_F0 2RECV_F1 2F1 2SEND_F1",
    "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 3RECV_F0 3F0 3RECV_F1 3F1",
)


def test_send_send_completes_with_buffers() -> None:
    """public question D12. 0F0 0-1, 0F1 1-2; 1F0 1-2, 1F1 2-3; 2F0 2-3, 2F1 3-4; 3F0 3-4, 3F1 4-5."""
    assert makespan_ms(explicit(SEND_SEND)) == 5


def test_send_send_deadlocks_without_buffers() -> None:
    """public question D12: rank 0 sends before it receives what rank 1 sends, and the other way round."""
    with pytest.raises(DeadlockError) as caught:
        explicit(SEND_SEND, "rendezvous")
    assert str(caught.value).splitlines() == [
        "deadlock: 2 of 2 ranks wait for ever",
        "  rank 0 at 0SEND_F1 waits for 1RECV_F1",
        "  rank 1 at 1SEND_F0 waits for 2RECV_F0",
        "the cycle: rank 0 at 0SEND_F1 waits for 1RECV_F1; rank 1 at 1SEND_F0 waits for 2RECV_F0",
    ]


ONE_MESSAGE = ("0F0 0SEND_F0 0F1 0SEND_F1", "1RECV_F0 1F0 1RECV_F1 1F1")
SLOW = {"costs": {"message": "3 MB"}, "cluster": {"inter_node": {"bandwidth": "1 GB/s", "latency": "1 ms"}}}


@pytest.mark.parametrize(
    ("send", "sends", "receives"),
    [
        # F 0-1, the message 1-4 on the ports and there at 5; the second, ready at 2, goes 4-7 and is there at 8.
        ("overlapped", [(1, 1), (2, 2)], [(0, 5), (6, 8)]),
        # SEND ends when the message has left, at 4; then F 4-5, the message 5-8, there at 9.
        ("blocking", [(1, 4), (5, 8)], [(0, 5), (6, 9)]),
        # The second message waits until its RECV is reached, at 6: 6-9, there at 10.
        ("rendezvous", [(1, 4), (5, 9)], [(0, 5), (6, 10)]),
    ],
)
def test_when_a_send_and_a_receive_end(
    send: str, sends: list[tuple[int, int]], receives: list[tuple[int, int]]
) -> None:
    run = explicit(ONE_MESSAGE, send, **SLOW)
    assert [span_ms(run, op) for op in ("0SEND_F0", "0SEND_F1")] == sends
    assert [span_ms(run, op) for op in ("1RECV_F0", "1RECV_F1")] == receives


def test_gradient_sync_may_be_listed_too() -> None:
    """REDUCE_GRAD in an order runs where it stands, here before the other stage's last backward."""
    rows = ("0F0 2F0 2B0 2REDUCE_GRAD 0B0 0REDUCE_GRAD", "1F0 3F0 3B0 1B0 1REDUCE_GRAD 3REDUCE_GRAD")
    run = simulated(
        listed(*rows), {"ranks": 2, "microbatches": 1, "data_parallel": 2}, costs={"weights": "4 MB"},
        cluster={"ranks_per_node": 2, "intra_node": "free", "inter_node": {"bandwidth": "1 GB/s"}},
    )  # fmt: skip
    # 2B0 ends at 8 (F's 4, B's 2 each); 2·1/2·4 MB take 4; 1B0 ends at 10, but 0B0 waits for the sync until 12.
    assert [span_ms(run, op) for op in ("2REDUCE_GRAD", "0B0", "0REDUCE_GRAD")] == [(8, 12), (12, 14), (14, 18)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            ("0F0 0F1 0B0 0REDUCE_GRAD 0B1",),
            "listed: row 1, column 4 (rank 0): 0REDUCE_GRAD before 0B1, whose gradient it sums",
        ),
        (
            ("0F0 0F1 0B0 0B1 0REDUCE_GRAD 0REDUCE_GRAD",),
            "listed: row 1, column 6 (rank 0): 0REDUCE_GRAD stands at row 1, column 5 (rank 0), too",
        ),
        (
            ("0F0 0F1 0B0 0B1 0OPTIM 0REDUCE_GRAD",),
            "listed: row 1, column 5 (rank 0): 0OPTIM before 0REDUCE_GRAD, whose gradient it needs",
        ),
    ],
)
def test_what_ends_a_step_stands_after_its_gradients(rows: tuple[str, ...], message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        explicit(rows)
    assert str(caught.value) == message


def test_a_deadlocked_schedule_is_one_however_it_is_sent() -> None:
    """Stuck ops that wait for compute are named with what they wait for, also where the order lists no sends."""
    wrong: Schedule = listed("0F0 0B0 0F1 0B1", "1F1 1B1 1F0 1B0")
    with pytest.raises(DeadlockError, match="rank 0 at 0B0 waits for 1B0") as caught:
        simulated(wrong, {"ranks": 2, "microbatches": 2})
    assert "the cycle: rank 0 at 0B0 waits for 1B0; rank 1 at 1F1 waits for 0F1" in str(caught.value)


def test_rows_by_name() -> None:
    run = two_ranks("overlapped")
    assert str(run.plan.ops[row_of(run, "1B0")]) == "1B0"
