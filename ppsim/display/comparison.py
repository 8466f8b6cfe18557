"""Results side by side, as text: a row each, and what the columns mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ppsim._words import percent, seconds, size
from ppsim.display.console import put, table_of

if TYPE_CHECKING:
    from rich.console import Console

    from ppsim.analysis.compare import Comparison


NOTES = (
    "* on the Pareto front: nothing here is faster with no more memory",
    "time = work + bubble + imbalance + recomp. + comm.; removed from the right, in this order (it matters)",
)


def comparison(found: Comparison, console: Console) -> None:
    """Print results side by side: a row each, fastest first, the Pareto front of time and memory marked."""
    order = sorted(range(len(found.rows)), key=lambda i: found.rows[i]["makespan_s"])
    table_of([compared(found.rows[i]) for i in order], console, tight=True)
    for i in order:
        row = found.rows[i]
        console.print(f"{row['schedule']}: {row['limit']}", soft_wrap=True)
    for note in notes(found):
        put(note, console)
    if found.measured:
        spans = ", ".join(f"{row['schedule']} {seconds(row['compute_span_s'])}" for row in found.rows)
        console.print(f"from the first forward to the last backward, all that is measured: {spans}", soft_wrap=True)


def notes(found: Comparison) -> Iterator[str]:
    """What there is to say below the table: who gains over several steps alone, and what the columns mean."""
    for gain in found.gains_over_steps:
        yield (
            f"{gain.schedule}: its memory pays over several steps without a barrier alone (runtime.barrier: false): "
            f"then a step takes {seconds(gain.period_s)}, {gain.than}'s {seconds(gain.than_period_s)}"
        )
    yield from NOTES


def compared(row: dict[str, Any]) -> dict[str, str]:
    """A row as text, by what its columns are called."""
    return {
        "schedule": ("* " if row["pareto"] else "  ") + row["schedule"],
        "time": seconds(row["makespan_s"]),
        "ratio": percent(row["bubble_ratio"]),
        "overhead": percent(row["bubble_overhead"]),
        "span": seconds(row["max_span_s"]),
        "work": seconds(row["work_s"]),
        "bubble": seconds(row["ideal_bubble_s"]),
        "imbalance": seconds(row["imbalance_s"]),
        "recomp.": seconds(row["recomputation_s"]),
        "comm.": seconds(row["communication_s"]),
        "peak": size(row["peak_memory_bytes"]),
        "least": size(row["least_memory_bytes"]),
        "copies": f"{row['weight_copies']:g}",
        "messages": "–" if row["messages"] is None else f"{row['messages']:,}",
    }
