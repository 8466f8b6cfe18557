"""A few constants of an experiment from a few measured step times: least squares of relative residuals.

The logarithm of a constant is fitted, so that it stays positive. Every run is also predicted without itself: from the
constants that the other runs ask for, found by a few Gauss-Newton steps from those that all ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppsim.analysis.calibrate.constants import DIGITS, FARTHEST, Constant, chosen
from ppsim.analysis.calibrate.model import Model
from ppsim.analysis.calibrate.runs import MeasuredRun
from ppsim.analysis.calibrate.runs import read as read_runs
from ppsim.errors import ConfigError, PpsimError, shown

STEP = 1e-2
"""Relative change of a constant by which it is seen what it does."""
STEPS = 3
"""Gauss-Newton steps by which constants follow when a run is held out."""
DETERMINED = 1e-3
"""Constants that are told apart: what the weakest mixture of them does to the runs, at least, over the strongest's."""
IDLE = 1e-6
"""A constant that changes step times by less than this times its own change does nothing."""
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """Constants that were fitted, what the runs take with them, and what is uncertain."""

    constants: Mapping[str, Any]
    """Their values, as a config has them."""
    spread: Mapping[str, float | None]
    """Relative standard error of each; None where no run is to spare."""
    runs: Sequence[MeasuredRun]
    seconds: Sequence[float]
    """Simulated step times."""
    held_out: Sequence[float] | None
    """Step time of each run by what the others ask for; None where no run is to spare."""
    notes: Sequence[str]
    model: Model

    @property
    def residuals(self) -> list[float]:
        """Simulated over measured step time, less one."""
        return _relative(self.seconds, self.runs)

    @property
    def held_out_residuals(self) -> list[float] | None:
        """The same of runs that the fit didn't see."""
        return None if self.held_out is None else _relative(self.held_out, self.runs)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row per run: what it sets, its measured and simulated time."""
        held: Sequence[float | None] = self.held_out_residuals or [None] * len(self.runs)
        columns = zip(self.runs, self.seconds, self.residuals, held, strict=True)
        return [
            {
                "line": run.line,
                **run.labels,
                "measured_s": run.seconds,
                "simulated_s": seconds,
                "residual": residual,
                "held_out_residual": without,
            }
            for run, seconds, residual, without in columns
        ]

    def summary(self) -> dict[str, Any]:
        """All of it as plain data; keys end in their unit."""
        held = self.held_out_residuals
        return {
            "constants": dict(self.constants),
            "relative_standard_error": dict(self.spread),
            "mean_abs_residual": _mean_abs(self.residuals),
            "max_abs_residual": max(map(abs, self.residuals)),
            "mean_abs_held_out_residual": None if held is None else _mean_abs(held),
            "max_abs_held_out_residual": None if held is None else max(map(abs, held)),
            "runs": self.rows,
            "notes": list(self.notes),
        }

    @property
    def text(self) -> str:
        """The config with its constants, and above it what they were fitted to."""
        summary = self.summary()
        remarks = [
            f"calibrated with {len(self.runs)} runs of {Path(self.model.label).name}: residuals "
            f"{summary['mean_abs_residual']:.1%} on average, at most {summary['max_abs_residual']:.1%}",
            *(f"{key}: {told(value, self.spread[key])}" for key, value in self.constants.items()),
            *self.notes,
        ]
        return self.model.text(self.constants, remarks)


def told(value: Any, error: float | None) -> str:
    """A constant with its standard error."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if error is None else f"{text} (± {error:.1%})"


def _relative(seconds: Sequence[float], runs: Sequence[MeasuredRun]) -> list[float]:
    return [mine / run.seconds - 1 for mine, run in zip(seconds, runs, strict=True)]


def _mean_abs(values: Sequence[float]) -> float:
    return sum(map(abs, values)) / len(values)


def calibrated(
    config: Path, measured: Path, constants: Sequence[str] = (), settings: Sequence[str] = ()
) -> Calibration:
    """Fit constants, given as 'key' or 'key=start', of a config with ``settings`` to the runs of a CSV file.

    Raises ConfigError where a file or a constant is wrong or the runs don't tell the constants, PpsimError where SciPy
    is missing.
    """
    runs = read_runs(measured)
    model = Model.of(config, settings, measured, runs)
    return _fitted(model, chosen(constants, len(runs), model.base.costs.kind, model.setting))


