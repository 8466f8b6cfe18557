"""Keeps a pool's workers busy with batches of cases, and their deaths from costing more than what they ran."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait

from ppsim.sweeps.cases import Base, Case
from ppsim.sweeps.db import Row
from ppsim.sweeps.pool import Pool
from ppsim.sweeps.work import Task

BATCH_S = 0.5
"""A batch is as many cases as take about that long: short beside a kill's loss, long beside a batch's cost."""
MOST_IN_BATCH = 500
TICK_S = 0.25
"""How often to look whether to stop."""
SUSPECT = 3
"""After as many workers have died over it, a case runs alone; if that one dies, too, this is its result."""

Source = Callable[[int], list[Task]]
"""Up to so many of the next cases; none: there are none for now, as long as some still run."""
Sink = Callable[[list[Row]], None]


class Crew:
    """A pool at work."""

    def __init__(self, pool: Pool, base: Base) -> None:
        self.pool, self.base = pool, base
        self.deaths = 0
        self._flying: dict[Future[list[Row]], list[Task]] = {}
        self._again: deque[Task] = deque()
        self._strikes: dict[str, int] = {}
        self._cases, self._seconds = 0.0, 0.0

    def ahead(self, cases: Iterable[Case]) -> Iterator[Case]:
        """The cases as they come; each worker begins with one of the first, and so has started when all are listed."""
        for case in cases:
            if len(self._flying) < self.pool.width and case.reason is None and case.id not in self.begun:
                batch = [(case.id, case.text)]
                self._flying[self._submitted(batch)] = batch
            yield case

    @property
    def begun(self) -> set[str]:
        """The ids of cases that are on their way."""
        return {task[0] for batch in self._flying.values() for task in batch}

    def work(self, source: Source, sink: Sink, stop: Callable[[], bool] = lambda: False) -> bool:
        """Run all that comes from ``source`` into ``sink``; False where ``stop`` ended it before."""
        while self._fly(source) or self._flying:
            done, _ = wait(self._flying, timeout=TICK_S, return_when=FIRST_COMPLETED)
            sink(self._landed(done))
            if stop():
                sink(self._landed({future for future in self._flying if future.done()}))
                return not (self._flying or self._again or source(1))
        return True

    def _fly(self, source: Source) -> bool:
        """Send batches until two for each worker are on their way; True where one went."""
        went = False
        while len(self._flying) < 2 * self.pool.width and not self._has_suspect():
            batch = source(self._size())
            if not batch and self._again:
                # What was with a worker that died comes last and one by one, so that it takes nobody with it again.
                if self._strikes[self._again[0][0]] >= SUSPECT and self._flying:
                    break
                batch = [self._again.popleft()]
            if not batch:
                break
            self._flying[self._submitted(batch)] = batch
            went = True
        return went

    def _submitted(self, batch: list[Task]) -> Future[list[Row]]:
        """The batch's rows, some time; where a worker has died since anybody looked, that is what comes of it."""
        try:
            return self.pool.submit(self.base, batch)
        except Exception as error:
            if not self.pool.died(error):
                raise
            lost: Future[list[Row]] = Future()
            lost.set_exception(error)
            return lost

    def _has_suspect(self) -> bool:
        return any(self._strikes.get(batch[0][0], 0) >= SUSPECT for batch in self._flying.values())

    def _size(self) -> int:
        """Cases that take about BATCH_S, by those measured."""
        return max(1, min(int(BATCH_S * self._cases / max(self._seconds, 1e-6)), MOST_IN_BATCH)) if self._cases else 1

    def _landed(self, done: set[Future[list[Row]]]) -> list[Row]:
        """The rows of batches that have finished, and of cases that nobody can finish."""
        rows: list[Row] = []
        lost: list[Task] = []
        for future in done:
            batch = self._flying.pop(future)
            error = future.exception()
            if error is None:
                rows += future.result()
            elif self.pool.died(error):
                lost += batch
            else:
                raise self.pool.explained(error)
        if rows:  # late ones count more than early ones, the first of which load what all need
            self._cases = self._cases / 2 + len(rows)
            self._seconds = self._seconds / 2 + sum(row.seconds for row in rows)
        return rows + self._redo(lost) if lost else rows

    def _redo(self, lost: list[Task]) -> list[Row]:
        """A worker died: what it took with it runs again; a case that was alone with it has failed."""
        self.deaths += 1
        rows: list[Row] = []
        if self.pool.breaks_whole:
            wait(self._flying, timeout=10 * TICK_S)
            for future, batch in self._flying.items():
                if future.done() and future.exception() is None:
                    rows += future.result()
                else:
                    lost += batch
            self._flying.clear()
        for task in lost:
            strikes = self._strikes[task[0]] = self._strikes.get(task[0], 0) + 1
            if strikes > SUSPECT:
                rows.append(Row(task[0], 0.0, error="its worker process died: killed, or out of memory"))
            else:
                self._again.append(task)
        self.pool.restart()
        return rows
