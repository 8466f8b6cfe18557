"""Runs the pending cases of a sweep's file: in batches, in any number of workers, written as they finish."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any

from ppsim.sweep.cases import Base
from ppsim.sweep.db import Row, SweepFile
from ppsim.sweep.pool import Pool
from ppsim.sweep.work import Task

BATCH_S = 0.5
"""A batch is as many cases as take about that long: short beside a kill's loss, long beside a batch's cost."""
MOST_IN_BATCH = 500
TICK_S = 0.25
"""How often to look whether to stop."""
SUSPECT = 3
"""After as many workers have died over it, a case runs alone; the worker that dies then is its result."""


@dataclass
class Progress:
    """How far a sweep is."""

    total: int
    done: int = 0
    failed: int = 0
    seconds: float = 0.0
    """Of work, summed over workers."""
    restarts: int = 0
    since: float = field(default_factory=time.monotonic)
    best: Best = field(default_factory=lambda: Best())
    stopped: bool = False

    @property
    def rate(self) -> float:
        """Cases per second."""
        return self.done / max(time.monotonic() - self.since, 1e-9)


@dataclass
class Best:
    """The best case so far: the shortest step while all do the same work, else the smallest bubble."""

    step: dict[str, Any] | None = None
    bubble: dict[str, Any] | None = None
    work: set[float] = field(default_factory=set)

    def see(self, figures: dict[str, Any]) -> None:
        """Take one more case into account; one that doesn't fit is none."""
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
    def figures(self) -> dict[str, Any] | None:
        """Those of the best case."""
        return self.step if len(self.work) < 2 else self.bubble


Watch = Callable[[Progress], None]


def run(
    file: SweepFile, base: Base, pool: Pool, tasks: Sequence[Task], watch: Watch, stop: Callable[[], bool]
) -> Progress:
    """Run the cases and write each one's row; where ``stop`` says so, only what was still running is lost."""
    return _Run(file, base, pool, watch, Progress(len(tasks))).all(tasks, stop)


class _Run:
    """One go over the pending cases."""

    def __init__(self, file: SweepFile, base: Base, pool: Pool, watch: Watch, progress: Progress) -> None:
        self.file, self.base, self.pool, self.watch, self.progress = file, base, pool, watch, progress
        self.queue: deque[Task] = deque()
        self.flying: dict[Future[list[Row]], list[Task]] = {}
        self.strikes: dict[str, int] = {}

    def all(self, tasks: Sequence[Task], stop: Callable[[], bool]) -> Progress:
        self.queue.extend(tasks)
        while self.queue or self.flying:
            while self.queue and len(self.flying) < 2 * self.pool.width and self._fly():
                pass
            done, _ = wait(self.flying, timeout=TICK_S, return_when=FIRST_COMPLETED)
            if done:
                self._land(done)
            self.watch(self.progress)
            if stop():
                self.progress.stopped = bool(self.queue or self.flying)
                break
        return self.progress

    def _fly(self) -> bool:
        """Send the next batch; False where it has to wait until nothing else runs."""
        first = self.queue[0][0]
        alone = self.strikes.get(first, 0) >= SUSPECT
        if (alone and self.flying) or any(self.strikes.get(b[0][0], 0) >= SUSPECT for b in self.flying.values()):
            return False
        size = 1 if first in self.strikes else self._size()
        batch: list[Task] = []
        while self.queue and len(batch) < size and (not batch or self.queue[0][0] not in self.strikes):
            batch.append(self.queue.popleft())
        self.flying[self.pool.submit(self.base, batch)] = batch
        return True

    def _size(self) -> int:
        """Cases that take about BATCH_S, by those measured; fewer towards the end, so that no worker idles."""
        measured = self.progress.seconds / self.progress.done if self.progress.done else BATCH_S
        fair = -(-len(self.queue) // (2 * self.pool.width))
        return max(1, min(int(BATCH_S / max(measured, 1e-6)), fair, MOST_IN_BATCH))

    def _land(self, done: set[Future[list[Row]]]) -> None:
        """Write what has finished; put back what a dead worker took with it."""
        rows: list[Row] = []
        lost: list[list[Task]] = []
        for future in done:
            batch = self.flying.pop(future)
            error = future.exception()
            if error is None:
                rows += future.result()
            elif self.pool.died(error):
                lost.append(batch)
            else:
                raise self.pool.explained(error)
        if lost:
            self._restart(rows, lost)
        self.file.save(rows)
        self.progress.done += len(rows)
        self.progress.failed += sum(row.error is not None for row in rows)
        self.progress.seconds += sum(row.seconds for row in rows)
        for row in rows:
            if row.error is None:
                self.progress.best.see(row.figures)

    def _restart(self, rows: list[Row], lost: list[list[Task]]) -> None:
        """A worker died. Cases that were with it go to the end of the queue; one that was alone with it has failed."""
        self.progress.restarts += 1
        if self.pool.breaks_whole:
            wait(self.flying, timeout=10 * TICK_S)
            for future, batch in self.flying.items():
                if future.done() and future.exception() is None:
                    rows += future.result()
                else:
                    lost.append(batch)
            self.flying.clear()
        for task in (task for batch in lost for task in batch):
            strikes = self.strikes.get(task[0], 0) + 1
            self.strikes[task[0]] = strikes
            if strikes > SUSPECT:
                rows.append(Row(task[0], 0.0, error="its worker process died: killed, or out of memory"))
            else:
                self.queue.append(task)
        self.pool.restart()
