"""Opening a trace: a regular file, compressed or not, as a stream of bytes, or a one-line error."""

from __future__ import annotations

import gzip
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path

from ppsim.errors import FormatError, did_you_mean, printable

GZIP = b"\x1f\x8b"
PARQUET = b"PAR1"
CUT_SHORT = (EOFError, gzip.BadGzipFile, zlib.error)
"""What reading a damaged compressed file raises."""


def label(path: Path) -> str:
    """A path as a word of a message."""
    return printable(str(path))


def is_folder(path: Path) -> bool:
    """Whether the path is a folder. Raises FormatError where it is neither that nor a regular file."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise FormatError(f"{label(path)}: no such file or folder{_near(path)}") from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{label(path)}: can't be read: {getattr(error, 'strerror', None) or error}") from None
    if stat.S_ISDIR(mode):
        return True
    if not stat.S_ISREG(mode):
        raise FormatError(f"{label(path)}: not a regular file, but a pipe, device or socket")
    return False


def _near(path: Path) -> str:
    try:
        return printable(did_you_mean(path.name, sorted(beside.name for beside in path.parent.iterdir())))
    except OSError:
        return ""


@contextmanager
def opened(path: Path) -> Iterator[BufferedIOBase]:
    """The bytes of a file, decompressed where it is gzipped, whatever its name ends in.

    ``read1`` gives what there is before a damaged place; ``read`` may lose it.
    """
    is_folder(path)
    try:
        with path.open("rb") as file:
            compressed = file.read(2) == GZIP
            file.seek(0)
            yield gzip.GzipFile(fileobj=file) if compressed else file
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise
        raise FormatError(f"{label(path)}: can't be read: {error.strerror or error}") from None


def head(path: Path, size: int = 1 << 16) -> bytes:
    """The first bytes of a file, decompressed; fewer where it ends early or is damaged."""
    found = b""
    try:
        with opened(path) as stream:
            while len(found) < size and (more := stream.read1(size - len(found))):
                found += more
    except CUT_SHORT:
        pass
    return found


def whole(path: Path, what: str, limit: int = 1 << 28) -> bytes:
    """All bytes of a file of at most ``limit`` bytes, decompressed."""
    try:
        with opened(path) as stream:
            raw = stream.read(limit + 1)
    except CUT_SHORT as error:
        raise FormatError(f"{label(path)}: damaged or cut short: {error}") from None
    if len(raw) > limit:
        raise FormatError(f"{label(path)}: larger than {limit >> 20} MiB, the limit for {what}")
    return raw
