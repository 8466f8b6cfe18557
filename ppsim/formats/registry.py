"""Finds the formats: whatever this folder's modules register."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from ppsim.formats.base import Does, Format, registered


@cache
def known() -> tuple[Format, ...]:
    """Every format, sorted by what it does and by its name."""
    package = importlib.import_module("ppsim.formats")
    for module in pkgutil.iter_modules(package.__path__):
        if not module.name.startswith("_"):
            importlib.import_module(f"ppsim.formats.{module.name}")
    return tuple(sorted(registered(), key=lambda found: (found.does, found.name)))


def that(does: Does) -> dict[str, Format]:
    """The formats that do so, by their names."""
    return {found.name: found for found in known() if found.does == does}
