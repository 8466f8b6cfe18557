"""Why ranks are idle, on timelines worked out by hand. F = 10 ns, B = 20 ns; at 1 GB/s a byte takes 1 ns."""

from __future__ import annotations

import numpy as np
import pytest

from ppsim.metrics import Run, bubble, limits, waits
from tests.metrics.executed import Rows, causes, executed, spans

GB = "1 GB/s"


def adds_up(run: Run) -> None:
    assert waits.by_cause(run).sum(axis=1).tolist() == bubble.idle(run).tolist()


def op(run: Run, text: str) -> int:
    """The row of an op."""
    return next(row for row in range(len(run.plan.ops)) if str(run.plan.ops[row]) == text)


def test_free_links() -> None:
    # 0F0 0-10, 0F1 10-20; 1F0 10-20, 1B0 20-40, 1F1 40-50, 1B1 50-70; 0B0 40-60, 0B1 70-90.
    run = executed("1f1b", 2, 2)
    assert spans(run, 0) == [(20, 40, "upstream", "0B0"), (60, 70, "upstream", "0B1")]
    assert spans(run, 1) == [(0, 10, "fill", "1F0"), (70, 90, "drain", "")]
    found = waits.segments(run)
    # 0B0 waits for 1B0, 0B1 for 1B1, the fill of 1F0 for 0F0; nothing is blamed for the drain.
    assert [str(run.plan.ops[b]) if b >= 0 else "" for b in found.blocker.tolist()] == ["1B0", "1B1", "0F0", ""]


def test_latency_is_transfer() -> None:
    # 1F0 13-23, 1B0 23-43, 1F1 43-53, 1B1 53-73; the gradients arrive 3 later: 0B0 46-66, 0B1 76-96.
    run = executed("1f1b", 2, 2, link={"latency": "3 ns"})
    assert spans(run, 0) == [
        (20, 43, "upstream", "0B0"),
        (43, 46, "transfer", "0B0"),
        (66, 73, "upstream", "0B1"),
        (73, 76, "transfer", "0B1"),
    ]
    assert spans(run, 1) == [(0, 13, "fill", "1F0"), (73, 96, "drain", "")]


def contended() -> Run:
    """1F1B on 3 ranks with messages of 15 ns, longer than a forward; gradients and activations leave rank 1 by one NIC.

    0F0 0-10, 0F1 10-20, 0F2 20-30, their messages 10-25, 25-40, 40-55.   1F0 25-35 (message 35-50), 1F1 40-50 (50-65).
    2F0 50-60, 2B0 60-70 (70-85), 2F1 70-80, 2B1 80-90 (90-105).   1B0 85-95 (95-110), 1F2 95-105: its message is ready
    at 105 and queues until 110 behind that of 1B0, 110-125.   1B1 105-115: its message queues until 125, 125-140.
    0B0 110-120, 0B1 140-150.   2F2 125-135, 2B2 135-145 (145-160), 1B2 160-170 (170-185), 0B2 185-195.
    """
    return executed("1f1b", 3, 3, costs={"message": "15 B", "backward": "10 ns"}, link={"bandwidth": GB})


def test_queue_at_a_port() -> None:
    run = contended()
    assert run.timeline.makespan == 195
    assert spans(run, 0) == [
        (30, 95, "upstream", "0B0"),
        (95, 110, "transfer", "0B0"),
        (120, 125, "queue", "0B1"),  # 1B1 ended at 115, 1F2's message holds the port until 125
        (125, 140, "transfer", "0B1"),
        (150, 170, "upstream", "0B2"),
        (170, 185, "transfer", "0B2"),
    ]
    assert spans(run, 1) == [
        (0, 25, "fill", "1F0"),
        (35, 40, "transfer", "1F1"),  # on the wire since 25, clipped to the gap
        (50, 70, "upstream", "1B0"),
        (70, 85, "transfer", "1B0"),
        (115, 145, "upstream", "1B2"),
        (145, 160, "transfer", "1B2"),
        (170, 195, "drain", ""),
    ]
    assert spans(run, 2) == [
        (0, 50, "fill", "2F0"),
        (90, 105, "upstream", "2F2"),
        (105, 110, "queue", "2F2"),
        (110, 125, "transfer", "2F2"),
        (145, 195, "drain", ""),
    ]


