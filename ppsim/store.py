"""Results on disk: a folder per run, written whole or not at all.

Everything is written into a hidden folder beside the target first, which then takes the target's place in one step. The
hidden folder's lock keeps two runs apart; one that a killed run left behind has no lock and is cleared by the next.
"""

from __future__ import annotations

import ctypes
import gzip
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock, Timeout

from ppsim._texts import Known, rows
from ppsim.analysis.result import Result
from ppsim.config import resolved
from ppsim.engine.timeline import PER_SECOND, Column
from ppsim.errors import PpsimError, printable

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ppsim.analysis.measured.result import MeasuredResult

MARKER = ".ppsim"
LOCK = ".lock"
MANY_OPS = 200_000
"""Above this many ops the tables with a row per op are written only on request."""
ROWS_AT_ONCE = 100_000
"""Rows of a table whose text is made at once: many, so that Python goes through none of them."""
PACKED_AT_ONCE = 2**20
"""Bytes."""
TRACE_PLAIN_UP_TO = 20_000
"""Up to this many ops the trace is plain text; above it is compressed, which Perfetto opens as well."""


def write(result: Result, folder: Path, all_files: bool = False, pictures: bool = True) -> list[str]:
    """Write every file of a run into ``folder``, in place of an earlier run's; returns their names.

    Raises PpsimError, and leaves what was there, where that isn't possible.
    """
    with replaced(folder) as fresh:
        for name, make in _files(result, all_files, pictures):
            make(fresh / name)
    return sorted(path.name for path in folder.iterdir() if path.name != MARKER)


def _files(result: Result, all_files: bool, pictures: bool) -> Iterator[tuple[str, Callable[[Path], object]]]:
    yield "config.yaml", lambda path: path.write_text(resolved.text(result.experiment), encoding="utf-8")
    yield "summary.json", lambda path: path.write_text(summary_json(result) + "\n", encoding="utf-8")
    for name, source in result.experiment.files().items():
        yield name, partial(shutil.copyfile, source)
    if all_files or len(result.plan.ops) <= MANY_OPS:
        few = len(result.plan.ops) <= MANY_OPS  # of many the texts would take more memory than the run
        known = Known(np.unique(result.timeline.times) / PER_SECOND if few else np.empty(0))
        yield "tasks.csv", lambda path: _table(result.columns("tasks"), path, known)
        yield "transfers.csv", lambda path: _table(result.columns("transfers"), path, known)
        yield "memory.csv", lambda path: _table(result.columns("memory"), path, known)
        large = len(result.plan.ops) > TRACE_PLAIN_UP_TO
        yield "trace.json.gz" if large else "trace.json", lambda path: _trace(result, path, large)
    if pictures:
        yield "gantt.png", lambda path: _plot("gantt", result, path)
        yield "memory.png", lambda path: _plot("memory", result, path)


def write_measured(result: MeasuredResult, folder: Path) -> list[str]:
    """Write what there is of a measured run into ``folder``, as ``write`` does; returns the files' names."""
    with replaced(folder) as fresh:
        (fresh / "summary.json").write_text(summary_json(result) + "\n", encoding="utf-8")
        _table(result.timeline.tasks(), fresh / "tasks.csv", Known(np.empty(0)))
        _plot("gantt", result, fresh / "gantt.png")
    return sorted(path.name for path in folder.iterdir() if path.name != MARKER)


def summary_json(result: Result | MeasuredResult) -> str:
    """The summary as JSON text."""
    return json.dumps(result.summary, indent=2, ensure_ascii=False, allow_nan=False)


