"""The runs behind a paper's rows: each experiment simulated once, each trace fitted once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ppsim.analysis.result import Result
from ppsim.analysis.simulate import simulate
from ppsim.config.experiment import Experiment
from ppsim.config.load import load
from ppsim.engine import fastest
from ppsim.errors import PpsimError
from ppsim.papers.paper import Figure, Paper, cells
from ppsim.papers.values import of_trace, value_of

if TYPE_CHECKING:
    from ppsim.analysis.measured.fit import Fit

Values = Mapping[str, Any]
"""A row's columns by their names."""


@dataclass
class Runs:
    """Results by what they were made of: figures of one paper often share their runs."""

    paper: Paper
    _made: dict[tuple[str, tuple[str, ...]], Result | PpsimError] = field(default_factory=dict)
    _fitted: dict[str, Fit] = field(default_factory=dict)

    def value(self, figure: Figure, row: Values) -> float:
        """The simulated value of a row. Raises PpsimError where there is no run."""
        if figure.trace is not None:
            found = self._fit(figure.trace)
            return float(figure.simulated.value(lambda name: row[name] if name in row else of_trace(found, name, row)))
        value = _simulated(figure, row, self._result(figure, figure.set, row))
        if figure.less:
            value -= _simulated(figure, row, self._result(figure, {**figure.set, **figure.less}, row))
        if figure.over:
            value /= _simulated(figure, row, self._result(figure, {**figure.set, **figure.over}, row))
        return value

    def _result(self, figure: Figure, settings: Mapping[str, str], row: Values) -> Result:
        """A run of a row. Raises PpsimError where there is none."""
        changes = [f"{key}={_filled(text, row)}" for key, text in settings.items()]
        key = figure.config or "", tuple(changes)
        if key not in self._made:
            try:
                self._made[key] = _simulate(load(self.paper.folder / key[0], changes))
            except PpsimError as error:
                self._made[key] = error
        found = self._made[key]
        if isinstance(found, PpsimError):
            raise found
        return found

    def _fit(self, trace: str) -> Fit:
        """A measured run, fitted. Raises PpsimError where it can't be read."""
        from ppsim.analysis.measured.fit import fit
        from ppsim.formats.traces import read_trace

        if trace not in self._fitted:
            self._fitted[trace] = fit(read_trace(self.paper.folder / trace))
        return self._fitted[trace]


def _simulate(experiment: Experiment) -> Result:
    """Many runs of some seconds at most: loading the compiled engine pays, where it plays how links are shared."""
    shared = experiment.cluster is not None and experiment.cluster.sharing != "queueing"
    return simulate(experiment, engine="auto" if shared else fastest())


def _filled(text: str, row: Values) -> str:
    """A setting's text with the row's values in it. Raises ValueError for a column that isn't there."""
    values = {key: float(value) if isinstance(value, Fraction) else value for key, value in row.items()}
    try:
        return text.format_map(values)
    except KeyError as error:
        return str(cells(row)(str(error.args[0])))


def _simulated(figure: Figure, row: Values, result: Result) -> float:
    return float(figure.simulated.value(lambda name: row[name] if name in row else value_of(result, name)))
