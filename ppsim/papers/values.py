"""What an expression of a paper's page may name of a simulated run, beyond the columns of its row."""

from __future__ import annotations

from typing import Any

from ppsim.analysis.result import Result
from ppsim.errors import ConfigError, did_you_mean


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


def _in(table: Any, path: str) -> Any:
    for key in path.split("."):
        table = table[key]
    if table is None:
        raise KeyError(path)
    return table
