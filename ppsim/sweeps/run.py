"""Runs the pending cases of a sweep's file, each written as it finishes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ppsim.sweeps.crew import Crew
from ppsim.sweeps.db import Row, SweepFile
from ppsim.sweeps.work import Task

Figures = dict[str, Any]


@dataclass
class Best:
    """The best case so far: the shortest step while all do the same work, else the smallest bubble."""

    step: Figures | None = None
    bubble: Figures | None = None
    work: set[float] = field(default_factory=set)

    def see(self, figures: Figures) -> None:
        """Take one more case into account; one that doesn't fit into memory is none."""
        if figures.get("fits") is False:
            return
        if len(self.work) < 2:
            self.work.add(figures["work_s"])
        if self.step is None or figures["step_time_s"] < self.step["step_time_s"]:
            self.step = figures
        if self.bubble is None or figures["bubble_ratio"] < self.bubble["bubble_ratio"]:
            self.bubble = figures

    @property
    def figure(self) -> str:
        """What the best one is best by."""
        return "step_time_s" if len(self.work) < 2 else "bubble_ratio"

    @property
    def figures(self) -> Figures | None:
        """Those of the best case."""
        return self.step if len(self.work) < 2 else self.bubble


@dataclass
class Progress:
    """How far a sweep is."""

    total: int
    done: int = 0
    failed: int = 0
    deaths: int = 0
    """How often a worker died."""
    stopped: bool = False
    best: Best = field(default_factory=Best)
    since: float = field(default_factory=time.monotonic)

    @property
    def rate(self) -> float:
        """Cases per second."""
        return self.done / max(time.monotonic() - self.since, 1e-9)


def run(
    file: SweepFile,
    crew: Crew,
    tasks: Sequence[Task],
    watch: Callable[[Progress], None],
    stop: Callable[[], bool],
) -> Progress:
    """Run the cases and write each one's row; where ``stop`` says so, only what was still running is lost."""
    progress = Progress(len(tasks))
    begun, taken = crew.begun, 0
    tasks = [task for task in tasks if task[0] not in begun]

    def source(most: int) -> list[Task]:
        nonlocal taken
        fair = -(-(len(tasks) - taken) // (2 * crew.pool.width))  # smaller batches towards the end: no worker idles
        batch = list(tasks[taken : taken + min(most, fair)])
        taken += len(batch)
        return batch

    def sink(rows: list[Row]) -> None:
        if rows:
            file.save(rows)
        progress.done += len(rows)
        progress.deaths = crew.deaths
        for row in rows:
            if row.error is None:
                progress.best.see(row.figures)
            else:
                progress.failed += 1
        watch(progress)

    progress.stopped = not crew.work(source, sink, stop)
    return progress
