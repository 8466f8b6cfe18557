"""Orders as the CSV that torch.distributed.pipelining loads: a row per rank, a cell per action.

``compute_only`` is what ``_PipelineScheduleRuntime._load_csv(file)`` takes: PyTorch adds the communication itself.
``compute_comms`` is what it takes with ``format="compute_comms"`` and runs as it stands, so that all of it is spelled
out (see ``ppsim.formats.comms``). What PyTorch can't run is a FormatError that says what would do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TextIO

import numpy as np

from ppsim.analysis.result import Result
from ppsim.errors import FormatError
from ppsim.formats import comms
from ppsim.formats.base import file_format
from ppsim.ops import COMMUNICATION, NONE, Kind, Orders
from ppsim.ops import orderfile as dialects

Alphabet = Literal["torch", "torch-old"]

ELSEWHERE = {
    Kind.R: "PyTorch recomputes inside the model: use torch.utils.checkpoint there, and leave R out of the order",
    Kind.EVICT: "PyTorch doesn't move activations between ranks: take the schedule without its evictions",
    Kind.LOAD: "PyTorch doesn't move activations between ranks: take the schedule without its evictions",
    Kind.OPTIM: "PyTorch's step() ends before the optimizer: leave OPTIM out of the order",
}
"""Kinds that no PyTorch schedule has, and where what they stand for is done there."""
ADDED = (*COMMUNICATION, Kind.REDUCE_GRAD, Kind.UNSHARD, Kind.RESHARD)
"""Kinds that PyTorch adds to a compute-only schedule and refuses in one."""
OWN_FORMAT = "the format 'order' holds everything, for ppsim itself to read back"


def compute_only(orders: Orders, alphabet: Alphabet = "torch") -> str:
    """The text of a compute-only schedule; ``torch-old`` is for PyTorch before October 2024 (see ``dialects``).

    Raises FormatError, a line for each reason, where PyTorch could not load or run it.
    """
    _check(orders)
    listed = np.flatnonzero(np.isin(orders.table.kind, ADDED))
    if len(listed):
        raise FormatError(
            f"the order holds {orders.table[int(listed[0])]}, and PyTorch refuses that in a compute-only file; "
            "the format 'torch-csv-comms' keeps it"
        )
    if alphabet == "torch-old" and np.any(orders.table.group != NONE):
        raise FormatError("the order holds fused pairs, which PyTorch with the older alphabet can't read; 'torch' can")
    return dialects.write(orders, alphabet)


def compute_comms(orders: Orders, defer: bool = False) -> str:
    """The text of a schedule with communication, as PyTorch lowers it: receives early, or with ``defer`` late.

    Of late receives PyTorch 2.13's own rule mixes some up where two ranks exchange messages of both directions of a V
    (ScheduleZBVZeroBubble with ``defer_pp_recv`` trains wrongly); here they keep the order of their sends.

    Orders that list their SENDs and RECVs are written as they stand. Raises FormatError as ``compute_only`` does.
    """
    _check(orders)
    if not np.any(np.isin(orders.table.kind, COMMUNICATION)):
        orders = comms.lowered(orders)
        if defer:
            orders = comms.deferred_receives(orders, lower_rank_first=True)
    elif mixed_up := comms.first_mix_up(orders):
        got, meant = mixed_up
        raise FormatError(
            f"{got} stands where its sender has sent what {meant} receives; PyTorch matches messages between two ranks "
            "by their order: list receives in the order of their sends"
        )
    return dialects.write(orders)


@file_format("torch-csv", does="export", what="PyTorch schedule CSV, compute ops only: _load_csv(file)")
def _compute_only(result: Result, stream: TextIO) -> None:
    stream.write(compute_only(_of(result)))


@file_format("torch-csv-old", does="export", what="the same in the alphabet before October 2024: F, B, W and BW")
def _compute_only_old(result: Result, stream: TextIO) -> None:
    stream.write(compute_only(_of(result), "torch-old"))


@file_format(
    "torch-csv-comms",
    does="export",
    what='the same with sends and receives as PyTorch puts them: _load_csv(file, format="compute_comms")',
)
def _compute_comms(result: Result, stream: TextIO) -> None:
    stream.write(compute_comms(_of(result)))


@file_format(
    "torch-csv-comms-deferred",
    does="export",
    what="the same with receives as late as their order allows (PyTorch's defer_pp_recv)",
)
def _compute_comms_deferred(result: Result, stream: TextIO) -> None:
    stream.write(compute_comms(_of(result), defer=True))


def _of(result: Result) -> Orders:
    """The order, if it is one of a step and its units are microbatches, as PyTorch's always are."""
    if result.plan.asynchronous:
        raise FormatError("an asynchronous schedule runs on from step to step; PyTorch's ends each: take 1f1b")
    if len(result.problem.slices) > 1:
        raise FormatError(
            f"the schedule cuts each microbatch into {len(result.problem.slices)} slices, which hand on their keys and "
            "values; PyTorch's microbatches are apart: take the schedule that isn't cut, as 1f1b in place of seq1f1b"
        )
    return result.orders


def _check(orders: Orders) -> None:
    reasons = list(_reasons(orders))
    if reasons:
        raise FormatError("\n".join(f"not a PyTorch schedule: {reason}; {OWN_FORMAT}" for reason in reasons))


def _reasons(orders: Orders) -> Iterator[str]:
    table = orders.table
    told: set[str] = set()
    for kind, instead in ELSEWHERE.items():
        rows = np.flatnonzero(table.kind == kind)
        if len(rows) and instead not in told:
            told.add(instead)
            yield f"the order holds {table[int(rows[0])]}; {instead}"
    try:
        comms.homes(orders)
    except FormatError as error:
        yield str(error)
    if orders.after is not None:
        waits, awaited = (ops[0] for ops in orders.after)
        yield f"{waits} waits for {awaited}, though it uses nothing of it; PyTorch knows no such condition"
    if not np.any(np.isin(table.kind, (Kind.B, Kind.I))):
        yield "it has no backward, and PyTorch's runtime only trains; for inference use its _ScheduleForwardOnly"
