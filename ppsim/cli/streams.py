"""Where a command's text goes, whatever that can take."""

from __future__ import annotations

import codecs
import os
import sys
from pathlib import Path

NEAREST = {
    "≈": "~", "→": "->", "←": "<-", "–": "-", "−": "-", "…": "...", "×": "x", "·": "*", "≤": "<=", "≥": ">=",
    "µ": "u", "μ": "u", "’": "'", "‘": "'", "“": '"', "”": '"',
}  # fmt: skip
"""What stands for a character of ours where the encoding doesn't have it."""


def prepare() -> None:
    """Make standard output and error take any text: what their encoding lacks as what comes next to it, or as \\u….

    One that is closed (``>&-``) is given to nobody, so that no file that is opened later takes its place.
    """
    codecs.register_error("ppsim", _nearest)
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            nobody = Path(os.devnull).open("r" if name == "stdin" else "w", encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, nobody)
        elif name != "stdin" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="ppsim")


def _nearest(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError) or error.object[error.start] not in NEAREST:
        return codecs.backslashreplace_errors(error)
    return NEAREST[error.object[error.start]], error.start + 1
