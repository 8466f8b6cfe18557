"""PyTorch as the judge: it loads and validates what we export, and puts SEND and RECV where we do.

Run with ``pip install torch``; written for 2.13.
"""

from __future__ import annotations

import io
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from ppsim.formats import comms, that, torch_csv
from ppsim.formats.torch_live import from_torch
from ppsim.ops import Orders
from ppsim.ops import orderfile as dialects
from tests.formats import torch_stages
from tests.goldens import Case, cases
from tests.simulated import simulate

torch: Any = pytest.importorskip("torch", reason="needs PyTorch (pip install torch)")
schedules: Any = pytest.importorskip(
    "torch.distributed.pipelining.schedules", reason="needs PyTorch (pip install torch)"
)
pytestmark = pytest.mark.torch

CLASSES = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved_1f1b": "Interleaved1F1B",
    "looped_bfs": "LoopedBFS",
    "interleaved_zb": "InterleavedZeroBubble",
    "zbv": "ZBVZeroBubble",
    "dualpipev": "DualPipeV",
}
"""Our names and PyTorch's."""
OF_TORCH = [case for case in cases(*CLASSES) if case.framework == "pytorch"]
OF_OTHERS = cases(
    "megatron_1f1b", "megatron_interleaved", "deepspeed_1f1b", "alpa_eager_1f1b", "sail_zb", "sail_vgreedy"
)


def stages(case: Case) -> int:
    return case.ranks * case.virtual_stages


def golden(case: Case) -> Orders:
    return Orders.of(dialects.read(case.orders_text()))


def live(case: Case) -> Any:
    return torch_stages.live(CLASSES[case.schedule], case.ranks, case.microbatches, case.virtual_stages)


def test_there_are_golden_cases_of_every_class() -> None:
    assert {case.schedule for case in OF_TORCH} == set(CLASSES)


@pytest.mark.parametrize("case", [*OF_TORCH, *OF_OTHERS], ids=str)
def test_torch_loads_and_validates_the_compute_only_file(case: Case, tmp_path: Path) -> None:
    """``_load_csv`` calls ``_validate_schedule``, which raises for an illegal one."""
    path = tmp_path / "order.csv"
    path.write_text(torch_csv.compute_only(golden(case)))
    loaded = torch_stages.runtime(case.ranks, case.microbatches, stages(case))
    loaded._load_csv(str(path), format="compute_only")
    assert torch_stages.table(loaded.pipeline_order) == [row.split(",") for row in path.read_text().splitlines()]


@pytest.mark.parametrize("defer", [False, True], ids=["early", "deferred"])
@pytest.mark.parametrize("case", [*OF_TORCH, *OF_OTHERS], ids=str)
def test_our_lowering_is_torchs(case: Case, defer: bool, tmp_path: Path) -> None:
    """What PyTorch makes of the compute-only file equals our file with communication, which it loads, too.

    PyTorch frees stages in the order of a Python set, which means nothing: neighbouring RESHARDs are compared sorted.
    Where its rule for late receives mixes messages up, ours doesn't, so that they differ.
    """
    path = tmp_path / "comms.csv"
    path.write_text(torch_csv.compute_comms(golden(case), defer=defer))
    ours = torch_stages.runtime(case.ranks, case.microbatches, stages(case))
    ours._load_csv(str(path), format="compute_comms")
    theirs = _lowered_by_torch(case, defer, tmp_path)
    same = _reshards_sorted(ours.pipeline_order_with_comms) == _reshards_sorted(theirs.pipeline_order_with_comms)
    assert same == (comms.first_mix_up(from_torch(theirs, comms=True).listed) is None)
    assert same or defer


def test_torchs_late_receives_mix_messages_up_in_a_v(tmp_path: Path) -> None:
    """ZB-V on two ranks: rank 0 sends F0, F1, F2 and then B0; rank 1 needs B0 before F2, and receives it third."""
    case = next(c for c in OF_TORCH if (c.schedule, c.ranks, c.microbatches) == ("zbv", 2, 3))
    theirs = from_torch(_lowered_by_torch(case, True, tmp_path), comms=True)
    got, meant = comms.first_mix_up(theirs.listed) or (None, None)
    assert (str(got), str(meant)) == ("2RECV_B0", "1RECV_F2")


@pytest.mark.parametrize("case", [*OF_TORCH, *OF_OTHERS], ids=str)
def test_early_receives_are_torchs_add_send_recv(case: Case) -> None:
    """The pass by itself, on compute ops alone."""
    order = golden(case)
    home = comms.homes(order)
    theirs = schedules._add_send_recv(torch_stages.actions(dialects.write(order)), home.__getitem__, stages(case))
    expected = [",".join(row) for row in torch_stages.table(theirs)]
    assert dialects.write(comms.early_receives(order)).splitlines() == expected


