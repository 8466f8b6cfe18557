"""The shards of a sweep, put together into one file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ppsim.errors import PpsimError, printable
from ppsim.sweeps.db import ABOUT, SweepFile
from ppsim.sweeps.folder import FILE, clear, shards


def parts(folder: Path) -> list[Path]:
    """The files of all shards, which are parts of the same sweep. Raises PpsimError where they aren't all there."""
    found = shards(folder)
    where = printable(str(folder))
    if not found:
        raise PpsimError(f"{where}: no shards in it, such as sweep-1-of-4.sqlite")
    wholes = sorted({shard.of for shard in found})
    if len(wholes) > 1:
        raise PpsimError(f"{where}: shards of different sweeps, of {' and of '.join(map(str, wholes))}")
    missing = sorted(set(range(1, wholes[0] + 1)) - {shard.index for shard in found})
    if missing:
        raise PpsimError(f"{where}: of {wholes[0]} shards, missing: {', '.join(map(str, missing))}")
    files = [*found.values(), *([folder / FILE] if (folder / FILE).exists() else [])]
    told = {path: _about(path) for path in files}
    for path, about in told.items():
        if about != told[files[0]]:
            raise PpsimError(f"{printable(str(path))}: of another sweep than {files[0].name}; move one of them away")
    return list(found.values())


def _about(path: Path) -> list[str | None]:
    with SweepFile(path) as file:
        return [file.about(key) for key in ABOUT]


@contextmanager
def merged(folder: Path, files: list[Path]) -> Iterator[SweepFile]:
    """One file with the cases of all, in place of what was collected before."""
    clear(folder, FILE)
    with SweepFile(folder / FILE, create=True) as whole:
        for path in files:
            with SweepFile(path) as part:
                whole.merge(part)
        yield whole