def test_what_limits_it() -> None:
    # The sums of the spans above by place; fill and drain are 25 + 50 each.
    assert limits.limits(contended()) == [
        ("upstream", "rank 1", 100),  # rank 0: 65 + 20, rank 2: 15
        ("fill", "all ranks", 75),
        ("drain", "all ranks", 75),
        ("upstream", "rank 2", 50),  # rank 1: 20 + 30
        ("transfer", "link 1→0", 45),
        ("transfer", "link 2→1", 30),
        ("transfer", "link 1→2", 15),
        ("queue", "node 1 nic 0 egress", 10),
        ("transfer", "link 0→1", 5),
    ]


def test_per_op() -> None:
    run = contended()
    wait, cause, blocker = waits.per_op(run)
    for text, ns, why, whom in (
        ("0F0", 0, None, None),
        ("0B0", 80, "upstream", "1B0"),  # 65 upstream, 15 transfer
        ("0B1", 20, "transfer", "1B1"),  # 5 queue, 15 transfer
        ("2F2", 35, "upstream", "1F2"),  # 15 upstream, 5 queue, 15 transfer: the earlier of the longest
        ("1F0", 25, "fill", "0F0"),
    ):
        row = op(run, text)
        assert (text, int(wait[row])) == (text, ns)
        assert (None if cause[row] < 0 else waits.CAUSES[cause[row]]) == why
        assert (None if blocker[row] < 0 else str(run.plan.ops[int(blocker[row])])) == whom
    # All but the drains, 25 + 50, is some op's wait.
    assert int(wait.sum()) == int(bubble.idle(run).sum()) - 75


def test_blocking_send() -> None:
    # 0F0 0-10, its message 10-15 holds rank 0; 0F1 15-25 (25-30). 1F0 15-25, 1B0 25-45 (45-50), 1F1 50-60, 1B1 60-80
    # (80-85). 0B0 50-70, 0B1 85-105.
    run = executed("1f1b", 2, 2, costs={"message": "5 B"}, link={"bandwidth": GB}, runtime={"send": "blocking"})
    assert spans(run, 0) == [
        (10, 15, "blocked", "0F1"),
        (25, 30, "blocked", "0B0"),  # before anything else, though 0B0 waits for its gradient, too
        (30, 45, "upstream", "0B0"),
        (45, 50, "transfer", "0B0"),
        (70, 80, "upstream", "0B1"),
        (80, 85, "transfer", "0B1"),
    ]
    assert spans(run, 1) == [(0, 15, "fill", "1F0"), (45, 50, "blocked", "1F1"), (80, 105, "drain", "")]
    assert ("blocked", "link 0→1", 10) in limits.limits(run)


def test_rendezvous() -> None:
    # 0F1's message meets its receiver when 1B0 has ended: 45-50, beside the gradient of 1B0. Else as above, without the
    # sender being held: 0F1 10-20, 1F0 15-25, 1B0 25-45, 1F1 50-60, 1B1 60-80; 0B0 50-70, 0B1 85-105.
    run = executed("1f1b", 2, 2, costs={"message": "5 B"}, link={"bandwidth": GB}, runtime={"send": "rendezvous"})
    assert causes(run, 0) == {"upstream": 25 + 10, "transfer": 5 + 5}
    assert spans(run, 1) == [(0, 15, "fill", "1F0"), (45, 50, "transfer", "1F1"), (80, 105, "drain", "")]


def test_fused_batches() -> None:
    # Rank 0: F0 {send F0} F1 {send F1, recv B0} B0 {recv B1} B1.
    # Rank 1: {recv F0} F0 B0 {send B0, recv F1} F1 B1 {send B1}.
    # 0F0's message 10-15, 0F1 15-25; 1F0 15-25, 1B0 25-45. Both ranks are in their batch at 45: both messages 45-50.
    # 0B0 50-70, 1F1 50-60, 1B1 60-80, its message 80-85, 0B1 85-105.
    run = executed("1f1b", 2, 2, costs={"message": "5 B"}, link={"bandwidth": GB}, runtime={"p2p": "fused"})
    assert spans(run, 0) == [
        (10, 15, "blocked", "0F1"),
        (25, 50, "blocked", "0B0"),  # its own message has not left
        (70, 80, "upstream", "0B1"),
        (80, 85, "transfer", "0B1"),
    ]
    assert spans(run, 1) == [(0, 15, "fill", "1F0"), (45, 50, "blocked", "1F1"), (80, 105, "drain", "")]


