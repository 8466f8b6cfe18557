"""BPipe: 1F1B with activation balancing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppsim.errors import ConfigError
from ppsim.metrics import Run, memory
from ppsim.ops import Kind
from tests.marks import rest_slow
from tests.runs import MS, makespan_ms, most_at_once, row, simulated

MB = 10**6


def bpipe(p: int, m: int, schedule: Any = "bpipe", **settings: Any) -> Run:
    costs = {"activation": "1 MB", **settings.pop("costs", {})}
    return simulated(schedule, {"ranks": p, "microbatches": m, **settings.pop("pipeline", {})}, costs=costs, **settings)


def held_at_once(run: Run) -> list[int]:
    """The most activations, own and the partner's, that lie on each rank at one instant; in flight, at both ends.

    Counted from the ops' and moves' times alone: an activation lies on its rank from its F's start, on the partner from
    its EVICT's start until its LOAD's arrival, here again from its LOAD's start, until its B's end.
    """
    plan, timeline = run.plan, run.timeline
    move_of = {
        int(i): move for move, i in enumerate(plan.transfers.issuer) if plan.ops.kind[i] in (Kind.EVICT, Kind.LOAD)
    }
    columns = (plan.ops.kind, plan.ops.stage, plan.ops.microbatch, plan.ops.step)
    row_of = {key: i for i, key in enumerate(zip(*(column.tolist() for column in columns), strict=True))}
    spans: list[list[tuple[int, int]]] = [[] for _ in range(plan.ops.ranks)]
    for (kind, *which), forward in row_of.items():
        if kind != Kind.F:
            continue
        home, begin = int(plan.ops.rank[forward]), int(timeline.start[forward])
        end = int(timeline.end[row_of[(Kind.B, *which)]])
        evict = row_of.get((Kind.EVICT, *which))
        if evict is None:
            spans[home].append((begin, end))
            continue
        out, back = move_of[evict], move_of[row_of[(Kind.LOAD, *which)]]
        spans[home] += [(begin, int(timeline.arrive[out])), (int(timeline.transfer_start[back]), end)]
        spans[int(plan.ops.peer[evict])].append((int(timeline.transfer_start[out]), int(timeline.arrive[back])))
    return [most_at_once(rank) for rank in spans]


def test_four_stages_eight_microbatches_by_hand() -> None:
    """The seed's drawing. Limit ceil(6/2) = 3: only rank 0, which needs 4, evicts, to rank 3.

    Warm-up: after 0F1 it holds 2, the forward after next (0F3) would be the 4th, so 1 goes. With 0F3 it is full; 0B1,
    the backward after 0B0, needs 1 back: 3 goes, 1 comes. In the same way 5 for 3 and 7 for 5; 7 comes back after 0B4.
    """
    run = bpipe(4, 8)
    assert row(run, 0) == (
        "0F0 0F1 0EVICT1>3 0F2 0F3 0EVICT3>3 0LOAD1<3 0B0 0F4 0B1 0F5 0EVICT5>3 0LOAD3<3 0B2 0F6 0B3 "
        "0F7 0EVICT7>3 0LOAD5<3 0B4 0LOAD7<3 0B5 0B6 0B7"
    )
    assert row(run, 1) == "1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1F5 1B3 1F6 1B4 1F7 1B5 1B6 1B7"
    # 1F1B's 3(m+p-1); rank 3 keeps its own one and a guest, ranks 1 and 2 what 1F1B keeps: p - r.
    assert makespan_ms(run) == 33
    assert held_at_once(run) == memory.peak_in_flight(run).tolist() == [3, 3, 2, 2]


def test_eight_stages_share_what_they_hold() -> None:
    """public question D39. Limit ceil(10/2) = 5: ranks 0 to 2 need 8, 7, 6 and keep 5; 3 and 4 keep their own 5 and 4.

    Ranks 5 to 7 keep 3, 2, 1 of their own and 1, 2, 3 guests. Makespan 3(32 + 7) with free links.
    """
    run = bpipe(8, 32)
    assert makespan_ms(run) == 117
    assert held_at_once(run) == memory.peak_in_flight(run).tolist() == [5, 5, 5, 5, 4, 4, 4, 4]


@pytest.mark.parametrize(
    ("move_us", "added_us"),
    [(149, (0, 0)), (150, (0, 0)), (151, (1, 200)), (200, (1200, 1200)), (300, (3600, 3600))],
)
def test_moves_cost_once_two_of_them_take_longer_than_a_forward_and_a_backward(
    move_us: int, added_us: tuple[int, int]
) -> None:
    """F=100, B=200 us, p=8, m=32, moves on ports of their own: a swap's two moves have B + F = 300 us to fly in.

    Figures of an independent simulation, given with the task: 149 adds nothing, 151 something, 200 adds 1,200 us and
    300 adds 3,600 us to 300(m+p-1).
    """
    links = [{"ranks": [x, 7 - x], "bandwidth": f"{MB * 1_000_000 / move_us} B/s"} for x in range(3)]
    costs = {"forward": "100 us", "backward": "200 us"}
    run = bpipe(8, 32, costs=costs, cluster={"intra_node": "free", "links": links})
    added = run.timeline.makespan / 1000 - 300 * 39
    assert added_us[0] <= added <= added_us[1]
    assert max(held_at_once(run)) <= 5


@pytest.mark.parametrize("p", rest_slow(range(2, 17), 8))
def test_free_links_cost_nothing_and_the_limit_holds(p: int) -> None:
    """1F1B's 3(m+p-1) for every m, and at most ceil((p+2)/2) activations anywhere."""
    for m in range(1, 41):
        run = bpipe(p, m)
        assert makespan_ms(run) == 3 * (m + p - 1), (p, m)
        assert max(held_at_once(run)) <= -(-(p + 2) // 2), (p, m)


LINK = st.one_of(
    st.none(),
    st.builds(
        lambda bandwidth, latency, overhead: {
            "bandwidth": f"{bandwidth} MB/s", "latency": f"{latency} us", "overhead": f"{overhead} us"
        },
        st.sampled_from([100, 333, 1000, 7000]),
        st.sampled_from([0, 50, 5000]),
        st.sampled_from([0, 20]),
    ),
)  # fmt: skip


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    p = draw(st.integers(2, 11))
    per_node = draw(st.integers(1, p))
    links = {"intra_node": draw(LINK) or "free", "inter_node": draw(LINK) or "free"}
    times = [draw(st.sampled_from([1, 3, 7, 40])) for _ in range(p)]
    schedule: dict[str, Any] = {"name": "bpipe"}
    if draw(st.booleans()):
        schedule["limit"] = -(-(p + 2) // 2) + draw(st.integers(0, 3))
    elif draw(st.booleans()):
        ranks = draw(st.permutations(range(p)))
        schedule["pairs"] = [[ranks[i], ranks[i + 1]] for i in range(0, p - 1, 2)][: draw(st.integers(1, p))]
    return {
        "schedule": schedule,
        "p": p,
        "m": draw(st.integers(1, 14)),
        "pipeline": {
            "steps": draw(st.integers(1, 2)),
            "recompute": draw(st.sampled_from(["none", "full", "except_last"])),
            "recompute_when": draw(st.sampled_from(["early", "late"])),
        },
        "costs": {
            "forward": [f"{t} ms" for t in times],
            "backward": [f"{2 * t + 1} ms" for t in times],
            "message": draw(st.sampled_from(["0 B", "1 MB", "5 MB"])),
        },
        "cluster": {
            "ranks_per_node": per_node,
            "placement": draw(st.sampled_from(["sequential", "pair_adjacent"])),
            "ranks_per_nic": draw(st.integers(1, per_node)),
            **links,
        },
        "runtime": {
            "send": draw(st.sampled_from(["overlapped", "blocking", "rendezvous"])),
            "barrier": draw(st.booleans()),
        },
    }


@settings(max_examples=80, deadline=None)
@given(cases())
def test_limit_holds_at_every_instant_whatever_the_links_and_the_costs(case: dict[str, Any]) -> None:
    """No deadlock (an error); own plus partner's at most the limit; loaded once, in time; memory back at its start."""
    run = bpipe(**case)
    plan, timeline = run.plan, run.timeline
    schedule = case["schedule"]
    own = [case["p"] - x for x in range(case["p"])]
    partner = {x: case["p"] - 1 - x for x in range(case["p"])}
    if "pairs" in schedule:
        partner = {a: b for pair in schedule["pairs"] for a, b in (pair, pair[::-1])}
    # A pair's fair share and one slot to swap through; a rank that needs less, or has no partner, keeps its own.
    shares = [min(own[x], -(-(own[x] + own[partner.get(x, x)] + 1) // 2)) for x in range(case["p"])]
    assert max(held_at_once(run)) <= schedule.get("limit", max(shares))

    moves = {kind: np.flatnonzero(plan.ops.kind == kind) for kind in (Kind.EVICT, Kind.LOAD)}
    ids = {
        kind: list(
            zip(
                *(column[rows].tolist() for column in (plan.ops.stage, plan.ops.microbatch, plan.ops.step)), strict=True
            )
        )
        for kind, rows in moves.items()
    }
    assert sorted(ids[Kind.EVICT]) == sorted(ids[Kind.LOAD])
    assert len(set(ids[Kind.LOAD])) == len(ids[Kind.LOAD])
    for load, backward in zip(plan.transfers.issuer, plan.transfers.consumer, strict=True):
        if plan.ops.kind[load] == Kind.LOAD:
            assert timeline.start[backward] >= timeline.arrive[plan.transfers.issuer == load][0]

    curves = memory.curves(run)
    for rank in range(plan.ops.ranks):
        assert np.array_equal(curves.bytes[curves.rank == rank][-1], plan.static[:, rank])


def test_moves_take_what_a_forward_keeps() -> None:
    """A recomputed forward keeps its input, here 1 kB of the activation's 1 MB, and that is what travels."""
    run = bpipe(4, 8, pipeline={"recompute": "full"}, costs={"stage_input": "1 kB"})
    moved = np.isin(run.plan.ops.kind[run.plan.transfers.issuer], (Kind.EVICT, Kind.LOAD))
    assert set(run.plan.routes.bytes[run.plan.transfers.route[moved]].tolist()) == {1000}


@pytest.mark.parametrize("send", ["overlapped", "blocking", "rendezvous"])
def test_send_modes_do_not_touch_moves(send: str) -> None:
    """Messages are free, the moves of pairs (0, 7) and (1, 6) slow: every mode gives the same times."""
    links = [{"ranks": [x, 7 - x], "bandwidth": "500 MB/s"} for x in range(2)]
    cluster = {"intra_node": "free", "links": links}
    runs = [bpipe(8, 12, cluster=cluster, runtime={"send": mode}) for mode in ("overlapped", send)]
    assert makespan_ms(runs[0]) > 3 * (12 + 7)
    assert np.array_equal(runs[0].timeline.start, runs[1].timeline.start)
    move = np.isin(runs[0].plan.ops.kind[runs[0].plan.transfers.issuer], (Kind.EVICT, Kind.LOAD))
    assert np.array_equal(runs[0].timeline.arrive[move], runs[1].timeline.arrive[move])


def test_blocking_send_holds_the_next_op_but_not_the_move_before_it() -> None:
    """p=4: 0EVICT1>3 is issued when 0F1 has ended, at 2 ms, although 0F1's own message (10 ms) has not left then."""
    links = [{"ranks": [0, 1], "bandwidth": "100 MB/s"}]
    run = bpipe(
        4, 4, costs={"message": "1 MB"}, cluster={"intra_node": "free", "links": links}, runtime={"send": "blocking"}
    )
    evict = int(np.flatnonzero(run.plan.ops.kind == Kind.EVICT)[0])
    forward = int(
        np.flatnonzero((run.plan.ops.kind == Kind.F) & (run.plan.ops.microbatch == 1) & (run.plan.ops.rank == 0))[0]
    )
    assert run.timeline.start[evict] == run.timeline.end[forward]
    # 0F0 ends at 1 and its message leaves at 11; 0F1 runs 11-12, its message leaves at 22, and only then 0F2 runs.
    assert run.timeline.start[evict] == 12 * MS
    assert run.timeline.start[evict + 1] == 22 * MS


def gpt(schedule: str, cluster: dict[str, Any]) -> Run:
    """A large GPT stage: 40 GB of weights and 5.5 GB of activation on 80 GB devices; messages ignored."""
    costs = {"forward": "19 ms", "backward": "38 ms", "activation": "5.5 GB", "weights": "40 GB", "gradients": "0 B"}
    return bpipe(8, 32, schedule, costs=costs, cluster={"device": {"memory": "80 GB"}, **cluster})


def test_what_does_not_fit_under_1f1b_fits_under_bpipe() -> None:
    """40 + 5.5·(p - r) GB under 1F1B: 84 on stage 0, more than the 80 GB there are; at most 40 + 5.5·5 under BPipe."""
    plain = memory.peak_bytes(gpt("1f1b", {}))
    assert (plain / 1e9).tolist() == [84, 78.5, 73, 67.5, 62, 56.5, 51, 45.5]
    assert [rank for rank, peak in enumerate(plain) if peak > 80e9] == [0]
    assert memory.peak_bytes(gpt("bpipe", {})).max() / 1e9 == 67.5


def test_pairs_on_a_node_ride_nvlink_and_cost_nothing() -> None:
    """5.5 GB takes 18.3 ms at 300 GB/s: two of them fly within B + F = 57 ms. At 10 Gbit/s one takes 4.4 s."""
    nvlink, ethernet = {"bandwidth": "300 GB/s"}, {"bandwidth": "10 Gbit/s"}
    adjacent = {"ranks_per_node": 2, "placement": "pair_adjacent", "intra_node": nvlink, "inter_node": ethernet}
    apart = {**adjacent, "placement": "sequential"}
    free = 57 * 39  # (F + B)(m + p - 1)
    assert makespan_ms(gpt("bpipe", adjacent)) == free
    assert makespan_ms(gpt("1f1b", apart)) == free
    assert makespan_ms(gpt("bpipe", apart)) > 2 * free


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ({"limit": 4}, "schedule.limit: 4 activations are too few: with these pairs of 8 ranks the least limit is 5"),
        ({"limit": 0}, "schedule.limit: 0 is too small; at least 1"),
        ({"pairs": [[0, 8]]}, "schedule.pairs.0: rank 8 is unknown; the ranks are 0 to 7"),
        ({"pairs": [[0, 7], [1, 7]]}, "schedule.pairs.1: rank 7 is in pair 0, too; a rank has one partner"),
        ({"pairs": [[3, 3]]}, "schedule.pairs.0: a pair is two different ranks, as in [0, 7]"),
        ({"pairs": [[3]]}, "schedule.pairs.0: a pair is two different ranks, as in [0, 7]"),
        ({"pairs": "mirrored"}, "schedule.pairs: 'mirrored' is not one of mirror; did you mean 'mirror'?"),
    ],
)
def test_mistakes_are_named(schedule: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        bpipe(8, 8, {"name": "bpipe", **schedule})
    assert str(caught.value) == message


def test_neighbours_as_pairs_balance_nothing() -> None:
    """Stages 0 and 1 of 4 need 4 and 3: their share and a slot to swap, ceil(8/2) = 4, is what stage 0 had anyway."""
    from ppsim.schedules.bpipe import BPipe

    schedule = BPipe(pairs=[[0, 1], [2, 3]])
    run = bpipe(4, 8, {"name": "bpipe", "pairs": [[0, 1], [2, 3]]})
    assert memory.peak_in_flight(run).tolist() == [4, 3, 2, 1]
    assert [notice.code for notice in schedule.notices(4, 8)] == ["nothing_to_balance"]
    assert [notice.code for notice in BPipe().notices(4, 8)] == []
