"""The passes that spell out communication: by hand, by a published order, by what they keep, and simulated."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import pytest

from ppsim.analysis.result import Result
from ppsim.errors import DeadlockError, FormatError
from ppsim.formats import comms
from ppsim.formats.torch_live import ExplicitOrders
from ppsim.ops import COMMUNICATION, Kind, Op, Orders, parse_row
from ppsim.ops import orderfile as dialects
from tests.goldens import Case, cases
from tests.simulated import ms, simulate

ONE_RANK_PER_STAGE = [case for case in cases() if case.extra.get("placement") != "bidirectional"]
SIMULATED = [
    c for c in ONE_RANK_PER_STAGE if len(c.orders_text()) < 4000 and "R" not in c.orders_text().replace("OVERLAP", "")
]


def orders(*rows: str) -> Orders:
    return Orders.of([parse_row(row.split()) for row in rows])


def rows(order: Orders) -> list[str]:
    return [row.replace(",", " ") for row in dialects.write(order).splitlines()]


# pytorch/pytorch#172668: two ranks with two stages each, on GPUs where a receive holds the device until its data is
# there. As PyTorch lowered it, and with the receives put right before their use by hand; both as published there.
COMPUTE = ("0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1", "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1")
ASAP = (
    "0F0 0SEND_F0 2RECV_F0 0F1 0SEND_F1 2RECV_F1 2F0 2SEND_F0 2F1 2SEND_F1 2RECV_B0 2B0 2SEND_B0 2RECV_B1 2B1 2SEND_B1 "
    "0RECV_B0 0B0 0RECV_B1 0B1",
    "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 3RECV_F0 3F0 3RECV_F1 3B0 3SEND_B0 1RECV_B0 3F1 3B1 3SEND_B1 1RECV_B1 "
    "1B0 1SEND_B0 1B1 1SEND_B1",
)
LATE = (
    "0F0 0SEND_F0 0F1 0SEND_F1 2RECV_F0 2F0 2SEND_F0 2RECV_F1 2F1 2SEND_F1 2RECV_B0 2B0 2SEND_B0 2RECV_B1 2B1 2SEND_B1 "
    "0RECV_B0 0B0 0RECV_B1 0B1",
    "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 3RECV_F0 3F0 3B0 3SEND_B0 3RECV_F1 3F1 3B1 3SEND_B1 1RECV_B0 1B0 "
    "1SEND_B0 1RECV_B1 1B1 1SEND_B1",
)


def test_the_published_order_and_its_cure() -> None:
    early = comms.early_receives(orders(*COMPUTE))
    assert rows(early) == [*ASAP]
    assert rows(comms.deferred_receives(early)) == [*LATE]


def test_what_the_cure_is_worth() -> None:
    """F = 1, B = 2, free links. Late, by hand: the chain of microbatch 0 down and up is 4·1 + 4·2 = 12, and 3F1 3B1 run
    in between on rank 1: 12 + 3 = 15, which compute ops alone take, too. Early receives make it 21, as published.
    """
    early = comms.early_receives(orders(*COMPUTE))
    assert ms(_simulated(early, 2)) == 21
    assert ms(_simulated(comms.deferred_receives(early), 2)) == 15
    assert ms(_simulated(orders(*COMPUTE), 2)) == 15


def test_the_lower_rank_receives_what_it_knows_of_before_it_sends() -> None:
    """Rank 0 knows of 2RECV_F0 when it sends 0F1's output, of 2RECV_F1 when it sends 2F0's: they go before those."""
    safe = comms.deferred_receives(comms.early_receives(orders(*COMPUTE)), lower_rank_first=True)
    late = LATE[0].replace("0SEND_F1 2RECV_F0 2F0 2SEND_F0 2RECV_F1", "2RECV_F0 0SEND_F1 2F0 2RECV_F1 2SEND_F0")
    assert rows(safe) == [late, LATE[1]]


def test_late_receives_keep_the_order_of_their_sends() -> None:
    """ZB-V on two ranks: rank 0 sends F0, F1, F2, B0. Rank 1 needs B0 before F2, so that it takes F2 early as well."""
    zbv = orders(
        "0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 3W2 0I1 0W1 0I2 0W2",
        "1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2",
    )
    late = comms.deferred_receives(comms.early_receives(zbv))
    assert " 1RECV_F1 1F1 2F1 2SEND_F1 1RECV_F2 2RECV_B0 2I0 2W0 1F2 1I0 " in rows(late)[1]
    assert comms.first_mix_up(late) is None


def test_a_receive_in_the_wrong_place_is_found() -> None:
    """Rank 0 sends 0F0's output first, rank 1 expects 0F1's."""
    mixed = orders("0F0 0SEND_F0 0F1 0SEND_F1", "1RECV_F1 1RECV_F0 1F0 1F1")
    assert comms.first_mix_up(mixed) == (Op.parse("1RECV_F1"), Op.parse("1RECV_F0"))
    assert comms.first_mix_up(orders(*ASAP)) is None


def test_a_v_hands_over_on_its_rank_without_a_message() -> None:
    """Stages 1 and 2 are both on rank 1."""
    early = comms.early_receives(orders("0F0 3F0 3B0 0B0", "1F0 2F0 2B0 1B0"))
    assert rows(early) == [
        "0F0 0SEND_F0 3RECV_F0 3F0 3B0 3SEND_B0 0RECV_B0 0B0",
        "1RECV_F0 1F0 2F0 2SEND_F0 2RECV_B0 2B0 1B0 1SEND_B0",
    ]


def test_a_fused_pair_receives_before_and_sends_after() -> None:
    """The pair needs 0F1's output and 2B0's gradient; it makes 2F1's input and 0B0's gradient."""
    early = comms.early_receives(
        orders("0F0 0F1 0B0 0B1", "1F0 (1F1;1B0)OVERLAP_F_B 1B1", "2F0 2B0 2F1 2B1"),
    )
    assert rows(early)[1] == (
        "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1RECV_B0 (1F1;1B0)OVERLAP_F_B 1SEND_F1 1SEND_B0 1RECV_B1 1B1 1SEND_B1"
    )


def test_gradient_syncs_follow_the_last_weight_gradient() -> None:
    """Of stage 0 that is a W, of stage 1 a B inside a pair."""
    synced = comms.gradient_syncs(orders("0F0 1F0 0F1 1B0 0I0 1F1 0I1 (0F2;1B1)OVERLAP_F_B 0W1 0W0"))
    assert rows(synced) == ["0F0 1F0 0F1 1B0 0I0 1F1 0I1 (0F2;1B1)OVERLAP_F_B 1REDUCE_GRAD 0W1 0W0 0REDUCE_GRAD"]
    assert comms.gradient_syncs(synced) is synced


def test_three_stages_are_whole_at_a_time() -> None:
    """A rank with four: stage 3 takes 0's place and gives it back; at the end each goes when nothing more uses it."""
    sharded = comms.shards(orders("0F0 1F0 2F0 3F0 3B0 2B0 1B0 0B0"))
    assert rows(sharded) == [
        "0UNSHARD 1UNSHARD 2UNSHARD 0F0 0RESHARD 3UNSHARD 1F0 2F0 3F0 3B0 3RESHARD 0UNSHARD 2B0 2RESHARD 1B0 "
        "1RESHARD 0B0 0RESHARD"
    ]
    assert comms.shards(sharded) is sharded