def test_two_fused_batches_one_after_the_other() -> None:
    # Latency 2. Rank 1 warms up: {recv F0} F0 {send F0} {recv F1} F1. 0F0 0-10 (arrives 12), 1F0 12-22: its message
    # flies 22-24; only then does the second batch start, and 0F1 (ended at 22) flies 24-26.
    # Rank 0 is held by {send F1} until 26, of which its own message waits for the receiver until 24.
    run = executed("1f1b", 3, 3, link={"latency": "2 ns"}, runtime={"p2p": "fused"})
    assert spans(run, 1)[1:3] == [(22, 24, "transfer", "1F1"), (24, 26, "transfer", "1F1")]
    found = waits.segments(run)
    mine = np.flatnonzero(found.row == op(run, "1F1"))
    assert [str(run.plan.ops[b]) for b in found.blocker[mine].tolist()] == ["1F0", "0F1"]
    assert spans(run, 0)[:3] == [
        (10, 12, "transfer", "0F1"),
        (22, 24, "blocked", "0F2"),
        (24, 26, "transfer", "0F2"),
    ]


@pytest.mark.parametrize(
    ("send", "rank_0", "reason"),
    [
        ("overlapped", [(10, 47, "upstream", "0RECV_B0"), (47, 54, "transfer", "0RECV_B0")], "SEND ends at once"),
        (
            "blocking",
            [(10, 15, "blocked", "0SEND_F0"), (15, 47, "upstream", "0RECV_B0"), (47, 54, "transfer", "0RECV_B0")],
            "SEND ends when the message has left; what is on the wire is transfer, though 1SEND_B0 ends at 52 only",
        ),
    ],
)
def test_listed_send_and_recv(send: str, rank_0: list[tuple[int, int, str, str]], reason: str) -> None:
    # Message 5, latency 2: 0F0 0-10, message 10-15, there at 17; 1F0 17-27, 1B0 27-47, message 47-52, there at 54.
    rows = Rows(rows=("0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"))
    link = {"bandwidth": GB, "latency": "2 ns"}
    run = executed(rows, 2, 1, costs={"message": "5 B"}, link=link, runtime={"send": send})
    assert spans(run, 0) == rank_0, reason
    # RECV and SEND are never first or last.
    assert spans(run, 1) == [(0, 17, "fill", "1F0"), (47, 74, "drain", "")]


def test_upstream_until_the_listed_send() -> None:
    # 0F1 has ended at 20, but stage 0 sends it at 30, after 0F2. Stage 1 takes 4: 1F0 15-19; message 30-35; 1F1 35-39;
    # the message of 0F2 queues until 35, is there at 40; 1F2 40-44.
    rows = Rows(rows=("0F0 0SEND_F0 0F1 0F2 0SEND_F1 0SEND_F2", "1RECV_F0 1F0 1RECV_F1 1F1 1RECV_F2 1F2"))
    run = executed(rows, 2, 3, costs={"message": "5 B", "forward": ["10 ns", "4 ns"]}, link={"bandwidth": GB})
    assert spans(run, 1) == [
        (0, 15, "fill", "1F0"),
        (19, 30, "upstream", "1RECV_F1"),
        (30, 35, "transfer", "1RECV_F1"),
        (39, 40, "transfer", "1RECV_F2"),
    ]
    assert spans(run, 0) == [(30, 44, "drain", "")]


@pytest.mark.parametrize(
    ("barrier", "rank_1"),
    [
        (True, {"fill": 10 + 10, "drain": 20 + 20}),  # each step from its common start to its common end
        (False, {"fill": 10, "upstream": 30, "drain": 20}),  # 1F0@1 waits 40-70 for 0F0@1
    ],
)
def test_two_steps(barrier: bool, rank_1: dict[str, int]) -> None:
    # A step: 0F0 0-10, 1F0 10-20, 1B0 20-40, 0B0 40-60. Rank 0 is the last to end: the next step starts at 60 anyway.
    run = executed("gpipe", 2, 1, pipeline={"steps": 2}, runtime={"barrier": barrier})
    assert run.timeline.makespan == 120
    assert causes(run, 0) == {"upstream": 30 + 30}
    assert causes(run, 1) == rank_1


def test_gradient_sync() -> None:
    # 0F0 0-10, 1F0 12-22, 1B0 22-42, 0B0 44-64 (latency 2, messages of 0 bytes). A ring all-reduce over n = 2 replicas
    # moves 2 (n-1) / n = 1 times the 8 bytes of gradients: 8 + 2 ns after each rank's last backward.
    run = executed(
        "gpipe", 2, 1, pipeline={"data_parallel": 2}, costs={"weights": "8 B"},
        link={"bandwidth": GB, "latency": "2 ns"},
    )  # fmt: skip
    assert spans(run, 0) == [
        (10, 42, "upstream", "0B0"), (42, 44, "transfer", "0B0"), (64, 74, "sync", "0REDUCE_GRAD")
    ]  # fmt: skip
    assert spans(run, 1) == [(0, 12, "fill", "1F0"), (42, 52, "sync", "1REDUCE_GRAD"), (52, 74, "drain", "")]
    assert {limit for limit in limits.limits(run) if limit[0] == "sync"} == {("sync", f"rank {r}", 10) for r in (0, 1)}


