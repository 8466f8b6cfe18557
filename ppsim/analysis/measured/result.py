"""A measured run as a result: the figures of a simulated one where they can be known, else None; spreads over steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ppsim._version import __version__
from ppsim.analysis.measured.clocks import Clocks, clocks, synchronised
from ppsim.analysis.measured.idle import Idle
from ppsim.analysis.measured.lanes import Lanes, lanes
from ppsim.analysis.measured.order import Order, order
from ppsim.analysis.measured.replay import Replay
from ppsim.analysis.measured.run import run_of
from ppsim.analysis.measured.table import Measured
from ppsim.analysis.measured.warmup import without_warm_up
from ppsim.analysis.result import SCHEMA_VERSION
from ppsim.engine.timeline import PER_SECOND, Timeline
from ppsim.errors import Notice, PpsimError
from ppsim.metrics import Run, rows, scalars, tables
from ppsim.ops import Kind
from ppsim.plan.table import Plan
from ppsim.schedules import Schedule

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class MeasuredResult:
    """A measured run: ``summary`` (plain data, of the step of median length), ``over_steps``, ``tasks``."""

    lanes: Lanes
    clocks: Clocks
    order: Order

    def __repr__(self) -> str:
        return f"<MeasuredResult {self.name}: {self.measured.format}, {self.timeline.makespan / PER_SECOND:g} s>"

    @property
    def measured(self) -> Measured:
        """The trace."""
        return self.lanes.measured

    @property
    def name(self) -> str:
        """What it is called beside others."""
        return self.measured.source.rstrip("/").rpartition("/")[2] or self.measured.source

    @property
    def schedule(self) -> Schedule:
        """What its order follows."""
        return self.order.schedule

    @cached_property
    def replay(self) -> Replay:
        """What waited for what."""
        return Replay(self.lanes)

    @cached_property
    def idle(self) -> Idle:
        """Why the ranks were idle."""
        return Idle(self.replay)

    @cached_property
    def median_step(self) -> int:
        """The step of median length, by its place."""
        return int(np.argsort(self.lanes.span, kind="stable")[(len(self.lanes.span) - 1) // 2])

    @cached_property
    def replica(self) -> int:
        """The one that ends last in the step of median length."""
        lanes = self.lanes
        return int(np.argmax(lanes.end[lanes.computes][:, :, self.median_step].max(axis=0)))

    @cached_property
    def run(self) -> Run:
        """The step of median length; of a trace whose times go on from step to step all of them."""
        on = self.measured.format.startswith("ppsim")
        return run_of(self.replay, self.replica, range(len(self.lanes.steps)) if on else [self.median_step])

    @property
    def plan(self) -> Plan:
        """The ops in their order."""
        return self.run.plan

    @property
    def timeline(self) -> Timeline:
        """When everything began and ended."""
        return self.run.timeline

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The keys of a simulated run's summary; what can't be known is None."""
        measured = self.measured
        return {
            "schema_version": SCHEMA_VERSION,
            "name": self.name,
            "config_id": None,
            "version": __version__,
            "engine": f"measured ({measured.format})",
            "schedule": self.schedule.name,
            "ranks": measured.ranks,
            "microbatches": measured.microbatches,
            "virtual_stages": measured.virtual_stages,
            "steps": self.plan.steps,
            **scalars(self.run),
            "peak_memory_bytes": self._peak(),
            "uncertainty": None,
            "theory": {},
            "per_rank": self._per_rank(),
            "per_stage": self._per_stage(),
            "links": None,
            "pairs": None,
            **dict.fromkeys(tables(self.run)),
            "warnings": [notice._asdict() for notice in self.notices],
            "over_steps": self.over_steps,
        }

    @cached_property
    def over_steps(self) -> dict[str, Any]:
        """Median, middle half and extremes over the steps, of the step and of its idle time by cause and rank."""
        lanes, idle = self.lanes, self.idle
        out: dict[str, Any] = {
            "steps": len(lanes.steps),
            "step_s": _spread(lanes.span / 1e9),
            "bubble_ratio": _spread(idle.bubble_ratio),
        }
        out["per_rank"] = [
            {
                "rank": rank,
                "busy_s": _spread(idle.busy[rank] / 1e9),
                "waits_s": {cause: _spread(part[rank] / 1e9) for cause, part in idle.causes.items()},
            }
            for rank in range(self.measured.ranks)
        ]
        return out

    @cached_property
    def notices(self) -> tuple[Notice, ...]:
        """What is missing, left out or taken for granted."""
        missing = [Notice("missing", "trace", text) for text in self.measured.missing]
        notes = [*self.measured.notes, *self.lanes.left_out, *self.clocks.said()]
        return (*missing, *(Notice("trace", "trace", text) for text in notes))

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """One row per op: rank, step, stage, microbatch, kind, op, start_s, end_s."""
        import pandas as pd

        return pd.DataFrame(self.timeline.tasks())

    @property
    def limit(self) -> str:
        """What most of the idle time is."""
        idle = {cause: float(part[:, :, self.median_step].sum()) for cause, part in self.idle.causes.items()}
        cause = max(idle, key=lambda name: idle[name])
        return f"{idle[cause] / max(sum(idle.values()), 1):.0%} of the idle time is {cause}"

    def _peak(self) -> int | None:
        peaks = self._peaks()
        return None if peaks is None else max(peaks)

    def _peaks(self) -> list[int] | None:
        """By rank, the median of the measured peaks over the steps."""
        memory = self.measured.memory
        if memory is None or np.any(memory < 0):
            return None
        whole = np.isin(self.measured.steps, self.lanes.steps)
        return [round(float(peak)) for peak in np.median(memory[whole], axis=0)]

    def _per_rank(self) -> list[dict[str, Any]]:
        found, peaks = rows(self.run, "rank") or [], self._peaks()
        at = (slice(None), self.replica, self.median_step)
        for rank, row in enumerate(found):
            if row.get("waits_s") is None:
                row["waits_s"] = {cause: int(part[at][rank]) / 1e9 for cause, part in self.idle.causes.items()}
            row["peak_memory_bytes"] = None if peaks is None else peaks[rank]
        return found

    def _per_stage(self) -> list[dict[str, Any]]:
        lanes = self.lanes

        def median(stage: int, *kinds: Kind) -> float | None:
            parts = [lanes.duration[(lanes.stage == stage) & (lanes.kind == kind), self.replica] for kind in kinds]
            some = [float(np.median(part)) for part in parts if part.size]
            return sum(some) / 1e9 if some else None

        return [
            {
                "stage": stage,
                "rank": rank,
                "forward_s": median(stage, Kind.F),
                "backward_s": median(stage, Kind.B) or median(stage, Kind.I, Kind.W),
                "peak_activation_bytes": None,
            }
            for rank, held in enumerate(self.measured.stages_of)
            for stage in held
        ]


def as_result(measured: Measured) -> MeasuredResult:
    """A measured run as a result. Raises PpsimError where its times aren't the device's, or no step is whole."""
    if measured.on_device is False:
        raise PpsimError(
            f"{measured.source}: its spans are those of the host, which only launches the work: what an op takes on "
            "the device isn't in it; profile with ProfilerActivity.CUDA, so that device times are recorded"
        )
    found = without_warm_up(lanes(measured))
    clock = clocks(found)
    found = synchronised(found, clock)
    return MeasuredResult(found, clock, order(found))


def _spread(values: np.ndarray) -> dict[str, float]:
    low, quarter, middle, third, high = np.percentile(values, [0, 25, 50, 75, 100])
    return {"median": float(middle), "p25": float(quarter), "p75": float(third), "min": float(low), "max": float(high)}
