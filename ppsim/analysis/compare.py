"""Results side by side: one table, and who is on the Pareto front of time against memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ppsim.analysis import whatif
from ppsim.analysis.alternatives import MOST_OPS
from ppsim.analysis.limit import lines
from ppsim.analysis.measured.result import MeasuredResult
from ppsim.analysis.measured.run import compute_span
from ppsim.analysis.result import Result
from ppsim.analysis.simulate import simulate
from ppsim.config.resolved import operations
from ppsim.engine.timeline import PER_SECOND
from ppsim.errors import PpsimError, shown
from ppsim.metrics.throughput import period_s

if TYPE_CHECKING:
    import pandas as pd


Some = Result | MeasuredResult
STEPS = 4
"""Enough for the period of steps without a barrier to be seen."""


class Gain(NamedTuple):
    """What a step takes, in seconds, among many without a barrier: of one schedule, and of one that it then beats."""

    schedule: str
    period_s: float
    than: str
    than_period_s: float


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Some results, their what-if splits, and what there is to say of them beside each other.

    Of a measured run only what was measured is known; the rest is None.
    """

    results: tuple[Some, ...]

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.labels)}>"

    @cached_property
    def splits(self) -> tuple[whatif.Split | None, ...]:
        """The what-if split of each; None of a measured run, which can't be run again with free links."""
        return tuple(whatif.split(result) if isinstance(result, Result) else None for result in self.results)

    @property
    def measured(self) -> bool:
        """Whether there are measured runs among them."""
        return any(isinstance(result, MeasuredResult) for result in self.results)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A short name of each: its schedule, where that tells them apart, else its experiment's name too."""
        names = [result.schedule.name for result in self.results]
        if len(set(names)) == len(names) and not self.measured:
            return tuple(names)
        both = [f"{_name(result)}: {name}" for result, name in zip(self.results, names, strict=True)]
        return tuple(f"{label} ({number})" if both.count(label) > 1 else label for number, label in enumerate(both, 1))

    @cached_property
    def pareto(self) -> tuple[bool, ...]:
        """Whether no other result takes less time with no more memory, or less memory in no more time."""
        points = [(r.timeline.makespan, r.summary["peak_memory_bytes"]) for r in self.results]
        known = [(t, m) for t, m in points if m is not None]

        def beaten(time: int, memory: int) -> bool:
            return any(t <= time and m <= memory and (t, m) != (time, memory) for t, m in known)

        return tuple(m is not None and not beaten(t, m) for t, m in points)

    @cached_property
    def gains_over_steps(self) -> tuple[Gain, ...]:
        """Results that another one beats in a single step, and that beat it over many steps without a barrier.

        A rank of theirs has a shorter span, which is what such a step takes where the next one needn't wait. The
        periods are simulated.
        """
        found = []
        pairs = zip(self.results, self.labels, strict=True)
        simulated = [(result, label) for result, label in pairs if isinstance(result, Result)]
        for slow, label in simulated:
            rivals = [(fast, name) for fast, name in simulated if _beaten(slow, fast)]
            if not rivals:
                continue
            fast, name = min(rivals, key=lambda rival: rival[0].summary["max_span_s"])
            mine, its = _period(slow), _period(fast)
            if mine is not None and its is not None and mine < its:
                found.append(Gain(label, mine, name, its))
        return tuple(found)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """One row per result; keys end in their unit."""
        return [
            self._row(result, label, split, best)
            for result, label, split, best in zip(self.results, self.labels, self.splits, self.pareto, strict=True)
        ]

    @staticmethod
    def _row(result: Some, label: str, split: whatif.Split | None, on_front: bool) -> dict[str, Any]:
        s = result.summary
        peaks = [rank["peak_memory_bytes"] for rank in s["per_rank"]]
        flying = [rank["peak_in_flight"] for rank in s["per_rank"]]
        pairs = s["pairs"]
        held = result.plan.placement.stages_of
        return {
            "schedule": label,
            "makespan_s": s["makespan_s"],
            "bubble_ratio": s["bubble_ratio"],
            "bubble_overhead": s["bubble_overhead"],
            "max_span_s": s["max_span_s"],
            **(dict.fromkeys(f"{part}_s" for part in whatif.PARTS) if split is None else split.seconds()),
            "peak_memory_bytes": None if None in peaks else max(peaks),
            "least_memory_bytes": None if None in peaks else min(peaks),
            "peak_in_flight": None if None in flying else max(flying),
            "fits": s["fits"],
            "weight_copies": sum(map(len, held)) / result.plan.placement.stages,
            "messages": None if pairs is None else sum(pair["messages"] for pair in pairs),
            "message_bytes": None if pairs is None else sum(pair["bytes"] for pair in pairs),
            "pareto": on_front,
            "limit": lines(result)[0] if isinstance(result, Result) else result.limit,
            "compute_span_s": compute_span(result.run) / PER_SECOND,
        }

    @cached_property
    def table(self) -> pd.DataFrame:
        """``rows`` as a DataFrame, a row per result."""
        import pandas as pd

        return pd.DataFrame(self.rows).set_index("schedule")


def _name(result: Some) -> str:
    return f"measured {result.name}" if isinstance(result, MeasuredResult) else result.experiment.name


def _beaten(slow: Result, fast: Result) -> bool:
    """Whether ``slow`` takes more memory and no less time in its step, though each of its ranks has a shorter span."""
    a, b = slow.summary, fast.summary
    return bool(
        a["makespan_s"] >= b["makespan_s"]
        and a["peak_memory_bytes"] > b["peak_memory_bytes"]
        and a["max_span_s"] < min(b["max_span_s"], b["makespan_s"])
        and not (slow.plan.asynchronous or fast.plan.asynchronous)
    )


def _period(result: Result) -> float | None:
    """Seconds of a step among several without a barrier; None where simulating them takes long."""
    experiment = result.experiment
    if STEPS * operations(experiment) > MOST_OPS:
        return None
    pipeline = experiment.pipeline.model_copy(update={"steps": STEPS})
    runtime = experiment.runtime.model_copy(update={"barrier": False})
    several = simulate(experiment.model_copy(update={"pipeline": pipeline, "runtime": runtime}))
    return period_s(several.run)


def compare(results: Sequence[Some]) -> Comparison:
    """Some results beside each other. Raises PpsimError where there are none."""
    if not results:
        raise PpsimError("compare: there is no result to compare; give at least one")
    if wrong := [result for result in results if not isinstance(result, Some)]:
        raise PpsimError(f"compare takes results, as simulate gives them, not {shown(wrong[0])}")
    return Comparison(tuple(results))
