"""What a worker does: a batch of cases, one after the other, each with its figures or its error."""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from functools import lru_cache

from ppsim.analysis.flow import Flow
from ppsim.analysis.simulate import spread
from ppsim.engine import fastest
from ppsim.errors import PpsimError
from ppsim.sweeps.cases import Base, Resolver
from ppsim.sweeps.db import Row
from ppsim.sweeps.figures import figures

Task = tuple[str, str]
"""A case's id and what it sets, as JSON."""
LONGEST_ERROR = 2000
OBJECTS = 50_000
"""Objects more than there were before, after which a worker looks for cycles among them; a case leaves none."""


def begin() -> None:
    """Make this process a worker: it leaves Ctrl-C to its parent, and ends where that is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()
    gc.set_threshold(OBJECTS)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)  # it was killed: else this process would wait for its work for ever

    threading.Thread(target=watch, daemon=True).start()


def run_batch(base: Base, tasks: Sequence[Task]) -> list[Row]:
    """The rows of a batch; whatever a case raises is its row's error."""
    bench = _bench(base)
    return [_row(*bench, *task) for task in tasks]


@lru_cache(maxsize=2)
def _bench(base: Base) -> tuple[Resolver, Flow]:
    """What serves one batch after the other."""
    return Resolver(base), Flow()


def _row(resolver: Resolver, flow: Flow, identity: str, changes: str) -> Row:
    begun = time.perf_counter()
    try:
        settled = resolver.settled(resolver.settings(json.loads(changes)), legal=True)  # it is, if it is this one
        if settled.id != identity:
            raise PpsimError("this case is another one here: a file that it names differs, or the ppsim of this worker")
        done = flow.execute(resolver.experiment(settled), None)
        return Row(identity, time.perf_counter() - begun, figures(done, spread(done, fastest(done.plan))))
    except PpsimError as error:
        return Row(identity, time.perf_counter() - begun, error=str(error)[:LONGEST_ERROR])
    except Exception as error:  # one case's bug must not end the others' sweep
        text = f"a bug in ppsim: {type(error).__name__}: {error}"
        return Row(identity, time.perf_counter() - begun, error=text[:LONGEST_ERROR])
