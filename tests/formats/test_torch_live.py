"""Live PyTorch schedules, by stand-ins that hold what the real ones do; those are in ``test_torch_itself``."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ppsim.errors import FormatError
from ppsim.formats.torch_live import ExplicitOrders, from_torch


class Schedule1F1B(SimpleNamespace):
    """Stands in for PyTorch's class of this name."""


class _ScheduleForwardOnly(SimpleNamespace):
    """Stands in for PyTorch's class of this name."""


def test_idle_slots_and_gradient_syncs_are_left_out() -> None:
    """What runs when, and how gradients are synced, is the simulator's business."""
    order = {1: [None, "1F0", "1B0", "1REDUCE_GRAD"], 0: ["0F0", None, None, "0B0", "0REDUCE_GRAD"]}
    schedule = from_torch(Schedule1F1B(pipeline_order=order))
    assert (schedule.name, schedule.order) == ("Schedule1F1B", "0F0,0B0\n1F0,1B0\n")
    assert schedule.placement(2).stages_of == ((0,), (1,))


def test_forwards_numbered_from_1_are_numbered_from_0() -> None:
    """PyTorch 2.13's Schedule1F1B gives its last rank F1 B0 F2 B1; it runs F0 B0 F1 B1."""
    order = {0: ["0F0", "0F1", "0B0", "0B1"], 1: ["1F1", "1B0", "1F2", "1B1"]}
    assert from_torch(Schedule1F1B(pipeline_order=order)).order == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"


def test_what_the_runtime_put_in_goes_first_and_is_kept_on_request() -> None:
    """After _load_csv of a file with communication, pipeline_order is out of date."""
    lowered = {0: ["0F0", "0SEND_F0", "0RECV_B0", "0B0"], 1: ["1RECV_F0", "1F0", "1B0", "1SEND_B0"]}
    live = SimpleNamespace(pipeline_order={0: ["0F7"], 1: ["1F7"]}, pipeline_order_with_comms=lowered)
    assert from_torch(live).order == "0F0,0B0\n1F0,1B0\n"
    assert from_torch(live, comms=True).order == "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"


def test_the_inference_schedule_has_no_table_but_a_rule() -> None:
    """Its step runs the forward of every microbatch."""
    live = _ScheduleForwardOnly(pipeline_order=None, _n_microbatches=3, _num_stages=2)
    assert from_torch(live).order == "0F0,0F1,0F2\n1F0,1F1,1F2\n"


@pytest.mark.parametrize(
    ("live", "message"),
    [
        (
            "1f1b",
            "'str' holds no order of its ranks; a schedule of torch.distributed.pipelining has one in pipeline_order "
            "(a class of your own returns it from _get_pipeline_order)",
        ),
        (
            SimpleNamespace(pipeline_order=None),
            "'SimpleNamespace' holds no order of its ranks; a schedule of torch.distributed.pipelining has one in "
            "pipeline_order (a class of your own returns it from _get_pipeline_order)",
        ),
        (
            SimpleNamespace(pipeline_order={0: ["0F0"], 2: ["1F0"]}),
            "'SimpleNamespace': pipeline_order is of the ranks 0, 2; they go from 0 on without a gap",
        ),
        (
            SimpleNamespace(pipeline_order={0: ["0F0", "0X0"]}),
            "SimpleNamespace:row 1, column 2: '0X0' is not an op; an op reads stage, kind, microbatch, as in '2F0'",
        ),
    ],
    ids=["text", "no order", "a rank missing", "no op"],
)
def test_what_holds_no_order(live: object, message: str) -> None:
    with pytest.raises(FormatError) as error:
        from_torch(live)
    assert str(error.value) == message


def test_communication_that_is_not_there() -> None:
    with pytest.raises(FormatError, match=r"^'Schedule1F1B' holds no order with communication; leave comms=True out"):
        from_torch(Schedule1F1B(pipeline_order={0: ["0F0", "0B0"]}), comms=True)


def test_an_explicit_order_is_for_its_own_sizes() -> None:
    schedule = ExplicitOrders(order="0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")
    assert list(schedule.problems(2, 2)) == []
    assert list(schedule.problems(4, 8)) == [
        ("pipeline.ranks", "4 ranks, the order of explicit is for 2"),
        ("pipeline.microbatches", "8 microbatches, the order of explicit is for 2"),
    ]