def _table(columns: dict[str, Column], path: Path, known: Known) -> None:
    """A table as CSV, numbers in the shortest text that reads back as themselves."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write(",".join(columns) + "\n")
        for first in range(0, len(next(iter(columns.values()))), ROWS_AT_ONCE):
            stream.write(rows([column[first : first + ROWS_AT_ONCE] for column in columns.values()], known))


def _trace(result: Result, path: Path, compressed: bool) -> None:
    from ppsim.formats import chrome_trace

    if not compressed:
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            chrome_trace.write(result, stream)
        return
    # Neither name nor time in it: the same run gives the same bytes. The lowest level already makes it a tenth.
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", 1, file, mtime=0) as packed,
        io.BufferedWriter(_Aside(packed.write), PACKED_AT_ONCE) as aside,
        io.TextIOWrapper(aside, encoding="utf-8", newline="\n") as stream,
    ):
        chrome_trace.write(result, stream)


class _Aside(io.RawIOBase):
    """A stream that hands on in a thread what it is given, while the next is made: packing doesn't hold up Python."""

    def __init__(self, take: Callable[[Any], object]) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._take = take
        self._thread = ThreadPoolExecutor(1)
        self._last: Future[object] | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Raises what went wrong with what was handed on before."""
        if self._last is not None:
            self._last.result()
        self._last = self._thread.submit(self._take, bytes(data))  # a buffer's, which will hold the next
        return len(data)

    def close(self) -> None:
        """Wait until all has been handed on; raises what went wrong with the last of it."""
        super().close()
        self._thread.shutdown()
        if self._last is not None:
            self._last.result()


def _plot(kind: str, result: Result | MeasuredResult, path: Path) -> None:
    from ppsim import plot

    axes = getattr(plot, kind)(result)
    plot.save(axes.figure, path)


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """A fresh hidden folder that takes the place of ``folder`` at the end; nothing happens to that on an error."""
    refuse_dangerous(folder)
    if next(folder.glob("sweep*.sqlite"), None):
        raise PpsimError(f"{_shown(folder)}: holds a sweep, which a run would replace; use --out")
    refuse_foreign(folder)
    hidden = folder.parent / f".{folder.name}.ppsim-new"
    try:
        with _own(hidden):
            _clear(hidden, keep={LOCK})
            try:
                yield hidden
                names = sorted(path.name for path in hidden.iterdir() if path.name != LOCK)
                (hidden / MARKER).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
                refuse_foreign(folder)
                _swap(hidden, folder)
            finally:
                _discard(hidden)
                (folder / LOCK).unlink(missing_ok=True)
    except Timeout:
        raise PpsimError(f"{_shown(folder)}: another run is writing there; wait for it, or use --out") from None
    except OSError as error:
        raise cannot(folder, error) from None


def _own(hidden: Path) -> FileLock:
    """The lock of a hidden folder, which is made if it isn't there; entering it raises Timeout where another has it."""
    hidden.parent.mkdir(parents=True, exist_ok=True)
    if hidden.is_symlink():
        raise PpsimError(f"{_shown(hidden)}: a link; ppsim writes only into folders of its own")
    hidden.mkdir(exist_ok=True)
    return FileLock(hidden / LOCK, blocking=False)


def _discard(hidden: Path) -> None:
    try:
        if hidden.exists():
            _clear(hidden, keep=set())
            hidden.rmdir()
    except OSError:
        pass  # what can't be cleared now is cleared by the next run


def _clear(folder: Path, keep: set[str]) -> None:
    for path in folder.iterdir():
        if path.name not in keep:
            path.unlink()


def _swap(new: Path, target: Path) -> None:
    """Put ``new`` in the place of ``target``; what was there ends up in the place of ``new``."""
    if not target.exists():
        new.rename(target)
        return
    exchange = 2  # RENAME_EXCHANGE of Linux's renameat2: both names change at once, there is no moment without a result
    at_cwd = -100
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        done = libc.renameat2(at_cwd, os.fsencode(new), at_cwd, os.fsencode(target), exchange) == 0
    except (AttributeError, OSError, TypeError):  # not Linux
        done = False
    if not done:
        aside = new.with_suffix(".old")
        target.rename(aside)
        new.rename(target)
        aside.rename(new)


def refuse_dangerous(folder: Path) -> None:
    """Raises PpsimError for a folder that results may not go to: a link, the home or working directory, '..'."""
    if ".." in folder.parts:
        raise PpsimError(f"{_shown(folder)}: '..' in a results folder; name it directly")
    if folder.parts[:1] and folder.parts[0].startswith("~"):
        raise PpsimError(f"{_shown(folder)}: the shell left '~' as it is; write the folder's name in full")
    if folder.is_symlink():
        raise PpsimError(f"{_shown(folder)}: a link; ppsim writes only into folders of its own")
    if folder.exists() and not folder.is_dir():
        raise PpsimError(f"{_shown(folder)}: a file; results go into a folder")
    refuse_file_above(folder)
    absolute = folder.absolute().resolve()
    here = Path.cwd().resolve()
    if absolute == Path.home().resolve() or absolute == here or absolute in here.parents:
        raise PpsimError(f"{_shown(folder)}: the home or working directory, or one above it; name a folder inside")


def refuse_file_above(path: Path) -> None:
    """Raises PpsimError where one of the folders that a path goes through is a file."""
    for above in path.parents:
        if above.exists() and not above.is_dir():
            raise PpsimError(f"{_shown(path)}: can't be written: {_shown(above)} is a file, not a folder")


def refuse_foreign(folder: Path, ours_too: Callable[[str], bool] = lambda _: False) -> None:
    """Raises PpsimError for a folder that holds more than a run's files (those in its marker) and ``ours_too``."""
    if not folder.exists():
        return
    try:
        marker = folder / MARKER
        ours = {MARKER, LOCK}
        if marker.is_file() and not marker.is_symlink():
            ours |= set(marker.read_text(encoding="utf-8").splitlines())
        foreign = sorted(
            path.name for path in folder.iterdir() if path.is_dir() or not (path.name in ours or ours_too(path.name))
        )
    except (OSError, UnicodeDecodeError) as error:
        raise cannot(folder, error) from None
    if foreign:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        named = ", ".join(printable(name) for name in foreign[:3])
        raise PpsimError(f"{_shown(folder)}: ppsim didn't write {named}{more}; move that away, or use --out")


def cannot(folder: Path, error: Exception) -> PpsimError:
    """The error for a folder that can't be written."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return PpsimError(f"{_shown(folder)}: can't be written: {reason}")


def _shown(path: Path) -> str:
    return printable(str(path))