@pytest.mark.parametrize("case", [case for case in OF_TORCH if "OVERLAP" not in case.orders_text()], ids=str)
def test_torchs_dry_run_gets_through_our_sends_and_receives(case: Case) -> None:
    """``_simulate_comms_compute`` raises where an order gets stuck; it knows no fused pairs."""
    order = golden(case)
    early = comms.early_receives(order)
    for spelled_out in (early, comms.deferred_receives(early), comms.deferred_receives(early, lower_rank_first=True)):
        actions = torch_stages.actions(dialects.write(spelled_out))
        done = schedules._simulate_comms_compute(actions, comms.homes(order).__getitem__, stages(case))
        assert sum(map(len, torch_stages.table(done))) == len(spelled_out)


@pytest.mark.parametrize("case", OF_TORCH, ids=str)
def test_live_objects_hold_the_golden_orders(case: Case) -> None:
    """The golden files hold what PyTorch really runs; Schedule1F1B's own table is off by one on the last rank."""
    schedule = from_torch(live(case))
    assert (schedule.name, schedule.order) == (type(live(case)).__name__, case.orders_text())


@pytest.mark.parametrize("case", [case for case in OF_TORCH if case.schedule not in ("gpipe", "1f1b")], ids=str)
def test_a_live_objects_own_communication_is_kept_on_request(case: Case) -> None:
    """The single-stage classes have none."""
    theirs = live(case)
    rows = torch_stages.table(theirs.pipeline_order_with_comms)
    assert from_torch(theirs, comms=True).order.splitlines() == [",".join(row) for row in rows]


@pytest.mark.parametrize("microbatches", [4, 8, 12])
@pytest.mark.parametrize("schedule", CLASSES)
def test_an_export_is_what_torchs_own_class_would_run(schedule: str, microbatches: int, tmp_path: Path) -> None:
    """Our schedule, exported, is loaded and equals the class's own tables; and that class, live, simulates the same.

    DualPipeV needs as many microbatches as stages, 2p.
    """
    ranks = 4 if microbatches >= 8 else 2
    result = simulate(schedule, ranks, microbatches)
    path = tmp_path / "order.csv"
    theirs = torch_stages.live(CLASSES[schedule], ranks, microbatches)
    per_rank = len(result.plan.placement.stages_of[0])
    for name, format_ in (("torch-csv", "compute_only"), ("torch-csv-comms", "compute_comms")):
        stream = io.StringIO()
        that("export")[name].run(result, stream)
        path.write_text(stream.getvalue())
        ours = torch_stages.runtime(ranks, microbatches, ranks * per_rank)
        ours._load_csv(str(path), format=format_)
        assert dialects.write(from_torch(ours).listed) == dialects.write(from_torch(theirs).listed)
        if hasattr(theirs, "pipeline_order_with_comms"):
            expected = _reshards_sorted(theirs.pipeline_order_with_comms)
            assert _reshards_sorted(ours.pipeline_order_with_comms) == expected
    again = simulate(from_torch(theirs), ranks, microbatches)
    assert again.timeline.makespan == result.timeline.makespan


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "format_"),
    [
        ("1f1b", "torch-csv-comms"),
        ("zbv", "torch-csv-comms"),
        ("zbv", "torch-csv-comms-deferred"),
        ("interleaved_1f1b", "torch-csv-comms-deferred"),
    ],
)
def test_an_export_trains(schedule: str, format_: str, tmp_path: Path) -> None:
    """Two processes run a step in our order; the gradients are those of the step without a pipeline.

    With PyTorch's own late receives (ScheduleZBVZeroBubble, defer_pp_recv) they aren't.
    """
    from tests.formats import torch_train

    microbatches = 4
    result = simulate(schedule, 2, microbatches)
    path = tmp_path / "order.csv"
    with path.open("w") as stream:
        that("export")[format_].run(result, stream)
    command = [sys.executable, "-m", "tests.formats.torch_train", str(path)]
    root = Path(__file__).parents[2]
    running = [subprocess.Popen([*command, str(rank), str(microbatches)], cwd=root) for rank in range(2)]
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    found = {**torch.load(path.with_suffix(".0")), **torch.load(path.with_suffix(".1"))}
    for stage, expected in torch_train.whole_step(result.problem.stages, microbatches).items():
        for parameter, gradient in zip(found[stage], expected, strict=True):
            assert parameter == pytest.approx(gradient, abs=1e-6)  # float32: sums over microbatches round otherwise


def _lowered_by_torch(case: Case, defer: bool, tmp_path: Path) -> Any:
    path = tmp_path / "order.csv"
    path.write_text(torch_csv.compute_only(golden(case)))
    lowered = torch_stages.runtime(case.ranks, case.microbatches, stages(case))
    lowered._defer_pp_recv = defer
    lowered._load_csv(str(path), format="compute_only")
    return lowered


def _reshards_sorted(order: dict[int, list[Any]]) -> list[list[str]]:
    rows = []
    for row in torch_stages.table(order):
        runs = ((is_reshard, list(run)) for is_reshard, run in groupby(row, lambda text: text.endswith("RESHARD")))
        rows.append([text for is_reshard, run in runs for text in (sorted(run) if is_reshard else run)])
    return rows
