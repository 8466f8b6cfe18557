"""Files that a command is told to write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def written(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file. Raises PpsimError where that isn't possible."""
    from ppsim.errors import PpsimError, printable

    try:
        write(path)
    except OSError as error:
        raise PpsimError(f"{printable(str(path))}: can't be written: {error.strerror or error}") from None
