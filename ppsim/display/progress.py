"""The progress bar of one run, on stderr where that is a terminal, once it takes longer than two seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from ppsim.display.console import stderr_console
from ppsim.engine.watch import Watch

if TYPE_CHECKING:
    from rich.console import Console

AFTER_S = 2.0
EVERY_S = 0.2


@contextmanager
def progress() -> Iterator[Watch]:
    """A watch for ``simulate``, and a bar that follows it."""
    watch, out, over = Watch(), stderr_console(), Event()
    if not out.is_terminal:
        yield watch
        return
    onlooker = Thread(target=_show, args=(watch, out, over), daemon=True)
    onlooker.start()
    try:
        yield watch
    finally:
        over.set()
        onlooker.join()


def _show(watch: Watch, out: Console, over: Event) -> None:
    """Show the stage, how much of it is done, and the time since, until it is over."""
    if over.wait(AFTER_S):
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=out, transient=True) as bars:
        shown, known = "", False
        task = bars.add_task(shown, visible=False)
        while not over.wait(EVERY_S):
            share = watch.share
            if (watch.stage, share is not None) != (shown, known):
                shown, known = watch.stage, share is not None
                bars.remove_task(task)
                task = bars.add_task(shown, total=1 if known else None)
            if share is not None:
                bars.update(task, completed=share)