@pytest.mark.parametrize("case", ONE_RANK_PER_STAGE, ids=str)
def test_what_was_there_keeps_its_order_and_every_message_has_both_ends(case: Case) -> None:
    before = Orders.of(dialects.read(case.orders_text()))
    home = comms.homes(before)
    early = comms.early_receives(before)
    for spelled_out in (early, comms.deferred_receives(early), comms.deferred_receives(early, lower_rank_first=True)):
        assert dialects.write(_without_comms(spelled_out)) == case.orders_text()
        assert comms.first_mix_up(spelled_out) is None
        sent: set[Op] = set()
        for rank, table in enumerate(spelled_out):
            steps = list(comms.units(table))
            for position, step in enumerate(steps):
                for op in step:
                    if op.kind in (Kind.F, Kind.B, Kind.I):
                        sent |= _check_ends(op, rank, position, steps, home)
        listed = {op for op in spelled_out.table if op.kind in COMMUNICATION}
        assert listed == sent


def _check_ends(op: Op, rank: int, position: int, steps: list[comms.Unit], home: dict[int, int]) -> set[Op]:
    """The messages that an op must have: its input's RECV before it, its output's SEND before the next compute op."""
    back, send, receive = (-1, Kind.SEND_F, Kind.RECV_F) if op.kind == Kind.F else (1, Kind.SEND_B, Kind.RECV_B)
    found: set[Op] = set()
    if home.get(op.stage + back, rank) != rank:
        found.add(Op(receive, op.stage, op.microbatch))
        assert (Op(receive, op.stage, op.microbatch),) in steps[:position]
    if home.get(op.stage - back, rank) != rank:
        found.add(Op(send, op.stage, op.microbatch))
        behind = takewhile(lambda step: step[0].kind in COMMUNICATION, steps[position + 1 :])
        assert (Op(send, op.stage, op.microbatch),) in behind
    return found


