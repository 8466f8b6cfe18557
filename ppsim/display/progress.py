"""How far something is: a line on stderr where that is a terminal; of one run, once it takes over two seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from ppsim.display.console import stderr_console
from ppsim.engine.watch import Watch

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

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


def one(out: Console) -> Progress:
    """The bar of one run: its stage, how much of it is done, the time since it began."""
    from rich.progress import Progress, TaskProgressColumn, TimeElapsedColumn

    return Progress(
        text_column(), bar_column(out), TaskProgressColumn(), TimeElapsedColumn(), console=out, transient=True
    )


def many(out: Console) -> Progress:
    """The bar of a sweep: how many of its cases, the time to come, then words."""
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (bar_column(out), MofNCompleteColumn(), TimeRemainingColumn(), text_column())
    return Progress(*columns, console=out, transient=True, disable=not out.is_terminal)


def bar_column(out: Console) -> BarColumn:
    """A bar that leaves most of the line to words."""
    from rich.progress import BarColumn

    return BarColumn(bar_width=min(40, out.width // 5))


def text_column() -> TextColumn:
    """A task's description on one line, with '…' where there is no room for all of it."""
    from rich.progress import TextColumn
    from rich.table import Column

    return TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))


def _show(watch: Watch, out: Console, over: Event) -> None:
    """Show the stage, how much of it is done, and the time since, until it is over."""
    if over.wait(AFTER_S):
        return
    with one(out) as bars:
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
