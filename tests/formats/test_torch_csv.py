"""Order files for PyTorch: what they hold by hand, and what can't be written; ``test_torch_itself`` is the rest."""

from __future__ import annotations

import pytest

from ppsim.errors import FormatError
from ppsim.formats import torch_csv
from ppsim.ops import Op, Orders, from_ops, parse_row

CHAIN = ("0F0 0B0", "1F0 1B0")
OWN = "the format 'order' holds everything, for ppsim itself to read back"


def orders(*rows: str) -> Orders:
    return Orders.of([parse_row(row.split()) for row in rows])


def test_compute_only_is_a_row_per_rank() -> None:
    assert torch_csv.compute_only(orders(*CHAIN)) == "0F0,0B0\n1F0,1B0\n"


def test_compute_comms_spells_everything_out() -> None:
    """By hand: rank 0 sends 0F0's output, rank 1 its gradient; each stage is gathered and synced once."""
    assert torch_csv.compute_comms(orders(*CHAIN)).splitlines() == [
        "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD",
        "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD",
    ]


def test_the_older_alphabet_has_other_letters() -> None:
    """PyTorch pull request 138886: I was B, and B was BW."""
    split = orders("0F0 0F1 0I0 0W0 0B1")
    assert torch_csv.compute_only(split, "torch-old") == "0F0,0F1,0B0,0W0,0BW1\n"
    assert torch_csv.compute_only(split) == "0F0,0F1,0I0,0W0,0B1\n"


def test_orders_that_spell_out_their_communication_are_written_as_they_stand() -> None:
    """No UNSHARD or REDUCE_GRAD is put in, either."""
    rows = ("0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0")
    assert torch_csv.compute_comms(orders(*rows)) == "".join(row.replace(" ", ",") + "\n" for row in rows)


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        (
            orders("0F0 0R0 0B0"),
            "the order holds 0R0; PyTorch recomputes inside the model: use torch.utils.checkpoint there, and leave R "
            "out of the order",
        ),
        (
            orders("0F0 0EVICT0>1 0LOAD0<1 0B0", "1F0 1B0"),
            "the order holds 0EVICT0>1; PyTorch doesn't move activations between ranks: take the schedule without its "
            "evictions",
        ),
        (
            orders("0F0 0B0 1F1 1B1", "1F0 1B0 0F1 0B1"),
            "stage 0 is on ranks 0 and 1, and PyTorch's runtime gives a stage to one rank: take a schedule whose "
            "placement does, as dualpipev in place of dualpipe",
        ),
        (
            orders("0F0 0B0 0OPTIM"),
            "the order holds 0OPTIM; PyTorch's step() ends before the optimizer: leave OPTIM out of the order",
        ),
        (
            orders("0F0", "1F0"),
            "it has no backward, and PyTorch's runtime only trains; for inference use its _ScheduleForwardOnly",
        ),
        (
            Orders.of([*orders(*CHAIN)], (from_ops([Op.parse("1F0")]), from_ops([Op.parse("0F0")]))),
            "1F0 waits for 0F0, though it uses nothing of it; PyTorch knows no such condition",
        ),
    ],
    ids=["recompute", "evict", "replicated", "optim", "forward-only", "conditions"],
)
def test_what_pytorch_cannot_run_says_what_would_do(listed: Orders, reason: str) -> None:
    for write in (torch_csv.compute_only, torch_csv.compute_comms):
        with pytest.raises(FormatError) as error:
            write(listed)
        assert str(error.value) == f"not a PyTorch schedule: {reason}; {OWN}"


def test_all_reasons_come_at_once() -> None:
    """R, EVICT and LOAD (one reason for both), no backward."""
    with pytest.raises(FormatError) as error:
        torch_csv.compute_only(orders("0F0 0R0 0EVICT0>1 0LOAD0<1", "1F0"))
    assert [line.split(";")[0] for line in str(error.value).splitlines()] == [
        "not a PyTorch schedule: the order holds 0R0",
        "not a PyTorch schedule: the order holds 0EVICT0>1",
        "not a PyTorch schedule: it has no backward, and PyTorch's runtime only trains",
    ]


def test_compute_only_refuses_what_pytorch_adds_itself() -> None:
    """PyTorch's loader does: ``Expected compute-only schedule but found communication action``."""
    with pytest.raises(FormatError, match=r"^the order holds 0SEND_F0, .*'torch-csv-comms' keeps it$"):
        torch_csv.compute_only(orders("0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"))


def test_receives_that_would_take_each_others_messages() -> None:
    """PyTorch gives messages between two ranks no names: the first receive gets the first send."""
    mixed = orders(
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1", "1RECV_F1 1RECV_F0 1F0 1F1 1B0 1SEND_B0 1B1 1SEND_B1"
    )
    with pytest.raises(FormatError) as error:
        torch_csv.compute_comms(mixed)
    assert str(error.value) == (
        "1RECV_F1 stands where its sender has sent what 1RECV_F0 receives; PyTorch matches messages between two ranks "
        "by their order: list receives in the order of their sends"
    )


def test_the_older_alphabet_has_no_fused_pairs() -> None:
    with pytest.raises(FormatError, match=r"^the order holds fused pairs"):
        torch_csv.compute_only(orders("0F0 (0F1;0B0)OVERLAP_F_B 0B1"), "torch-old")
