"""What stands between steps and around them: barrier, gradient sync, optimizer, batch normalisation."""

from __future__ import annotations

from typing import Any

import pytest

from ppsim.errors import DeadlockError
from ppsim.metrics import Run
from ppsim.ops import Kind
from tests.runs import makespan_ms, row, simulated, span_ms

MB = 10**6
NODES = {"ranks_per_node": 1, "inter_node": {"bandwidth": "1 GB/s"}}
"""A rank on each node: 1 MB takes 1 ms."""


def run_of(schedule: Any, p: int, m: int, pipeline: dict[str, Any] | None = None, **settings: Any) -> Run:
    return simulated(schedule, {"ranks": p, "microbatches": m, **(pipeline or {})}, **settings)


def interleaved(v: int) -> dict[str, Any]:
    return {"name": "interleaved_1f1b", "virtual_stages": v}


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "eager_1f1b", "naive", interleaved(2), "bpipe"])
@pytest.mark.parametrize("link", [{}, {"latency": "300 us"}, {"bandwidth": "3 GB/s", "latency": "10 us"}])
def test_two_steps_with_a_barrier_take_twice_one(schedule: Any, link: dict[str, str]) -> None:
    cluster = {"inter_node": link, "ranks_per_node": 1, "intra_node": "free"}
    settings: dict[str, Any] = {"costs": {"message": "1 MB", "activation": "2 MB"}, "cluster": cluster}
    one = run_of(schedule, 4, 8, **settings)
    two = run_of(schedule, 4, 8, {"steps": 2}, **settings)
    assert makespan_ms(two) == 2 * makespan_ms(one)


def test_the_ops_of_a_later_step_are_named_with_it() -> None:
    run = run_of("gpipe", 1, 1, {"steps": 2})
    assert row(run, 0) == "0F0 0B0 0OPTIM 0F0@1 0B0@1 0OPTIM@1"


@pytest.mark.parametrize(("barrier", "expected"), [(True, 26), (False, 25)])
def test_without_a_barrier_a_rank_goes_on_while_another_still_syncs(barrier: bool, expected: int) -> None:
    """1F1B p=2, m=2: rank 1 ends its last backward at 7 and syncs 6 MB with one copy, 2·1/2·6 ms, until 13.

    Rank 0, with nothing to sync, ends at 9.

    With a barrier the second step begins at 13. Without, rank 0 has its forwards done by 11 and rank 1 runs from 13 on:
    1F0 13-14, 1B0 14-16, 1F1 16-17, 1B1 17-19, sync until 25, which saves the 1 ms that 0F0 took.
    """
    run = run_of(
        "1f1b", 2, 2, {"steps": 2, "data_parallel": 2}, costs={"weights": ["0 B", "6 MB"]},
        cluster={"inter_node": {"bandwidth": "1 GB/s"}}, runtime={"barrier": barrier},
    )  # fmt: skip
    assert span_ms(run, "0F0@1")[0] == (13 if barrier else 9)
    assert makespan_ms(run) == expected


@pytest.mark.parametrize(("grad_sync", "expected"), [("end", 14), ("overlapped", 12)])
def test_an_overlapped_sync_runs_beside_the_other_stages_backward(grad_sync: str, expected: int) -> None:
    """One rank with two stages, m=1: 0F0 1F0 1B0 0B0 until 6, 4 ms of sync for each stage.

    At the end: 6 + 4 + 4. Overlapped: stage 1's from 4 to 8, stage 0's after it until 12; the optimizer waits for both.
    """
    run = run_of(
        interleaved(2), 1, 1, {"data_parallel": 2}, costs={"weights": "4 MB"}, cluster=NODES,
        runtime={"grad_sync": grad_sync},
    )  # fmt: skip
    assert span_ms(run, "0OPTIM") == (expected, expected)
    assert makespan_ms(run) == expected


@pytest.mark.parametrize("copies", [2, 3, 4, 8])
def test_ring_all_reduce_alone(copies: int) -> None:
    """2(n-1)/n of 120 MB in buckets of 40 MB over 1 GB/s, and a flight of 5 ms after the last (Patarasuk and Yuan)."""
    cluster = {**NODES, "inter_node": {"bandwidth": "1 GB/s", "latency": "5 ms"}}
    run = run_of("gpipe", 1, 1, {"data_parallel": copies}, costs={"weights": "120 MB"}, cluster=cluster)
    # Each of the three buckets is rounded to a whole byte and nanosecond.
    assert makespan_ms(run) == pytest.approx(3 + 2 * (copies - 1) * 120 / copies + 5, abs=3e-6)
    assert len(run.plan.transfers) == 3


def test_gradients_are_what_is_summed() -> None:
    run = run_of("gpipe", 1, 1, {"data_parallel": 2}, costs={"weights": "120 MB", "gradients": "7 MB"}, cluster=NODES)
    assert makespan_ms(run) == 3 + 7


