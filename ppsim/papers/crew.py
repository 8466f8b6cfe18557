"""Papers side by side: each on one of the machine's cores, all in the order in which they were asked for."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ppsim.papers.paper import Paper, read, rows_of
from ppsim.papers.reproduce import Table, reproduce

ENVIRONMENT: Any = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
    "LOKY_MAX_MEMORY_LEAK_SIZE": "1e12",  # a paper's runs are kept until it is done: no leak
}
"""Of a worker, which keeps to one core."""


def reproduced(papers: Sequence[Paper], watch: Callable[[str], None] = lambda _: None) -> list[Table]:
    """Every figure of every paper; ``watch`` is told what is at work. Raises PpsimError where a page is wrong."""
    from loky import ProcessPoolExecutor, cpu_count

    width = min(cpu_count(), len(papers))
    if width < 2:
        return [table for paper in papers for table in reproduce(paper, watch)]
    watch(", ".join(paper.folder.name for paper in papers))
    pool = ProcessPoolExecutor(width, initializer=_begin, env=ENVIRONMENT)
    try:
        # The longest first, so that none is left alone at the end.
        works = {paper.folder: pool.submit(_tables, paper.folder) for paper in sorted(papers, key=_size, reverse=True)}
        return [table for paper in papers for table in works[paper.folder].result()]
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def _size(paper: Paper) -> int:
    """How long it takes, about: by its rows."""
    return sum(len(rows_of(paper, figure)) for figure in paper.figures)


def _begin() -> None:
    """Leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _tables(folder: Path) -> list[Table]:
    return reproduce(read(folder))