def _fitted(model: Model, constants: Sequence[Constant]) -> Calibration:
    measured = np.array([run.seconds for run in model.runs])

    def settings(logs: Vector) -> dict[str, Any]:
        return {constant.key: constant.at(exp(x)) for constant, x in zip(constants, logs, strict=True)}

    def residuals(logs: Vector, among: Sequence[int] = range(len(model.runs))) -> Vector:
        found = settings(logs)
        off: Vector = np.array([model.seconds(found, model.runs[index]) for index in among]) / measured[list(among)] - 1
        return off

    best = _least_squares(residuals, [constant.most for constant in constants])
    jacobian = _jacobian(residuals, best)
    notes = _undetermined(constants, jacobian)
    values = {constant.key: constant.at(exp(x), DIGITS) for constant, x in zip(constants, best, strict=True)}
    seconds = [model.seconds(values, run) for run in model.runs]
    rest: Vector = np.array(seconds) / measured - 1
    notes += [
        f"{constant.key} went to the end of its range: the runs ask for what it can't be"
        for constant, x in zip(constants, best, strict=True)
        if abs(x) > 0.99 * FARTHEST or (constant.most < FARTHEST and x > constant.most - STEP)
    ]
    spare = len(model.runs) - len(constants)
    held_out, spread = None, dict.fromkeys(values)
    if spare > 0 and not notes:
        without = [settings(_without(index, best, jacobian, residuals)) for index in range(len(rest))]
        held_out = [model.seconds(found, run) for found, run in zip(without, model.runs, strict=True)]
        errors = np.sqrt(np.diag(np.linalg.inv(jacobian.T @ jacobian)) * float(rest @ rest) / spare)
        spread = dict(zip(values, map(float, errors), strict=True))
    return Calibration(values, spread, model.runs, seconds, held_out, notes, model)


def _least_squares(residuals: Callable[[Vector], Vector], most: Sequence[float]) -> Vector:
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise PpsimError("calibrate needs SciPy: pip install 'ppsim[fit]'") from None
    bounds = (np.full(len(most), -FARTHEST), np.maximum(most, STEP))
    found = least_squares(
        residuals, np.zeros(len(most)), lambda at: _jacobian(residuals, at), bounds, xtol=1e-7, ftol=1e-10, max_nfev=60
    )
    best: Vector = found.x
    return best


def _jacobian(residuals: Callable[[Vector], Vector], at: Vector) -> Vector:
    """What each constant's logarithm does to the residuals, by central differences."""
    columns = []
    for index in range(len(at)):
        step = np.zeros(len(at))
        step[index] = STEP
        columns.append((residuals(at + step) - residuals(at - step)) / (2 * STEP))
    return np.stack(columns, axis=1)


def _undetermined(constants: Sequence[Constant], jacobian: Vector) -> list[str]:
    """What the runs don't tell apart. Raises ConfigError for a constant that changes no run."""
    idle = [c.key for c, column in zip(constants, jacobian.T, strict=True) if sqrt(float(column @ column)) < IDLE]
    if idle:
        lines = (f"--constant {shown(key)}: changes the step time of none of these runs; leave it out" for key in idle)
        raise ConfigError("\n".join(lines))
    _, strengths, directions = np.linalg.svd(jacobian)
    if strengths[-1] >= DETERMINED * strengths[0]:
        return []
    mixed = [c.key for c, share in zip(constants, directions[-1], strict=True) if abs(share) > 0.1]
    return [f"these runs don't tell {' and '.join(mixed)} apart: add runs in which they differ, or fit fewer"]


def _without(
    index: int, best: Vector, jacobian: Vector, residuals: Callable[[Vector, Sequence[int]], Vector]
) -> Vector:
    """The constants that all runs but one ask for: a few Gauss-Newton steps from those that all ask for."""
    others = [other for other in range(len(jacobian)) if other != index]
    for _ in range(STEPS):
        step = np.linalg.lstsq(jacobian[others], -residuals(best, others), rcond=None)[0]
        best = np.asarray(best + np.clip(step, -1.0, 1.0), np.float64)
    return best
