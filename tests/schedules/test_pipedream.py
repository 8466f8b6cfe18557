"""PipeDream: asynchronous 1F1B with stages on several ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ppsim
from ppsim.errors import ConfigError
from ppsim.metrics import Run, memory, staleness, throughput
from ppsim.ops import Kind
from ppsim.ops import orderfile as dialects
from ppsim.schedules.pipedream import PipeDream, noam
from tests.goldens import Case, cases
from tests.runs import makespan_ms, row, simulated, span_ms

MB = 10**6


def pipedream(p: int, m: int, pipeline: dict[str, Any] | None = None, **settings: Any) -> Run:
    schedule = {k: settings.pop(k) for k in ("replicas", "in_flight", "vertical_sync") if k in settings}
    return simulated({"name": "pipedream", **schedule}, {"ranks": p, "microbatches": m, **(pipeline or {})}, **settings)


def sync_bytes(run: Run) -> list[int]:
    """Bytes that each rank sends for gradient sync."""
    transfers, routes = run.plan.transfers, run.plan.routes
    syncs = run.plan.ops.kind[transfers.issuer] == Kind.REDUCE_GRAD
    src, size = routes.src[transfers.route[syncs]], routes.bytes[transfers.route[syncs]]
    return [int(size[src == rank].sum()) for rank in range(run.plan.ops.ranks)]


@pytest.mark.parametrize("case", cases("pipedream"), ids=str)
def test_order_makespan_and_memory_of_the_real_program(case: Case) -> None:
    run = pipedream(case.ranks, case.microbatches)
    expected = [" ".join(table.cells()) for table in dialects.read(case.orders_text())]
    assert [row(run, rank) for rank in range(case.ranks)] == expected
    assert makespan_ms(run) == case.makespan
    assert tuple(memory.peak_in_flight(run)) == case.peak_until_b_or_i
    versions = staleness.weight_versions(run)
    assert versions is not None
    assert "|".join(map(str, versions)) == case.extra["weight_versions"]


def test_a_hundred_minibatches_on_four_stages() -> None:
    """public question D34: 3·100 of work and 3·3 to fill and drain; no bubble once the pipeline is full."""
    run = pipedream(4, 100)
    assert makespan_ms(run) == 309
    assert throughput.period_s(run) == 0.003
    assert throughput.steady_bubble_ratio(run) == 0


def test_steps_times_microbatches_stream_through_without_a_flush() -> None:
    run = pipedream(4, 10, {"steps": 10})
    assert makespan_ms(run) == 309
    assert row(run, 0) == row(pipedream(4, 100), 0)


@pytest.mark.parametrize(
    ("copies", "expected"),
    [
        ([1, 1, 1, 1], [4, 3, 2, 1]),  # ceil(ranks from here on / ranks here): 1F1B's p - s
        ([3, 1], [2, 1]),  # ceil(4/3), ceil(1/1)
        ([4], [1]),
        ([2, 1, 1], [2, 2, 1]),  # ceil(4/2), ceil(2/1), 1
        ([1, 3], [4, 1]),  # ceil(4/1), ceil(3/3)
        ([7, 1], [2, 1]),  # PipeDream's VGG-16 on 8 machines
    ],
)
def test_minibatches_in_flight_per_copy(copies: list[int], expected: list[int]) -> None:
    assert noam(copies) == expected
    run = pipedream(sum(copies), 24, replicas=copies)
    first = np.cumsum([0, *copies[:-1]])
    for rank, forwards in zip(first.tolist(), expected, strict=True):
        assert [cell[1] for cell in row(run, rank).split()].index("B") == forwards


def test_three_copies_before_one() -> None:
    """Stage 0 takes 9 ms on each of 3 ranks, stage 1 takes 3: one minibatch every 3 ms; the copies sync every round.

    NOAM = ceil(4/3) = 2 in flight per copy. Once 2 rounds are in flight, a copy runs F and B back to back.
    """
    run = pipedream(4, 60, replicas=[3, 1], costs={"forward": ["3 ms", "1 ms"], "backward": ["6 ms", "2 ms"]})
    assert row(run, 1).startswith("0F1 0F4 0B1 0REDUCE_GRAD1 0F7 0B4 0REDUCE_GRAD4 0F10 0B7 ")
    assert row(run, 3).startswith("1F0 1B0 1F1 1B1 ")
    assert throughput.period_s(run) == 0.003
    assert throughput.steady_bubble_ratio(run) == 0


def test_the_op_after_a_round_waits_for_its_sync() -> None:
    """Two copies, then one stage. F=1, B=2, a gradient of 6 MB at 1 GB/s: each copy sends 2·(1/2)·6 MB in 6 ms.

    0F0 and 0F1 end at 1; stage 1: 1F0 1-2, 1B0 2-4, 1F1 4-5, 1B1 5-7. Copy 0: 0F2 1-2, 0B0 4-6; copy 1: 0F3 1-2,
    0B1 7-9. The round syncs from 9 to 15, although copy 0 was there at 6; then both go on.
    """
    links = [{"ranks": [0, 1], "bandwidth": "1 GB/s"}]
    costs = {"gradients": ["6 MB", "0 B"]}
    run = pipedream(3, 8, replicas=[2, 1], costs=costs, cluster={"intra_node": "free", "links": links})
    assert [span_ms(run, op) for op in ("0B0", "0B1")] == [(4, 6), (7, 9)]
    assert [span_ms(run, f"0REDUCE_GRAD{k}") for k in (0, 1)] == [(6, 15), (9, 15)]
    assert [span_ms(run, op)[0] for op in ("0F4", "0F5")] == [15, 15]


def test_a_round_may_sync_beside_the_next() -> None:
    """As above, overlapped: the copies go on at once, and the next round's sync waits for this one's.

    Copy 0: 0F2 1-2, 0B0 4-6, 0F4 6-7; copy 1: 0B1 7-9, 0F5 9-10. The round syncs from 9 to 15. Stage 1: 1F2 7-8, 1B2
    8-10; copy 0: 0B2 10-12, and its sync stands until 15.
    """
    links = [{"ranks": [0, 1], "bandwidth": "1 GB/s"}]
    costs = {"gradients": ["6 MB", "0 B"]}
    runtime = {"grad_sync": "overlapped"}
    cluster = {"intra_node": "free", "links": links}
    run = pipedream(3, 8, replicas=[2, 1], costs=costs, cluster=cluster, runtime=runtime)
    assert [span_ms(run, op) for op in ("0B0", "0F4", "0B1", "0F5", "0B2")] == [
        (4, 6),
        (6, 7),
        (7, 9),
        (9, 10),
        (10, 12),
    ]
    assert span_ms(run, "0REDUCE_GRAD0") == (6, 6)
    assert span_ms(run, "0REDUCE_GRAD2")[1] == 15
    # An update counts when the next sync has waited for it: a round later, for forwards and backwards alike.
    stale, before = (
        staleness.staleness(r) for r in (run, pipedream(3, 8, replicas=[2, 1], costs=costs, cluster=cluster))
    )
    assert stale is not None
    assert before is not None
    assert (before.tolist(), stale.tolist()) == ([1, 1, 0], [1, 1, 0])


@pytest.mark.parametrize(("gradients", "period"), [("2 MB", 3), ("12 MB", 12)])
def test_data_parallelism_beside_its_sync(gradients: str, period: int) -> None:
    """Two copies, F + B = 3 ms: whichever is longer, work or sync, is the period (SOSP'19, section 3.1: the larger)."""
    cluster = {"inter_node": {"bandwidth": "1 GB/s"}, "ranks_per_node": 1}
    more, fewer = (
        pipedream(
            2, m, replicas=[2], costs={"gradients": gradients}, cluster=cluster, runtime={"grad_sync": "overlapped"}
        )
        for m in (40, 20)
    )
    assert makespan_ms(more) - makespan_ms(fewer) == 10 * period


@pytest.mark.parametrize(("schedule", "said"), [("pipedream_2bw", ["runtime.grad_sync"]), ("pipedream", [])])
def test_sums_beside_the_next_step_are_not_2bws(schedule: str, said: list[str]) -> None:
    """It has one update per step, and sums where that is due: asked for anything else, it says so."""
    experiment = ppsim.Experiment(
        schedule=schedule,
        pipeline={"ranks": 2, "microbatches": 4, "data_parallel": 2},
        costs={"forward": "1 ms", "backward": "2 ms", "gradients": "1 MB"},
        runtime={"grad_sync": "overlapped"},
    )
    warnings = ppsim.simulate(experiment).summary["warnings"]
    assert [found["key"] for found in warnings if found["key"].startswith("runtime")] == said


def test_buckets_of_a_round_go_one_after_the_other() -> None:
    """100 MB in buckets of 40, 40 and 20, of which each of 4 copies sends 2·3/4: 60, 60 and 30 MB, 150 ms at 1 GB/s."""
    run = pipedream(4, 4, replicas=[4], costs={"weights": "100 MB"}, cluster={"inter_node": {"bandwidth": "1 GB/s"}})
    assert makespan_ms(run) == 3 + 150
    assert sorted(set(run.plan.routes.bytes.tolist())) == [30 * MB, 60 * MB]


def test_the_last_round_syncs_those_that_took_part() -> None:
    """6 minibatches on 4 copies: 4, then 2. 40 MB: 2·3/4·40 = 60 MB each, then 2·1/2·40 = 40 MB each of two."""
    run = pipedream(4, 6, replicas=[4], costs={"weights": "40 MB"}, cluster={"inter_node": {"bandwidth": "1 GB/s"}})
    assert sync_bytes(run) == [100 * MB, 100 * MB, 60 * MB, 60 * MB]
    assert makespan_ms(run) == (3 + 60) + (3 + 40)
    # A fifth minibatch has nobody to sync with.
    alone = pipedream(4, 5, replicas=[4], costs={"weights": "40 MB"}, cluster={"inter_node": {"bandwidth": "1 GB/s"}})
    assert row(alone, 0) == "0F0 0B0 0REDUCE_GRAD0 0F4 0B4"
    assert makespan_ms(alone) == (3 + 60) + 3


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_data_parallelism_alone(n: int) -> None:
    """A copy of the model per rank: 2(n-1)/n·|w| bytes for each minibatch (SOSP'19, figure 17), and the link's time."""
    run = pipedream(n, 4 * n, replicas=[n], costs={"weights": "24 MB"}, cluster={"inter_node": {"bandwidth": "1 GB/s"}})
    per_minibatch = 2 * (n - 1) * 24 * MB // n
    assert sync_bytes(run) == [4 * per_minibatch] * n
    assert makespan_ms(run) == 4 * (3 + per_minibatch / MB)
    versions, stale = staleness.weight_versions(run), staleness.staleness(run)
    assert versions is not None
    assert stale is not None
    assert (versions.tolist(), stale.tolist()) == ([1] * n, [0] * n)


def test_model_parallelism_alone() -> None:
    """One minibatch in flight: every minibatch takes all stages' 12 ms, and one device of four is busy."""
    run = pipedream(4, 20, in_flight=1)
    assert makespan_ms(run) == 20 * 12
    assert throughput.period_s(run) == 0.012
    assert throughput.steady_bubble_ratio(run) == 0.75


def test_optimizer_runs_after_every_backward() -> None:
    """F=1, B=2 and 0.5 for the update: the period is 3.5 on every stage."""
    run = pipedream(3, 60, costs={"optimizer": "500 us"})
    assert row(run, 2).startswith("2F0 2B0 2OPTIM0 2F1 2B1 2OPTIM1 ")
    assert throughput.period_s(run) == 0.0035


def test_optimizer_of_copies_runs_once_a_round_after_its_sync() -> None:
    run = pipedream(2, 4, replicas=[2], costs={"optimizer": "1 ms", "weights": "0 B"})
    assert row(run, 0) == "0F0 0B0 0REDUCE_GRAD0 0OPTIM0 0F2 0B2 0REDUCE_GRAD2 0OPTIM2"
    assert makespan_ms(run) == 2 * (3 + 1)


def test_copies_of_the_whole_pipeline_sync_after_every_backward() -> None:
    """2 pipelines of 2 stages with 8 MB each: every backward is followed by 2·1/2·8 MB on the rank's NIC, 8 ms.

    So every minibatch takes a rank 1 + 2 + 8 ms.
    """
    cluster = {"ranks_per_node": 2, "intra_node": "free", "inter_node": {"bandwidth": "1 GB/s"}}
    run = pipedream(2, 60, {"data_parallel": 2}, costs={"weights": "8 MB"}, cluster=cluster)
    assert sync_bytes(run) == [60 * 8 * MB] * 2
    assert throughput.period_s(run) == pytest.approx(0.011)


@st.composite
def replicated(draw: st.DrawFn) -> dict[str, Any]:
    copies = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    bandwidth, latency = draw(st.sampled_from(["100 MB/s", "3 GB/s"])), draw(st.sampled_from(["0 s", "1 ms"]))
    link = {"bandwidth": bandwidth, "latency": latency}
    costs = {
        "forward": [f"{draw(st.integers(0, 5))} ms" for _ in copies],
        "backward": [f"{draw(st.integers(1, 9))} ms" for _ in copies],
        "message": draw(st.sampled_from(["0 B", "1 MB"])),
        "weights": draw(st.sampled_from(["0 B", "90 MB"])),
        "activation": "5 MB",
    }
    case: dict[str, Any] = {"replicas": copies, "costs": costs, "cluster": {"inter_node": link}}
    if draw(st.booleans()):
        case["in_flight"] = draw(st.integers(1, noam(copies)[0]))
    case["vertical_sync"] = draw(st.booleans())
    case["runtime"] = {"send": draw(st.sampled_from(["overlapped", "blocking"]))}
    return case | {"p": sum(copies), "m": draw(st.integers(1, 25))}


@settings(max_examples=80, deadline=None)
@given(replicated())
def test_any_replication_runs_to_its_end(case: dict[str, Any]) -> None:
    """No deadlock; all memory but what is held throughout comes back; what PipeDream promises of versions holds.

    A minibatch that is in flight on a rank needs one version, so that there are at most as many besides the current one
    (without vertical sync, which needs versions for minibatches elsewhere, too).
    """
    run = pipedream(**case)
    curves = memory.curves(run)
    for rank in range(run.plan.ops.ranks):
        assert np.array_equal(curves.bytes[curves.rank == rank][-1], run.plan.static[:, rank])
    versions, stale = staleness.weight_versions(run), staleness.staleness(run)
    assert versions is not None
    assert stale is not None
    assert (versions >= 1).all()
    assert (stale >= 0).all()
    if not case["vertical_sync"]:
        in_flight = memory.peak_in_flight(run)
        assert (versions <= in_flight + 1).all()
        assert (stale <= np.maximum(in_flight - 1, 0)).all()


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ({"replicas": [3, 2]}, "schedule.replicas: 3 + 2 = 5 ranks, the pipeline has 4"),
        ({"replicas": [4, 0]}, "schedule.replicas.1: stage 1 is on 0 ranks; at least 1"),
        ({"replicas": []}, "schedule.replicas: the list has 0 values, expected 1"),
        (
            {"in_flight": 5},
            "schedule.in_flight: 5 is more than the 4 minibatches per rank of the first stage that keep 4 ranks busy "
            "(NOAM); at most 4",
        ),
        ({"vertical_sync": 1}, "schedule.vertical_sync: 1 is neither true nor false"),
    ],
)
def test_mistakes_are_named(schedule: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pipedream(4, 8, **schedule)
    assert str(caught.value) == message


def test_a_stream_has_no_batch_to_normalise_over() -> None:
    with pytest.raises(ConfigError, match="'pipedream' has no batch to wait for") as caught:
        pipedream(4, 8, {"batch_sync": "all"})
    assert str(caught.value).startswith("pipeline.batch_sync: ")


def test_lists_of_costs_with_copies_are_per_stage() -> None:
    """With replicated stages a list per rank says nothing clear."""
    with pytest.raises(ConfigError, match="replicated stages; use 'per: stage' with 2 values"):
        pipedream(4, 8, replicas=[3, 1], costs={"per": "rank", "forward": ["1 ms"] * 4})


def test_placement_names_the_copies() -> None:
    assert PipeDream(replicas=[3, 1]).placement(4).ranks_of == ((0, 1, 2), (3,))
    assert PipeDream().placement(4).name == "loop"
