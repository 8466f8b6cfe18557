"""What is found by being there: the modules of a folder of this package, by name and without importing any."""

from __future__ import annotations

import pkgutil
from functools import cache
from pathlib import Path


@cache
def names(folder: str) -> tuple[str, ...]:
    """The names of a folder's modules but those that begin with '_', as of ``network/sharing``; in order."""
    found = pkgutil.iter_modules([str(Path(__file__).parent / folder)])
    return tuple(sorted(module.name for module in found if not module.name.startswith("_")))
