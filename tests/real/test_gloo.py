"""What gloo makes of messages, by hand: F = 50 ms, B = 100 ms, a message takes 40 ms."""

from __future__ import annotations

from ppsim.metrics import Run
from tests.real.cases import Case
from tests.real.gloo import over_gloo
from tests.simulated import between_nodes


def starts(run: Run) -> dict[str, float]:
    """When each op starts, in ms."""
    return {str(run.plan.ops[row]): int(run.timeline.start[row]) / 1e6 for row in range(len(run.plan.ops))}


def run(schedule: str, ranks: int, microbatches: int, stages: int) -> dict[str, float]:
    case = Case("", schedule, ranks, microbatches, (50,) * stages, (100,) * stages, message=4_000_000)
    return starts(over_gloo(case, 0, between_nodes(bandwidth="100 MB/s")))


def test_gpipe_receives_when_it_needs() -> None:
    """0F1 ends at 100, but rank 1 asks for it when 1F0 has ended: 50 + 40 + 50 + 40 = 180."""
    found = run("gpipe", 2, 2, 2)
    assert (found["1F0"], found["1F1"]) == (90, 180)


def test_the_word_for_a_message_comes_behind_the_data() -> None:
    """Looped BFS, p = 2, v = 2: rank 1 asks for 0F1 when 1F0 has ended at 140, behind its own 40 ms to stage 2.

    So 0F1 goes from 180 to 220. Rank 0 asked for 1F0 at 50, which is there at 180; 2F0 starts then, as 0F1 has ended.
    Measured (a message of 41 ms): 224 and 212, the latter behind two more forwards.
    """
    found = run("looped_bfs", 2, 2, 4)
    assert (found["1F0"], found["1F1"], found["2F0"]) == (90, 220, 180)


def test_of_a_batch_of_1f1b_the_later_ranks_message_goes_first() -> None:
    """p = 2, m = 2: 1F0 from 90, 1B0 from 140 to 240. Rank 0 has run 0F1 by then, and waits with it in a batch.

    1B0's output goes from 240 to 280, behind it the word for 0F1's, which goes from 280 to 320. Rank 0 doesn't wait for
    that to arrive.
    """
    found = run("1f1b", 2, 2, 2)
    assert (found["1B0"], found["0B0"], found["1F1"]) == (140, 280, 320)
