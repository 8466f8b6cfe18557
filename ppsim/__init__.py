"""ppsim: a discrete-event simulator of pipeline-parallel training.

>>> import ppsim
>>> result = ppsim.simulate(ppsim.load("configs/quickstart.yaml", {"pipeline.ranks": 8}))
>>> result.summary["bubble_ratio"]
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ppsim._version import __version__ as __version__

if TYPE_CHECKING:
    from ppsim import plot as plot
    from ppsim.analysis.compare import Comparison as Comparison
    from ppsim.analysis.compare import compare as compare
    from ppsim.analysis.explain import explain as explain
    from ppsim.analysis.measured.fit import Fit as Fit
    from ppsim.analysis.measured.fit import fit as fit
    from ppsim.analysis.measured.result import MeasuredResult as MeasuredResult
    from ppsim.analysis.measured.result import as_result as as_result
    from ppsim.analysis.measured.table import Measured as Measured
    from ppsim.analysis.result import Result as Result
    from ppsim.analysis.simulate import simulate as simulate
    from ppsim.analysis.simulate import simulate_many as simulate_many
    from ppsim.config.experiment import Experiment as Experiment
    from ppsim.config.load import load as load
    from ppsim.display.sweeping import search as search
    from ppsim.display.sweeping import sweep as sweep
    from ppsim.errors import ConfigError as ConfigError
    from ppsim.errors import DeadlockError as DeadlockError
    from ppsim.errors import FormatError as FormatError
    from ppsim.errors import PpsimError as PpsimError
    from ppsim.errors import ScheduleError as ScheduleError
    from ppsim.formats.torch_live import from_torch as from_torch
    from ppsim.formats.traces import read_trace as read_trace
    from ppsim.metrics import metric as metric
    from ppsim.report.page import view as view
    from ppsim.schedules import Schedule as Schedule
    from ppsim.sweeps.export import read_sweep as read_sweep

_PUBLIC = {
    "Comparison": "ppsim.analysis.compare",
    "compare": "ppsim.analysis.compare",
    "Experiment": "ppsim.config.experiment",
    "load": "ppsim.config.load",
    "ConfigError": "ppsim.errors",
    "DeadlockError": "ppsim.errors",
    "FormatError": "ppsim.errors",
    "PpsimError": "ppsim.errors",
    "ScheduleError": "ppsim.errors",
    "explain": "ppsim.analysis.explain",
    "Fit": "ppsim.analysis.measured.fit",
    "fit": "ppsim.analysis.measured.fit",
    "Measured": "ppsim.analysis.measured.table",
    "MeasuredResult": "ppsim.analysis.measured.result",
    "as_result": "ppsim.analysis.measured.result",
    "from_torch": "ppsim.formats.torch_live",
    "metric": "ppsim.metrics",
    "Result": "ppsim.analysis.result",
    "Schedule": "ppsim.schedules",
    "read_trace": "ppsim.formats.traces",
    "simulate": "ppsim.analysis.simulate",
    "simulate_many": "ppsim.analysis.simulate",
    "read_sweep": "ppsim.sweeps.export",
    "search": "ppsim.display.sweeping",
    "sweep": "ppsim.display.sweeping",
    "view": "ppsim.report.page",
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
    return sorted([*_PUBLIC, "plot", "__version__"])


def load_ipython_extension(shell: Any) -> None:
    """Let results, comparisons and figures show themselves in this shell; importing ppsim inside one does it, too."""

    def by(function: str) -> Any:
        def show(shown: Any) -> Any:
            from ppsim.display import page

            return getattr(page, function)(shown)

        return show

    # By name: neither the results nor the plots are imported before one is shown.
    formatters = shell.display_formatter.formatters
    formatters["text/html"].for_type_by_name("ppsim.analysis.result", "Result", by("of_result"))
    formatters["text/html"].for_type_by_name("ppsim.analysis.compare", "Comparison", by("of_comparison"))
    formatters["image/png"].for_type_by_name("matplotlib.figure", "Figure", by("of_figure"))
    formatters["image/png"].for_type_by_name("matplotlib.axes._axes", "Axes", by("of_figure"))


if (_ipython := sys.modules.get("IPython")) is not None and (_shell := _ipython.get_ipython()) is not None:
    load_ipython_extension(_shell)
