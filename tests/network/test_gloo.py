"""What gloo makes of messages, by hand: F = 50 ms, B = 100 ms, a message takes 40 ms; on both engines."""

from __future__ import annotations

import numpy as np
import pytest

import ppsim
from ppsim import engine
from ppsim.errors import ConfigError, DeadlockError
from ppsim.network import rule_of
from tests.runs import listed
from tests.simulated import between_nodes, experiment, simulate

ENGINES = ["simpy", "compiled"]


def result(schedule: object, ranks: int, microbatches: int, run_by: str = "simpy", **runtime: object) -> ppsim.Result:
    if run_by == "compiled":
        pytest.importorskip("numba", reason="Numba is not installed")
    found = simulate(
        schedule, ranks, microbatches, engine=run_by,
        costs={"forward": "50 ms", "backward": "100 ms", "message": "4 MB"},
        cluster=between_nodes(bandwidth="100 MB/s"), runtime={"preset": "pytorch", "transport": "gloo", **runtime},
    )  # fmt: skip
    assert list(found.timeline.violations()) == []
    return found


def starts(found: ppsim.Result) -> dict[str, float]:
    """When each op starts, in ms."""
    return {str(found.plan.ops[row]): int(found.timeline.start[row]) / 1e6 for row in range(len(found.plan.ops))}


def two_stages(schedule: str) -> dict[str, object]:
    return {"name": schedule, "virtual_stages": 2}


@pytest.mark.parametrize("run_by", ENGINES)
def test_gpipe_receives_when_it_needs(run_by: str) -> None:
    """0F1 ends at 100, but rank 1 asks for it when 1F0 has ended: 50 + 40 + 50 + 40 = 180."""
    found = starts(result("gpipe", 2, 2, run_by))
    assert (found["1F0"], found["1F1"]) == (90, 180)


@pytest.mark.parametrize("run_by", ENGINES)
def test_the_word_for_a_message_comes_behind_the_data(run_by: str) -> None:
    """Looped BFS, p = 2, v = 2: rank 1 asks for 0F1 when 1F0 has ended at 140, behind its own 40 ms to stage 2.

    So 0F1 goes from 180 to 220. Rank 0 asked for 1F0 at 50, which is there at 180; 2F0 starts then, as 0F1 has ended.
    Measured (a message of 41 ms): 224 and 212, the latter behind two more forwards.
    """
    found = starts(result(two_stages("looped_bfs"), 2, 2, run_by))
    assert (found["1F0"], found["1F1"], found["2F0"]) == (90, 220, 180)


@pytest.mark.parametrize("run_by", ENGINES)
def test_of_a_batch_of_1f1b_the_later_ranks_message_goes_first(run_by: str) -> None:
    """p = 2, m = 2: 1F0 from 90, 1B0 from 140 to 240. Rank 0 has run 0F1 by then, and waits with it in a batch.

    1B0's output goes from 240 to 280, behind it the word for 0F1's, which goes from 280 to 320. Rank 0 doesn't wait for
    that to arrive.
    """
    found = starts(result("1f1b", 2, 2, run_by))
    assert (found["1B0"], found["0B0"], found["1F1"]) == (140, 280, 320)


@pytest.mark.parametrize("run_by", ENGINES)
def test_of_two_that_start_their_batch_at_once_the_lower_rank_goes_first(run_by: str) -> None:
    """p = 2, m = 2, as above, and 1F takes 10 ms, 1B 40 ms: 1F0 from 90, 1B0 from 100 to 140, as 0F1 ends at 140.

    0F1 takes 90 ms in all, from 50 to 140, and its message 72 ms, to 212; 1B0's follows.
    """
    found = simulate(
        "1f1b", 2, 2, engine=run_by,
        costs={"forward": ["50 ms", "10 ms"], "backward": ["100 ms", "40 ms"], "message": "4 MB"},
        pipeline={"microbatch_weights": [1, 1.8]}, cluster=between_nodes(bandwidth="100 MB/s", latency="0 s"),
        runtime={"preset": "pytorch", "transport": "gloo"},
    )  # fmt: skip
    sent = found.transfers.set_index("op")
    assert (found.tasks.set_index("op").end_s["0F1"], found.tasks.set_index("op").end_s["1B0"]) == (0.14, 0.14)
    assert (sent.start_s["0F1"], sent.start_s["1B0"]) == (0.14, 0.212)


