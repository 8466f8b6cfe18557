"""A sweep's folder: which files are the sweep's, who may write there, and one writer at a time."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from filelock import FileLock, Timeout

from ppsim import store
from ppsim.errors import ConfigError, PpsimError, printable

FILE = "sweep.sqlite"
CSV, PARQUET = "results.csv", "results.parquet"
_OURS = re.compile(r"sweep(-\d+-of-\d+)?\.sqlite(-journal)?|\.sweep(-\d+-of-\d+)?\.lock|results\.(csv|parquet)(\.new)?")


@dataclass(frozen=True)
class Shard:
    """One of ``of`` parts of a sweep, counted from 1."""

    index: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """'2/8'. Raises ConfigError."""
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        shard = cls(int(match[1]), int(match[2])) if match else cls(0, 0)
        if not 1 <= shard.index <= shard.of:
            raise ConfigError(
                f"--shard: '{printable(text)}' is no part of a whole; parts are 1/N to N/N (a SLURM array: --array=1-N)"
            )
        return shard

    def holds(self, number: int) -> bool:
        """Whether a case is one of this part's; spread by a checksum, so that no part gets all the large ones."""
        return crc32(str(number).encode()) % self.of == self.index - 1

    @property
    def file(self) -> str:
        """The part's file in the sweep's folder."""
        return f"sweep-{self.index}-of-{self.of}.sqlite"


def shards(folder: Path) -> dict[Shard, Path]:
    """The parts of a sweep that a folder holds."""
    found = {}
    for path in sorted(folder.glob("sweep-*-of-*.sqlite")):
        if match := re.fullmatch(r"sweep-(\d+)-of-(\d+)\.sqlite", path.name):
            found[Shard(int(match[1]), int(match[2]))] = path
    return found


def prepare(folder: Path) -> None:
    """Make the folder, if it isn't there. Raises PpsimError where it holds other things, or can't be written."""
    store.refuse_dangerous(folder)
    if not any(folder.glob("sweep*.sqlite")):
        store.refuse_foreign(folder, lambda name: bool(_OURS.fullmatch(name)))
    for path in folder.glob("*"):
        if path.is_symlink() and _OURS.fullmatch(path.name):
            raise PpsimError(f"{printable(str(path))}: a link; ppsim writes only into files of its own")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise store.cannot(folder, error) from None


def clear(folder: Path, file: str) -> None:
    """Remove what an earlier sweep left of one file."""
    names = [file, f"{file}-journal"]
    for name in names + ([CSV, PARQUET] if file == FILE else []):
        (folder / name).unlink(missing_ok=True)


@contextmanager
def locked(folder: Path, file: str) -> Iterator[None]:
    """Nobody else writes this file meanwhile. Raises PpsimError where somebody does."""
    path = folder / f".{Path(file).stem}.lock"
    try:
        with FileLock(path, blocking=False):
            path.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
            yield
    except Timeout:
        who = path.read_text(encoding="utf-8", errors="replace")
        raise PpsimError(
            f"{printable(str(folder / file))}: another sweep is writing there ({printable(who)}); "
            "wait for it, stop it, or use --out"
        ) from None
    except OSError as error:
        raise store.cannot(folder, error) from None