def test_overlapped_gradient_sync_holds_the_optimizer() -> None:
    # Interleaved on one rank, stages 0 and 1: B of stage 1 ends at 40, its bucket flies 40-50 beside 0B0 (40-60); that
    # of stage 0 flies 60-70, and OPTIM waits for it.
    run = executed(
        {"name": "interleaved_1f1b", "virtual_stages": 2}, 1, 1,
        pipeline={"data_parallel": 2}, costs={"weights": "8 B"},
        link={"bandwidth": GB, "latency": "2 ns"}, runtime={"grad_sync": "overlapped"},
    )  # fmt: skip
    assert spans(run, 0) == [(60, 70, "sync", "0OPTIM")]


@pytest.mark.parametrize(
    ("when", "rank_0"),
    [
        ("early", [(30, 50, "upstream", "0B0"), (80, 90, "upstream", "0B1")]),  # 0R0 20-30 fills the wait
        ("late", [(20, 50, "upstream", "0R0"), (80, 90, "upstream", "0R1")]),  # R waits for the gradient, too
    ],
)
def test_recomputation(when: str, rank_0: list[tuple[int, int, str, str]]) -> None:
    # 1F0 10-20, 1R0 20-30, 1B0 30-50, 1F1 50-60, 1R1 60-70, 1B1 70-90. Early: 0R0 20-30, 0B0 50-70, 0R1 70-80.
    # Late: 0R0 50-60, 0B0 60-80.
    run = executed("1f1b", 2, 2, pipeline={"recompute": "full", "recompute_when": when})
    assert spans(run, 0) == rank_0
    assert bubble.recompute(run).tolist() == [20, 20]


def test_moved_activation() -> None:
    # 50 bytes go to rank 1 at 10-60 and come back at 60-110; the gradient was there at 40.
    rows = Rows(rows=("0F0 0EVICT0>1 0LOAD0<1 0B0", "1F0 1B0"))
    run = executed(rows, 2, 1, costs={"activation": "50 B"}, link={"bandwidth": GB})
    assert spans(run, 0) == [(10, 110, "memory", "0B0")]
    assert ("memory", "link 1→0", 100) in limits.limits(run)


def test_message_before_move() -> None:
    # The activation is back at 10 + 15 + 15 = 40, when the gradient of 1B0 (20-40) arrives, too.
    rows = Rows(rows=("0F0 0EVICT0>1 0LOAD0<1 0B0", "1F0 1B0"))
    run = executed(rows, 2, 1, costs={"activation": "15 B"}, link={"bandwidth": GB})
    assert spans(run, 0) == [(10, 40, "upstream", "0B0")]


def test_batch_normalisation() -> None:
    # 1F0 needs both forwards of stage 0: it starts at 20, not 10. 1B0 40-60, 1B1 60-80; 0B0 needs both, 80-100.
    run = executed("gpipe", 2, 2, pipeline={"batch_sync": "all"})
    assert spans(run, 0) == [(20, 80, "upstream", "0B0")]
    assert spans(run, 1) == [(0, 20, "fill", "1F0"), (80, 120, "drain", "")]
    _, _, blocker = waits.per_op(run)
    assert str(run.plan.ops[int(blocker[op(run, "0B0")])]) == "1B1"  # the last of those it waits for


def test_ops_that_take_no_time() -> None:
    # All of stage 1 happens at 10: everything before is fill, everything after drain.
    run = executed("gpipe", 2, 1, costs={"forward": ["10 ns", "0 ns"], "backward": ["20 ns", "0 ns"]})
    assert spans(run, 1) == [(0, 10, "fill", "1F0"), (10, 30, "drain", "")]


@pytest.mark.parametrize("p", [2, 4, 8])
@pytest.mark.parametrize("m", [8, 16])
def test_ideal_1f1b_by_formula(p: int, m: int) -> None:
    # Rank r starts after r forwards and ends r backwards before the end; what is left of the (p-1)(F+B) idle ns it
    # waits for gradients: (p-1-r)(F+B).
    run = executed("1f1b", p, m)
    adds_up(run)
    for r in range(p):
        expected = {"fill": 10 * r, "drain": 20 * r, "upstream": 30 * (p - 1 - r)}
        assert causes(run, r) == {name: ns for name, ns in expected.items() if ns}
