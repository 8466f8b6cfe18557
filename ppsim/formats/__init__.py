"""Other people's files: what ``ppsim export CONFIG --format …`` writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TextIO

from ppsim import dialects
from ppsim.errors import FormatError
from ppsim.formats import chrome_trace, torch_csv
from ppsim.ops import Orders
from ppsim.result import Result

Writer = Callable[[Result, TextIO], None]


class Format(NamedTuple):
    """A format that results are exported in."""

    description: str
    write: Writer


def _orders_of_a_step(result: Result) -> Orders:
    """The order, if it is one of a step; an asynchronous schedule's is of its whole stream."""
    if result.plan.asynchronous:
        raise FormatError(
            "an asynchronous schedule updates its weights after every backward; PyTorch's runtime has one update per "
            "step: take 1f1b, its synchronous form"
        )
    return result.orders


def _compute_only(result: Result, stream: TextIO) -> None:
    stream.write(torch_csv.compute_only(_orders_of_a_step(result)))


def _compute_only_old(result: Result, stream: TextIO) -> None:
    stream.write(torch_csv.compute_only(_orders_of_a_step(result), "torch-old"))


def _compute_comms(result: Result, stream: TextIO) -> None:
    stream.write(torch_csv.compute_comms(_orders_of_a_step(result)))


def _compute_comms_deferred(result: Result, stream: TextIO) -> None:
    stream.write(torch_csv.compute_comms(_orders_of_a_step(result), defer=True))


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
        "the same with receives as late as is safe (PyTorch's defer_pp_recv)", _compute_comms_deferred
    ),
    "order": Format("ppsim's own order file, for {schedule: {name: file, path: …}}", _order),
    "chrome-trace": Format("timeline, messages and memory for ui.perfetto.dev or chrome://tracing", chrome_trace.write),
}
"""Every format by the name that the command line calls it."""