def test_an_order_with_sends_and_receives_posts_a_receive_where_it_lists_it() -> None:
    """1RECV_F1 stands behind 1F0, so that 0F1's output goes from 140 (1F0 runs from 90 to 140) to 180.

    1RECV_F0 stands first: 0F0's goes from 50 to 90. SENDs hold nobody: 0F1 runs from 50 to 100.
    """
    order = listed(
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1",
        "1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1",
    )
    found = starts(result(order, 2, 2))
    assert (found["1F0"], found["0F1"], found["1F1"]) == (90, 50, 180)


def test_a_word_waits_for_a_send_that_is_listed_before_it() -> None:
    """1F0 from 90 to 140, 1B0 to 240. Its gradient, asked for at 100, goes to 280, and the word for 0F1 behind it: 320."""
    order = listed(
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1",
        "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1",
    )
    assert starts(result(order, 2, 2))["1F1"] == 320


def test_a_run_with_its_turns_known_is_the_same_run() -> None:
    """The plan that the timeline shows says whose turn it was; played again with that it gives the same times."""
    found = result("1f1b", 4, 8)
    again, _ = engine.run(found.plan)
    assert found.plan.turns is None
    assert np.array_equal(again.times, found.timeline.times)
    assert rule_of(found.plan).freed_by(found.plan, found.timeline.carried) is not None


def test_the_critical_path_goes_through_turns_without_a_gap() -> None:
    found = result("1f1b", 3, 6)
    assert sum(found.summary["critical_path"]["by_kind_s"].values()) == pytest.approx(found.summary["makespan_s"])


def test_interleaving_with_and_without_a_transport() -> None:
    """Without one, receives are there whenever they are needed; no message goes earlier over gloo."""
    free = result(two_stages("interleaved_1f1b"), 2, 4, transport="none")
    over = result(two_stages("interleaved_1f1b"), 2, 4)
    assert np.all(over.timeline.start >= free.timeline.start)


def test_steps_follow_each_other() -> None:
    """Two steps with a barrier take twice as long as one: receives of the second are posted in the second."""
    one = simulate("gpipe", 2, 4, costs={"message": "1 MB"}, cluster=between_nodes(bandwidth="1 GB/s"),
                   runtime={"transport": "gloo", "receives": "early"})  # fmt: skip
    two = simulate("gpipe", 2, 4, costs={"message": "1 MB"}, cluster=between_nodes(bandwidth="1 GB/s"),
                   runtime={"transport": "gloo", "receives": "early"}, pipeline={"steps": 2})  # fmt: skip
    assert two.timeline.makespan == 2 * one.timeline.makespan


@pytest.mark.parametrize("run_by", ENGINES)
def test_a_deadlock_over_gloo_says_who_waits(run_by: str) -> None:
    """Rank 1 needs 0F1 before 1F0, and rank 0 needs 1B0 before 0F1."""
    order = listed("0F0 0B0 0F1 0B1", "1F1 1F0 1B0 1B1")
    with pytest.raises(DeadlockError, match="rank 0 at 0B0 waits for 1B0"):
        result(order, 2, 2, run_by, receives="late")


@pytest.mark.parametrize(
    ("runtime", "said"),
    [
        ({"transport": "glo"}, "runtime.transport: unknown transport 'glo'; did you mean 'gloo'? known: none, gloo"),
        ({"transport": "gloo", "send": "blocking"}, "runtime.send: 'blocking' contradicts transport: gloo"),
        ({"preset": "megatron", "transport": "gloo"}, "runtime.transport: Megatron-LM sends over NCCL"),
    ],
)
def test_what_cannot_be_is_said(runtime: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        experiment("gpipe", 2, 2, runtime=runtime)
    assert said in str(error.value)
