"""Other people's files: what ``ppsim export CONFIG --format …`` writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TextIO

from ppsim.analysis.result import Result
from ppsim.errors import FormatError
from ppsim.formats import chrome_trace, torch_csv
from ppsim.ops import Orders
from ppsim.ops import orderfile as dialects

Writer = Callable[[Result, TextIO], None]


class Format(NamedTuple):
    """A format that results are exported in."""

    description: str
    write: Writer


def _for_torch(result: Result) -> Orders:
    """The order, if it is one of a step and its units are microbatches, as PyTorch's always are."""
    if result.plan.asynchronous:
        raise FormatError("an asynchronous schedule runs on from step to step; PyTorch's ends each: take 1f1b")
    if len(result.problem.slices) > 1:
        raise FormatError(
            f"the schedule cuts each microbatch into {len(result.problem.slices)} slices, which hand on their keys and "
            "values; PyTorch's microbatches are apart: take the schedule that isn't cut, as 1f1b in place of seq1f1b"
        )
    return result.orders


def _compute_only(result: Result, stream: TextIO) -> None:
    stream.write(torch_csv.compute_only(_for_torch(result)))


def _compute_only_old(result: Result, stream: TextIO) -> None:
    stream.write(torch_csv.compute_only(_for_torch(result), "torch-old"))


def _compute_comms(result: Result, stream: TextIO) -> None:
    stream.write(torch_csv.compute_comms(_for_torch(result)))


def _compute_comms_deferred(result: Result, stream: TextIO) -> None:
    stream.write(torch_csv.compute_comms(_for_torch(result), defer=True))


def _order(result: Result, stream: TextIO) -> None:
    stream.write(dialects.write(result.orders))


FORMATS: dict[str, Format] = {
    "torch-csv": Format("PyTorch schedule CSV, compute ops only: _load_csv(file)", _compute_only),
    "torch-csv-old": Format("the same in the alphabet before October 2024: F, B, W and BW", _compute_only_old),
    "torch-csv-comms": Format(
        'PyTorch schedule CSV with sends and receives as PyTorch puts them: _load_csv(file, format="compute_comms")',
        _compute_comms,
    ),
    "torch-csv-comms-deferred": Format(
        "the same with receives as late as their order allows (PyTorch's defer_pp_recv)", _compute_comms_deferred
    ),
    "order": Format("ppsim's own order file, for {schedule: {name: file, path: …}}", _order),
    "chrome-trace": Format("timeline, messages and memory for ui.perfetto.dev or chrome://tracing", chrome_trace.write),
}
"""Every format by the name that the command line calls it."""
