"""Files that a command is told to write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path


def written(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file, in a new folder where there is none. Raises PpsimError where that isn't possible."""
    from ppsim.store import cannot, refuse_file_above

    refuse_file_above(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
    except (OSError, ValueError) as error:
        raise cannot(path, error) from None


def text_written(path: Path, text: str, sources: Sequence[Path]) -> None:
    """Write a text made of the sources. Raises PpsimError where that isn't possible, or would overwrite one of them."""
    from ppsim.errors import PpsimError, printable

    if path.exists() and any(source.exists() and path.samefile(source) for source in sources):
        raise PpsimError(f"{printable(str(path))}: is a file that is read; name another one for the result")
    written(path, lambda to: to.write_text(text, encoding="utf-8", newline="\n"))


def holds_sweep(path: Path) -> bool:
    """Whether a path is the folder or the file of a sweep."""
    return path.suffix == ".sqlite" or (path.is_dir() and any(path.glob("sweep*.sqlite")))


def is_trace(path: Path) -> bool:
    """Whether a path is a trace of a real run and no experiment; what ends in .yaml isn't even looked at.

    Raises ConfigError for a sweep, which is neither.
    """
    if path.suffix in (".yaml", ".yml") and not path.is_dir():
        return False
    if holds_sweep(path):
        from ppsim.errors import ConfigError, printable

        raise ConfigError(
            f"{printable(str(path))}: holds a sweep, where one run is due; `ppsim plot` draws it, and --write-best and "
            "--row of `ppsim sweep` make an experiment of one of its cases"
        )
    from ppsim.formats.traces import is_trace as looks_like

    return looks_like(path)
