"""Why one run takes longer than another: where its ranks' mean time went that the other's didn't."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from ppsim.analysis.result import Result
from ppsim.units import show

SHOWN = 3
"""Parts that are named at most."""
WORTH = 0.1
"""Parts that are less than this share of the difference aren't named."""


def slower(best: Result, other: Result) -> str:
    """By how much the other run's step is longer, and which parts of a rank's mean time are more in it, or less."""
    now, then = best.summary["step_time_s"], other.summary["step_time_s"]
    if now == then:
        return "as fast"
    parts, its = _parts(best), _parts(other)
    changes = {name: its.get(name, 0.0) - parts.get(name, 0.0) for name in dict.fromkeys([*parts, *its])}
    named = sorted(changes.items(), key=lambda change: -abs(change[1]))[:SHOWN]
    said = [
        f"{_time(abs(change))} {'more' if change > 0 else 'less'} {name}"
        for name, change in named
        if abs(change) >= WORTH * abs(then - now)
    ]
    return f"{abs(then - now) / now:.1%} {'slower' if then > now else 'faster'}: {', '.join(said)} (mean of its ranks)"


def _parts(result: Result) -> dict[str, float]:
    """Seconds of a step that a rank spends on the mean, by what it does or waits for."""
    rows: list[dict[str, Any]] = result.summary["per_rank"]
    steps, ranks = result.experiment.pipeline.steps, len(rows)

    def mean(values: list[float]) -> float:
        return sum(values) / ranks / steps

    found = {
        "work": mean([row["busy_s"] - row["recompute_s"] for row in rows]),
        "recomputation": mean([row["recompute_s"] for row in rows]),
    }
    for cause in rows[0]["waits_s"]:
        found[WAITS.get(cause, cause)] = mean([row["waits_s"][cause] for row in rows])
    return found


WAITS = {
    "fill": "before the first op",
    "drain": "after the last op",
    "upstream": "waiting for other ranks",
    "transfer": "waiting for messages on their way",
    "queue": "waiting for ports",
    "blocked": "held by own sends",
    "memory": "waiting for evicted activations",
    "sync": "of gradient sync",
}
"""Causes of idle time in words that follow an amount of it."""


def _time(seconds: float) -> str:
    return show(Fraction(f"{seconds:.3g}"), "time")
