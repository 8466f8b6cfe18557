"""ppsim: a discrete-event simulator of pipeline-parallel training.

>>> import ppsim
>>> result = ppsim.simulate(ppsim.load("configs/quickstart.yaml", {"pipeline.ranks": 8}))
>>> result.summary["bubble_ratio"]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ppsim import plot as plot
    from ppsim.config.experiment import Experiment as Experiment
    from ppsim.config.load import load as load
    from ppsim.errors import (
        ConfigError as ConfigError,
    )
    from ppsim.errors import (
        DeadlockError as DeadlockError,
    )
    from ppsim.errors import (
        FormatError as FormatError,
    )
    from ppsim.errors import (
        PpsimError as PpsimError,
    )
    from ppsim.errors import (
        ScheduleError as ScheduleError,
    )
    from ppsim.result import Result as Result
    from ppsim.schedules import Schedule as Schedule
    from ppsim.simulation import simulate as simulate

_PUBLIC = {
    "Experiment": "ppsim.config.experiment",
    "Result": "ppsim.result",
    "Schedule": "ppsim.schedules",
    "load": "ppsim.config.load",
    "simulate": "ppsim.simulation",
    "PpsimError": "ppsim.errors",
    "ConfigError": "ppsim.errors",
    "ScheduleError": "ppsim.errors",
    "DeadlockError": "ppsim.errors",
    "FormatError": "ppsim.errors",
}


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first asked for, so that `ppsim --help` stays fast."""
    import importlib

    if name == "plot":
        return importlib.import_module("ppsim.plot")
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'ppsim' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, "plot"])
