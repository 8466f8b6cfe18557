"""``ppsim.sweep`` and ``ppsim.search``: in a notebook with a line that says how far they are, on a terminal a bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ppsim.config.experiment import Experiment
from ppsim.display.sweep import bar, sought, spinner, told
from ppsim.sweeps.python import Searched, Swept, run_search, run_sweep
from ppsim.sweeps.run import Progress
from ppsim.sweeps.search import Found


def sweep(
    experiment: Experiment | str | Path,
    varied: Mapping[str, Any] | None = None,
    *,
    out: str | Path | None = None,
    jobs: int | None = None,
) -> Swept:
    """Simulate every case of a sweep, on all cores, and return its table and its best cases.

    ``varied`` is what the YAML's ``sweep:`` holds, as ``{"grid": {"pipeline.ranks": [2, 4, 8]}}``; by default the
    experiment's own. With ``out`` the sweep is kept in that folder, and a second call goes on where the first was
    stopped. Raises ConfigError.
    """
    with _showing("sweep") as show, bar(0) as terminal:

        def watch(progress: Progress) -> None:
            terminal(progress)
            show(f"{progress.done:,} of {progress.total:,}: {told(progress, short=True)}")

        return run_sweep(experiment, varied, None if out is None else Path(out), jobs, watch)


def search(
    experiment: Experiment | str | Path,
    varied: Mapping[str, Any] | None = None,
    *,
    top: int = 10,
    jobs: int | None = None,
) -> Searched:
    """Find the ``top`` fastest cases of a sweep that fit into memory, as certain as if all had been simulated.

    ``varied`` as in ``sweep``. Raises ConfigError, also where the cases' steps do different work.
    """
    with _showing("search") as show, spinner("searching") as terminal:

        def watch(found: Found) -> None:
            terminal(sought(found))
            show(sought(found))

        return run_search(experiment, varied, top, jobs, watch)


@contextmanager
def _showing(what: str) -> Iterator[Callable[[str], None]]:
    """A line in a notebook's output that is replaced as the work goes on; nothing elsewhere."""
    notebook = sys.modules.get("IPython")
    shell = notebook.get_ipython() if notebook is not None else None
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        yield lambda _: None
        return
    from IPython.display import display

    line: Any = display  # IPython has no types
    handle = line(_Line(f"{what}: listing the cases"), display_id=True)
    yield lambda text: handle.update(_Line(f"{what}: {text}"))


class _Line:
    """Text that shows itself as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text
