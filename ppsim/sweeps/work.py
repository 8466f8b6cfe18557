"""What a worker does: a batch of cases, one after the other, each with its figures or its error."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Literal

from ppsim.analysis.simulate import simulate
from ppsim.errors import PpsimError
from ppsim.sweeps.cases import Base, Resolver
from ppsim.sweeps.db import Row
from ppsim.sweeps.figures import figures

Task = tuple[str, str]
"""A case's id and what it sets, as JSON."""
LONGEST_ERROR = 2000


def begin() -> None:
    """Make this process a worker: it leaves Ctrl-C to its parent, and ends where that is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)  # it was killed: else this process would wait for its work for ever

    threading.Thread(target=watch, daemon=True).start()


def engine() -> Literal["compiled", "simpy"]:
    """The fast engine, where numba is installed."""
    return "compiled" if find_spec("numba") else "simpy"


def run_batch(base: Base, tasks: Sequence[Task]) -> list[Row]:
    """The rows of a batch; whatever a case raises is its row's error."""
    resolver = _resolver(base)
    return [_row(resolver, *task) for task in tasks]


@lru_cache(maxsize=2)
def _resolver(base: Base) -> Resolver:
    return Resolver(base)


def _row(resolver: Resolver, identity: str, changes: str) -> Row:
    begun = time.perf_counter()
    try:
        experiment = resolver.experiment(resolver.settings(json.loads(changes)))
        if resolver.id_of(experiment) != identity:
            raise PpsimError("this case is another one here: a file that it names differs, or the ppsim of this worker")
        result = simulate(experiment, engine=engine())
        return Row(identity, time.perf_counter() - begun, figures(result))
    except PpsimError as error:
        return Row(identity, time.perf_counter() - begun, error=str(error)[:LONGEST_ERROR])
    except Exception as error:  # one case's bug must not end the others' sweep
        text = f"a bug in ppsim: {type(error).__name__}: {error}"
        return Row(identity, time.perf_counter() - begun, error=text[:LONGEST_ERROR])
