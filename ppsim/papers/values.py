"""What an expression of a paper's page may name of a simulated run, beyond the columns of its row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ppsim.analysis.result import Result
from ppsim.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from ppsim.analysis.measured.fit import Fit


def value_of(result: Result, name: str) -> Any:
    """A figure of a run by its name.

    The summary's own (``step_time_s``, ``theory.bubble_ratio``); ``rank_0.peak_memory_bytes`` and
    ``stage_3.forward_s`` for those of a rank or a stage, ``last_rank`` for the last; ``sum.KEY``, ``max.KEY`` and
    ``min.KEY`` over all ranks; ``split.KEY`` for a part of the step by what-if; ``kept_1`` for the bytes that a forward
    of stage 1 keeps for its backward; ``bytes_sent`` over all pairs; ``bytes_through_ports`` out of all ports, gradient
    sync's among them. Raises ConfigError for anything else, and where a figure isn't known.
    """
    summary = result.summary
    head, _, rest = name.partition(".")
    try:
        if head == "split":
            from ppsim.analysis.whatif import split

            return split(result).seconds()[rest]
        if head in ("sum", "max", "min") and rest:
            gather: Any = {"sum": sum, "max": max, "min": min}[head]
            return gather(_in(row, rest) for row in summary["per_rank"])
        if head.startswith("kept_"):
            stage = int(head.removeprefix("kept_"))
            costs, again = result.problem.costs, result.experiment.pipeline.recomputed(stage) != "none"
            return float((costs.stage_input if again else costs.activation)[stage])
        if head == "bytes_sent":
            return sum(pair["bytes"] for pair in summary["pairs"])
        if head == "bytes_through_ports":
            return sum(port["bytes"] for port in summary["links"] if port["port"].endswith("egress"))
        if head == "last_rank":
            return _in(summary["per_rank"][-1], rest)
        for kind, rows in (("rank_", "per_rank"), ("stage_", "per_stage")):
            if head.startswith(kind) and head.removeprefix(kind).isdigit():
                return _in(summary[rows][int(head.removeprefix(kind))], rest)
        return _in(summary, name)
    except (KeyError, IndexError, TypeError, ValueError):
        hint = did_you_mean(head, summary)
        raise ConfigError(f"'{name}' is no figure of the run that is known{hint}") from None


_OF_STEP: dict[str, Callable[[Fit, int], float]] = {
    "measured_s": lambda found, place: float(found.lanes.span[place]) / 1e9,
    "replay_s": lambda found, place: float(found.replayed[place]) / 1e9,
    "replay_with_overhead_s": lambda found, place: float(found.with_overhead[place]) / 1e9,
    "no_launch_gaps_s": lambda found, place: found.slowdown.steps_s[place],
}
_OF_RUN: dict[str, Callable[[Fit], float]] = {
    "median_s": lambda found: found.measured_ns / 1e9,
    "fitted_s": lambda found: found.fitted_ns / 1e9,
    "slowdown": lambda found: found.slowdown.slowdown,
    "ideal_s": lambda found: found.slowdown.ideal_s,
}


def of_trace(found: Fit, name: str, row: Mapping[str, Any]) -> float:
    """A figure of a fitted trace by its name.

    Of the step that the row's ``step`` names, from its first op's start to its last one's end: ``measured_s``;
    ``replay_s``, with every op's own time; ``replay_with_overhead_s``, with the fitted gap before each op, too;
    ``no_launch_gaps_s``, as the what-if of stragglers has it. Of the median step: ``fitted_s``, from constants alone,
    and ``median_s``, as it was measured. Of the whole run ``slowdown``; ``ideal_s``, the step in which every op takes
    what is usual for its kind; and ``factor`` of the stage, kind or data_parallel rank that the row's ``part`` and
    ``of`` name. Raises ConfigError for anything else.
    """
    try:
        if name == "factor":
            return found.slowdown.factors()[row["of"]][str(row["part"])]
        return (
            _OF_STEP[name](found, found.lanes.steps.index(int(row["step"])))
            if name in _OF_STEP
            else _OF_RUN[name](found)
        )
    except (KeyError, ValueError):
        raise ConfigError(f"'{name}' is no figure of the trace, or its row names no step or part of it") from None


def _in(table: Any, path: str) -> Any:
    for key in path.split("."):
        table = table[key]
    if table is None:
        raise KeyError(path)
    return table
