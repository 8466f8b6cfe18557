"""Result: scalars and tables of one run, the public contract."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ppsim._version import __version__
from ppsim.analysis.closed_form import closed_form
from ppsim.config.experiment import Experiment
from ppsim.config.resolved import config_id
from ppsim.engine.timeline import PER_SECOND, Column, Timeline
from ppsim.errors import Notice
from ppsim.metrics import Run, memory, rows, scalars, tables, waits
from ppsim.plan.check import CheckedOrders
from ppsim.plan.table import CATEGORIES, Plan
from ppsim.schedules.base import Problem, Schedule

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 1


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """One simulated run: ``summary`` (plain data), ``tasks``, ``transfers`` and ``memory`` (DataFrames)."""

    experiment: Experiment
    problem: Problem
    orders: CheckedOrders
    run: Run
    engine: str
    notices: tuple[Notice, ...] = ()
    spread: dict[str, Any] | None = None
    """Statistics of the repeats with random times, where the experiment asks for them."""

    def __repr__(self) -> str:
        pipeline = self.experiment.pipeline
        sizes = f"p={pipeline.ranks}, m={pipeline.microbatches}"
        time = self.timeline.makespan / PER_SECOND
        return f"<Result {self.experiment.name}: {self.schedule.label}, {sizes}, {time:g} s>"

    @property
    def schedule(self) -> Schedule:
        """What decided the order."""
        return self.experiment.schedule

    @property
    def plan(self) -> Plan:
        """What was simulated."""
        return self.run.plan

    @property
    def timeline(self) -> Timeline:
        """When everything began and ended."""
        return self.run.timeline

    @cached_property
    def summary(self) -> dict[str, Any]:
        """All figures of the run; keys end in their unit, values are SI, what can't be known is None."""
        pipeline = self.experiment.pipeline
        return {
            "schema_version": SCHEMA_VERSION,
            "name": self.experiment.name,
            "config_id": config_id(self.experiment),
            "version": __version__,
            "engine": self.engine,
            "schedule": self.schedule.name,
            "ranks": self.plan.ops.ranks,
            "microbatches": pipeline.microbatches,
            "virtual_stages": max(len(held) for held in self.plan.placement.stages_of),
            "steps": pipeline.steps,
            **scalars(self.run),
            "uncertainty": self.spread,
            "theory": self.theory,
            "per_rank": self.per_rank(),
            "per_stage": self.per_stage(),
            "links": rows(self.run, "link"),
            "pairs": rows(self.run, "pair"),
            **tables(self.run),
            "warnings": [notice._asdict() for notice in self.notices],
        }

    @cached_property
    def theory(self) -> dict[str, Any]:
        """The closed form's figures for one step beside the simulated ones; empty where none is known."""
        return closed_form(self.schedule, self.problem, self.run)

    def per_rank(self) -> list[dict[str, Any]]:
        """A row per rank: time by cause, memory by category, versions."""
        return rows(self.run, "rank") or []

    def per_stage(self) -> list[dict[str, Any]]:
        """A row per stage and rank that holds it: times of one op of weight 1, peak of its activations."""
        return rows(self.run, "stage") or []

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """One row per op: rank, step, stage, microbatch, kind, op, start_s, end_s, wait_s, wait_cause, blocked_by."""
        return _frame(self.columns("tasks"))

    @cached_property
    def transfers(self) -> pd.DataFrame:
        """One row per transfer: op, src, dst, bytes, ready_s, start_s, left_s, arrive_s, egress, ingress."""
        return _frame(self.columns("transfers"))

    @cached_property
    def memory(self) -> pd.DataFrame:
        """Memory as steps: rank, time_s, then bytes by category from that time on, and their total."""
        return _frame(self.columns("memory"))

    def columns(self, table: Literal["tasks", "transfers", "memory"]) -> dict[str, Column]:
        """One of the three tables as plain columns, without pandas, which takes longer to load than to be used."""
        if table == "transfers":
            return self.timeline.transfers()
        if table == "memory":
            found = self.run.once(memory.curves)
            by_category = {f"{name}_bytes": found.bytes[:, c] for c, name in enumerate(CATEGORIES)}
            total = found.bytes.sum(axis=1)
            return {"rank": found.rank, "time_s": found.time / PER_SECOND, **by_category, "total_bytes": total}
        wait, cause, blocker = waits.per_op(self.run)
        names = np.array([*waits.CAUSES, ""], dtype=object)
        return {
            **self.timeline.tasks(),
            "wait_s": wait / PER_SECOND,
            "wait_cause": names[np.where(wait > 0, cause, len(waits.CAUSES))],
            "blocked_by": np.array([*self.plan.ops.names, ""], dtype=object)[blocker],  # NONE is the last
        }


def _frame(columns: dict[str, Column]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(columns)
