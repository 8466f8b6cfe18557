"""Launch files of training frameworks -> experiments. They are parsed, never run. A launcher is a file here."""

from __future__ import annotations

import importlib
import pkgutil

from ppsim.errors import FormatError, did_you_mean, printable, shown
from ppsim.formats.launch.base import LAUNCHERS, Launcher
from ppsim.formats.launch.experiment import Imported, Times, experiment_of
from ppsim.formats.launch.settings import File, Settings

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["LAUNCHERS", "File", "Imported", "Settings", "Times", "convert", "launcher_of"]


def convert(file: File, name: str | None = None, times: Times = Times()) -> Imported:  # noqa: B008 - a constant
    """The experiment that a launch file describes, read as that launcher's (default: whichever it looks like).

    Raises FormatError, a line for each mistake.
    """
    return experiment_of(launcher_of(file, name).read(file), file.label, times)


def launcher_of(file: File, name: str | None = None) -> Launcher:
    """The launcher of that name, or the one whose marks a file bears. Raises FormatError for an unknown one."""
    if name is None:
        return max(
            LAUNCHERS.values(), key=lambda known: (known.claims(file.text, file.label), known.name == "megatron")
        )
    if name not in LAUNCHERS:
        hint = did_you_mean(name, LAUNCHERS) or ";"
        raise FormatError(
            f"{printable(file.label)}: no launcher {shown(name)}{hint} known: {', '.join(sorted(LAUNCHERS))}"
        )
    return LAUNCHERS[name]
