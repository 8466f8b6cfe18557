"""Where batches run: processes of this machine by loky, or the workers of a Dask cluster; both by their futures.

joblib, which wraps both, returns a Dask cluster's results only when all are there; a sweep keeps each as it comes.
"""

from __future__ import annotations

import signal
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any
from urllib.parse import urlsplit

from ppsim.errors import PpsimError, printable
from ppsim.sweeps.cases import Base
from ppsim.sweeps.db import Row
from ppsim.sweeps.work import Task, begin, run_batch

PATIENCE_S = 15
"""How long to wait for a cluster's answer."""


def _knock(address: str) -> None:
    """Raises ValueError for what isn't an address, OSError where nobody listens there."""
    parts = urlsplit(address)
    if parts.scheme not in ("tcp", "tls") or not parts.hostname or not parts.port:
        raise ValueError("not an address")
    socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S).close()


class Pool(ABC):
    """Workers that take batches."""

    width: int
    """How many batches run at once."""
    breaks_whole: bool
    """A worker's death takes all batches with it that haven't finished."""

    @abstractmethod
    def submit(self, base: Base, tasks: Sequence[Task]) -> Future[list[Row]]:
        """A batch's rows, some time."""

    @abstractmethod
    def died(self, error: BaseException) -> bool:
        """Whether a future's error means that a worker died with it, not that its batch went wrong."""

    def explained(self, error: BaseException) -> BaseException:
        """The error to raise where a batch went wrong as a whole."""
        return error

    @abstractmethod
    def restart(self) -> None:
        """New workers in place of dead ones."""

    @abstractmethod
    def close(self) -> None:
        """End the workers, or leave the cluster; batches that still run are lost."""


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C, which a terminal sends to all processes, comes afterwards, and never to those that are started here.

    They leave it to their parent, but only once they have begun: before, it would end each with a traceback.
    """
    if sys.platform == "win32":  # has no such masks
        yield
        return
    resource_tracker.ensure_running()  # else it is started in here, and lets interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class LocalPool(Pool):
    """Processes of this machine."""

    breaks_whole = True

    def __init__(self, jobs: int | None, tasks: int) -> None:
        from loky import cpu_count

        self.width = min(jobs or cpu_count(), tasks)
        self.restart()

    def submit(self, base: Base, tasks: Sequence[Task]) -> Future[list[Row]]:
        """A batch's rows, some time."""
        with _interrupts_held_back():
            future: Future[list[Row]] = self._executor.submit(run_batch, base, tasks)
        return future

    def died(self, error: BaseException) -> bool:
        """Loky breaks the whole pool where one worker dies."""
        from loky import BrokenProcessPool

        return isinstance(error, BrokenProcessPool)

    def restart(self) -> None:
        """A new pool; a worker keeps to one core."""
        from loky import ProcessPoolExecutor

        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        self._executor: Any = ProcessPoolExecutor(self.width, initializer=begin, env=one)

    def close(self) -> None:
        """End the processes."""
        self._executor.shutdown(wait=True, kill_workers=True)


class ClusterPool(Pool):
    """The workers of a Dask cluster that runs already, at ``tcp://host:port``."""

    breaks_whole = False

    def __init__(self, address: str) -> None:
        try:
            import distributed
        except ImportError:
            raise PpsimError("--cluster: needs Dask; pip install 'ppsim[cluster]'") from None
        try:
            _knock(address)  # Dask's client would go on trying for long, and leave a traceback behind
            make: Any = distributed.Client
            self._client: Any = make(address, timeout=PATIENCE_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise PpsimError(
                f"--cluster: no Dask scheduler answers at '{printable(address)}' ({printable(str(error))}); "
                "start one with `dask scheduler`, and name it as tcp://HOST:PORT"
            ) from None
        self.width = 1
        self.restart()
        if not self._cores():
            self._client.close()
            raise PpsimError(f"--cluster: '{printable(address)}' has no workers; start some: `dask worker {address}`")

    def _cores(self) -> int:
        return sum(self._client.ncores().values())

    def submit(self, base: Base, tasks: Sequence[Task]) -> Future[list[Row]]:
        """A batch's rows, some time."""
        future: Future[list[Row]] = self._executor.submit(run_batch, base, tasks)
        return future

    def died(self, error: BaseException) -> bool:
        """Dask gives a batch to other workers itself, and up where several have died with it."""
        from distributed import KilledWorker

        return isinstance(error, KilledWorker)

    def explained(self, error: BaseException) -> BaseException:
        """Its workers need the same ppsim."""
        what = f"{type(error).__name__}: {printable(str(error))}"
        return PpsimError(f"--cluster: its workers can't run the cases; do they have this ppsim? {what}")

    def restart(self) -> None:
        """The cluster sees to its workers; there may be more or fewer of them now."""
        self._executor: Any = self._client.get_executor(pure=False, retries=0)
        self.width = max(self._cores(), 1)

    def close(self) -> None:
        """Leave the cluster; what runs there for us is cancelled."""
        self._executor.shutdown(wait=False)
        self._client.close()