@pytest.mark.parametrize(
    ("bucket", "behind", "spans"),
    [
        ("10 MB", 20, [(10, 12), (21, 23), (32, 34)]),
        ("20 MB", 30, [(10, 12), (31, 33), (34, 36)]),
    ],
)
def test_a_message_waits_for_one_bucket_at_most(bucket: str, behind: int, spans: list[tuple[int, int]]) -> None:
    """p=2, v=2, m=1; messages take 1 ms, stage 3's gradients 20 ms of its rank's NIC, beside what still runs.

    3B0 ends at 9, its message goes 9-10, then a bucket; 2B0 10-12. Its message is ready at 12 and finds the bucket on
    the NIC. In buckets of 10 ms it goes at 20, before the second bucket, which is ready at 20 only: 1B0 21-23, and its
    message waits for that one, 21-31: 0B0 32-34. As one bucket it waits until 30: 1B0 31-33, 0B0 34-36.
    """
    run = run_of(
        interleaved(2), 2, 1, {"data_parallel": 2, "grad_bucket": bucket}, cluster=NODES,
        costs={"message": "1 MB", "weights": ["0 B", "0 B", "0 B", "20 MB"]}, runtime={"grad_sync": "overlapped"},
    )  # fmt: skip
    assert [span_ms(run, op) for op in ("2B0", "1B0", "0B0")] == spans
    message = int((run.plan.ops.kind[run.plan.transfers.producer] == Kind.B).nonzero()[0][0])
    assert int(run.timeline.transfer_start[message]) == behind * MB


def test_optimizer_ends_the_step_on_every_rank() -> None:
    assert makespan_ms(run_of("1f1b", 4, 8, costs={"optimizer": "1 ms"})) == 33 + 1
    assert makespan_ms(run_of("1f1b", 4, 8, {"steps": 2}, costs={"optimizer": "1 ms"})) == 2 * 34
    # A rank with two stages updates both.
    assert makespan_ms(run_of(interleaved(2), 4, 8, costs={"optimizer": "1 ms"})) == 3 * (16 + 3) + 2


def test_copies_of_a_stage_inside_the_pipeline_sum_their_gradients() -> None:
    """Chimera p=2 holds both stages on both ranks: 4 MB each way for each stage, one stage after the other."""
    link = {"inter_node": {"bandwidth": "1 GB/s"}}
    plain = run_of("chimera", 2, 2, cluster=link)
    synced = run_of("chimera", 2, 2, cluster=link, costs={"weights": "4 MB"})
    assert makespan_ms(synced) == makespan_ms(plain) + 4 + 4
    # Two pipelines: 4 copies of each stage, each sends 2·3/4·4 MB to the next pipeline, on its rank's NIC.
    both = run_of("chimera", 2, 2, {"data_parallel": 2}, cluster=NODES, costs={"weights": "4 MB"})
    syncs = both.plan.ops.kind[both.plan.transfers.issuer] == Kind.REDUCE_GRAD
    routes = both.plan.transfers.route[syncs]
    assert both.plan.routes.bytes[routes].tolist() == [6 * MB] * 4
    assert (both.plan.routes.src[routes] == both.plan.routes.dst[routes]).all()


@pytest.mark.parametrize(("stages", "expected"), [("all", 96), ([], 33)])
def test_batch_normalisation_over_the_batch_undoes_the_pipeline(stages: Any, expected: int) -> None:
    """GPipe p=4, m=8, F=1, B=2: on all stages each stage runs alone, 4·8·3, as without pipelining; on none 3(m+p-1)."""
    assert makespan_ms(run_of("gpipe", 4, 8, {"batch_sync": stages})) == expected


@pytest.mark.parametrize(("stages", "expected"), [([], 9), ([0], 10), ([1], 11), ([0, 1], 12)])
def test_who_waits_for_a_stage_that_normalises(stages: list[int], expected: int) -> None:
    """GPipe p=2, m=2, 3(m+p-1) = 9. Stage 0: 1F0 starts at 2, not at 1. Stage 1: 0B0 starts 2 after 1B1's end at 7."""
    assert makespan_ms(run_of("gpipe", 2, 2, {"batch_sync": stages})) == expected


def test_each_step_normalises_over_its_own_batch() -> None:
    assert makespan_ms(run_of("gpipe", 4, 8, {"batch_sync": "all", "steps": 2})) == 2 * 96


def test_batch_normalisation_over_the_batch_deadlocks_1f1b() -> None:
    with pytest.raises(DeadlockError) as caught:
        run_of("1f1b", 4, 8, {"batch_sync": "all"})
    lines = str(caught.value).splitlines()
    assert "rank 1 at 1F0 waits for 0F7" in lines[2]
    assert lines[-1].startswith("pipeline.batch_sync makes a stage wait for all microbatches")
