"""What becomes of batches whose workers die, without real deaths: every case comes out once, the deadly one as failed."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from ppsim.sweeps.cases import Base, Case
from ppsim.sweeps.crew import SUSPECT, Crew
from ppsim.sweeps.db import Row, SweepFile
from ppsim.sweeps.pool import LocalPool, Pool
from ppsim.sweeps.run import run
from ppsim.sweeps.work import Task
from tests.sweeps.sweeping import workers_of

FIGURES = {"work_s": 1.0, "step_time_s": 1.0, "bubble_ratio": 0.5}


class DeathError(Exception):
    """A worker's."""


class Mortal(Pool):
    """Two workers that die over some cases: with a future's error, or already when asked; the others' batches may go
    with them."""

    def __init__(self, deadly: Sequence[str], whole: bool, on_submit: bool) -> None:
        self.deadly, self.breaks_whole, self.on_submit = set(deadly), whole, on_submit
        self.width, self.asked, self.broken, self.restarts = 2, Counter[str](), False, 0

    def submit(self, base: Base, tasks: Sequence[Task]) -> Future[list[Row]]:
        future: Future[list[Row]] = Future()
        self.asked.update(case for case, _ in tasks)
        if self.deadly & {case for case, _ in tasks} or self.broken:
            self.broken = self.breaks_whole
            if self.on_submit:
                raise DeathError
            future.set_exception(DeathError())
        else:
            future.set_result([Row(case, 0.01, FIGURES) for case, _ in tasks])
        return future

    def died(self, error: BaseException) -> bool:
        return isinstance(error, DeathError)

    def restart(self) -> None:
        self.broken = False
        self.restarts += 1

    def close(self) -> None: ...


def outcome(pool: Mortal, cases: int) -> list[Row]:
    waiting = [(f"case {i}", "{}") for i in range(cases)]
    rows: list[Row] = []

    def source(most: int) -> list[Task]:
        batch = waiting[:most]
        del waiting[:most]
        return batch

    assert Crew(pool, Base("{}", Path("x"))).work(source, rows.extend)
    return rows


@pytest.mark.parametrize("on_submit", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("deadly", [(), ("case 0",), ("case 199",), ("case 3", "case 4", "case 150")])
def test_every_case_comes_out_once(deadly: Sequence[str], whole: bool, on_submit: bool) -> None:
    pool = Mortal(deadly, whole, on_submit)
    rows = outcome(pool, 200)
    assert sorted(row.id for row in rows) == sorted(f"case {i}" for i in range(200))
    assert {row.id for row in rows if row.error} == set(deadly)
    # A case gets so many chances, and one more on its own.
    assert all(pool.asked[case] <= SUSPECT + 1 for case in deadly)


def test_an_error_that_is_no_death_ends_the_work() -> None:
    class Broken(Mortal):
        def died(self, error: BaseException) -> bool:
            return False

    with pytest.raises(DeathError):
        outcome(Broken(["case 0"], whole=False, on_submit=False), 5)


def test_stop_ends_it_and_keeps_what_is_there() -> None:
    pool = Mortal([], whole=True, on_submit=False)
    waiting = [(f"case {i}", "{}") for i in range(50)]
    rows: list[Row] = []

    def source(most: int) -> list[Task]:
        return [waiting.pop(0)] if waiting else []

    assert not Crew(pool, Base("{}", Path("x"))).work(source, rows.extend, stop=lambda: len(rows) >= 8)
    assert 8 <= len(rows) < 50
    assert len(rows) + len(waiting) <= 50


@pytest.mark.parametrize("deadly", [(), ("case 2",)])
def test_workers_begin_while_cases_are_listed(deadly: Sequence[str], tmp_path: Path) -> None:
    """Each of two with a case that can run; later these are not taken again, also where a worker dies over one."""
    names, why = ["case 0", "case 1", "case 1", "case 2", "case 3"], {0: "not legal"}
    listed = [Case(name, i, {}, {}, why.get(i)) for i, name in enumerate(names)]
    pool = Mortal(deadly, whole=True, on_submit=False)
    crew = Crew(pool, Base("{}", Path("x")))
    with SweepFile(tmp_path / "sweep.sqlite", create=True) as file:
        assert file.is_new()
        file.list_cases({"name": "x"}, [], crew.ahead(listed))
        assert not file.is_new()
        assert crew.begun == {"case 1", "case 2"}
        progress = run(file, crew, file.pending(), lambda _: None, lambda: False)
        assert (progress.total, progress.done, progress.failed) == (3, 3, len(deadly))
        assert file.counts() == {"skipped": 1, "ok": 3 - len(deadly), **({"failed": 1} if deadly else {})}
    if not deadly:
        assert pool.asked == {"case 1": 1, "case 2": 1, "case 3": 1}


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_ctrl_c_never_reaches_a_worker() -> None:
    """Not even while it starts, when it would end with a traceback: it is started with SIGINT blocked. Its parent goes
    on seeing it."""
    pool = LocalPool(2, 2)
    try:
        pool.submit(Base("{}", Path("x")), [])
        workers = workers_of(os.getpid())
        assert len(workers) == 2
        for worker in workers:
            status = dict(line.split(":\t") for line in Path(f"/proc/{worker}/status").read_text().splitlines())
            assert int(status["SigBlk"], 16) >> (signal.SIGINT - 1) & 1  # bit 0 is signal 1
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        pool.close()
