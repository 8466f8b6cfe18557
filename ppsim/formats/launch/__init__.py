"""Launch files of training frameworks -> experiments. They are parsed, never run. A launcher is a file here."""

from __future__ import annotations

import importlib
import pkgutil

from ppsim.errors import FormatError, did_you_mean, printable, shown
from ppsim.formats._launch import File, Settings
from ppsim.formats.launch.base import LAUNCHERS, Launcher
from ppsim.formats.launch.experiment import Imported, Machine, Times, experiment_of

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["LAUNCHERS", "File", "Imported", "Machine", "Settings", "Times", "convert", "launcher_of"]


def convert(
    file: File, name: str | None = None, times: Times | None = None, machine: Machine | None = None
) -> Imported:
    """The experiment that a launch file describes, read as that launcher's (default: whichever it looks like).

    Its costs are ``times`` per layer or, on a ``machine``, follow from the model. Raises FormatError, a line for each
    mistake.
    """
    settings = launcher_of(file, name).read(file._replace(costed=machine is not None))
    return experiment_of(settings, file.label, times or Times(), machine)


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