LINKS: dict[str, dict[str, Any]] = {
    "free": {},
    "latency": {"ranks_per_node": 1, "inter_node": {"latency": "300 us"}},
    "shared NICs": {
        "ranks_per_node": 2,
        "ranks_per_nic": 2,
        "intra_node": {"bandwidth": "4 GB/s"},
        "inter_node": {"bandwidth": "1 GB/s", "latency": "50 us"},
    },
}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("case", SIMULATED, ids=str)
def test_deferred_receives_take_as_long_as_compute_ops_alone(case: Case, link: str) -> None:
    """With buffered sends a receive right before its use waits exactly where the op itself would."""
    before = Orders.of(dialects.read(case.orders_text()))
    deferred = comms.deferred_receives(comms.early_receives(before))
    sections = {"cluster": LINKS[link], "costs": {"message": "300 kB"}}
    implicit = _simulated(before, case.microbatches, **sections)
    explicit = _simulated(deferred, case.microbatches, **sections)
    assert explicit.timeline.makespan == implicit.timeline.makespan
    if link == "free":
        assert ms(implicit) == case.makespan


@pytest.mark.parametrize("send", ["overlapped", "blocking", "rendezvous"])
@pytest.mark.parametrize("case", SIMULATED, ids=str)
def test_early_receives_never_deadlock(case: Case, send: str) -> None:
    """The pass lists them in an order in which all could run one by one, a SEND and its RECV together."""
    early = comms.early_receives(Orders.of(dialects.read(case.orders_text())))
    sections = {"cluster": LINKS["shared NICs"], "costs": {"message": "300 kB"}, "runtime": {"send": send}}
    assert not list(_simulated(early, case.microbatches, **sections).timeline.violations())


@pytest.mark.parametrize("lower_rank_first", [False, True])
def test_late_receives_deadlock_where_sends_wait_for_them(lower_rank_first: bool) -> None:
    """1F1B on two ranks: after 1F0 and 0F1 rank 1 sends its gradient while rank 0 sends its second activation.

    PyTorch's rule doesn't help: 0RECV_B0 comes after 0SEND_F1 already where receives are early.
    """
    early = comms.early_receives(orders("0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"))
    assert rows(early)[0] == "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1"
    late = comms.deferred_receives(early, lower_rank_first)
    sections: dict[str, Any] = {"costs": {"message": "1 MB"}, "cluster": LINKS["latency"]}
    assert ms(_simulated(late, 2, **sections)) > 0
    with pytest.raises(DeadlockError, match=r"the cycle: rank 0 at 0SEND_F1 .*; rank 1 at 1SEND_B0 "):
        _simulated(late, 2, **sections, runtime={"send": "rendezvous"})


def test_what_adds_nothing_without_fsdp_and_replicas_changes_no_time() -> None:
    """UNSHARD, RESHARD and, with one replica, REDUCE_GRAD take no time."""
    before = orders(*COMPUTE)
    assert ms(_simulated(comms.deferred_receives(comms.lowered(before)), 2)) == 15


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            orders("0F0 0B0 1F1 1B1", "1F0 1B0 0F1 0B1"),
            "stage 0 is on ranks 0 and 1, and PyTorch's runtime gives a stage to one rank: take a schedule whose "
            "placement does, as dualpipev in place of dualpipe",
        ),
        (
            orders("0F0 0SEND_F0", "1RECV_F0 1F0"),
            "the order holds 0SEND_F0: it spells its communication out already; write it as it stands",
        ),
    ],
    ids=["two homes", "has messages"],
)
def test_orders_that_early_receives_refuses(bad: Orders, message: str) -> None:
    with pytest.raises(FormatError) as error:
        comms.early_receives(bad)
    assert str(error.value) == message


def test_an_order_that_can_not_run_is_told_so() -> None:
    """Rank 0 wants the gradient of microbatch 0, rank 1 the activation of microbatch 1 first."""
    with pytest.raises(DeadlockError) as error:
        comms.early_receives(orders("0F0 0B0 0F1 0B1", "1F1 1B1 1F0 1B0"))
    assert str(error.value).splitlines() == [
        "no rank can go on:",
        "rank 0 at 0B0 waits for 0RECV_B0, which is never sent",
        "rank 1 at 1F1 waits for 1RECV_F1, which is never sent",
    ]


@pytest.mark.parametrize(("late", "received"), [("1F0 1RECV_F0", "1RECV_F0"), ("1F0 1RECV_B0", "1RECV_B0")])
def test_a_receive_that_nothing_uses(late: str, received: str) -> None:
    """It stands behind its op, or comes from a stage that there isn't."""
    with pytest.raises(FormatError, match=rf"^rank 1: {received}: no op behind it uses what is received$"):
        comms.deferred_receives(orders("0F0 0SEND_F0", late))


def _simulated(order: Orders, microbatches: int, **sections: Any) -> Result:
    return simulate(ExplicitOrders(order=dialects.write(order)), order.ranks, microbatches, **sections)


def _without_comms(order: Orders) -> Orders:
    return Orders.of(
        [parse_row([cell for cell in table.cells() if "SEND" not in cell and "RECV" not in cell]) for table in order]
    )
