"""Text files that a user names: regular files of UTF-8, of a limited size, or a one-line error."""

from __future__ import annotations

import stat
from pathlib import Path

from ppsim.errors import ConfigError, did_you_mean, printable


def read(path: Path, what: str, limit: int) -> str:
    """The text of a regular file of at most ``limit`` bytes; ``what`` it should be, as in 'a YAML file'.

    Raises ConfigError, one line that begins with the path, for anything else; a pipe or a device is never opened.
    """
    label = printable(str(path))
    if "\0" in str(path):
        raise ConfigError(f"{label}: can't be read: a NUL character in its name")
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ConfigError(f"{label}: a directory, where {what} is due")
        if not stat.S_ISREG(mode):
            raise ConfigError(f"{label}: not a regular file, but a pipe, device or socket")
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except FileNotFoundError:
        near = did_you_mean(path.name, _siblings(path))
        raise ConfigError(f"{label}: no such file{printable(near)}") from None
    except OSError as error:
        raise ConfigError(f"{label}: can't be read: {error.strerror or error}") from None
    if len(raw) > limit:
        raise ConfigError(f"{label}: larger than {limit >> 20} MiB, the limit for {what}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace").split("\n")
        place = f"{len(before)}:{len(before[-1]) + 1}"
        raise ConfigError(f"{label}:{place}: not UTF-8 text (byte 0x{raw[error.start]:02x})") from None


def _siblings(path: Path) -> list[str]:
    """What lies beside a missing file and is of its kind: .yaml for .yml."""
    try:
        return sorted(beside.name for beside in path.parent.iterdir() if beside.suffix[:2] == path.suffix[:2])
    except OSError:
        return []
