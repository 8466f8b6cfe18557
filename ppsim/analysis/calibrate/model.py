"""Step times of measured runs, simulated with any values of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ppsim.analysis.calibrate.runs import MeasuredRun
from ppsim.analysis.simulate import simulate
from ppsim.config import keys, yamlfile
from ppsim.config.experiment import Experiment
from ppsim.config.load import anchored, default_name
from ppsim.config.resolved import settings as resolved_settings
from ppsim.config.yamlfile import Document
from ppsim.errors import ConfigError, PpsimError, printable

PER_SECOND = 1e9
EFFICIENCY = "costs.efficiency"


@dataclass(frozen=True)
class Model:
    """A config, and the runs that were measured of it."""

    document: Document
    path: Path
    label: str
    """The file of the runs, for messages."""
    runs: Sequence[MeasuredRun]

    @classmethod
    def of(cls, config: Path, settings: Sequence[str], measured: Path, runs: Sequence[MeasuredRun]) -> Model:
        """From a config's file with ``settings``, as KEY=VALUE, changed. Raises ConfigError."""
        document = yamlfile.read(config)
        document = yamlfile.override(document, settings) if settings else document
        given, value = keys.value_at(document.data, EFFICIENCY)
        if given and isinstance(value, int | float | str):  # so that its parts can be set
            document = yamlfile.override(document, {EFFICIENCY: {"matmul": value}})
        return cls(document, config, printable(str(measured)), runs)

    def experiment(self, changes: Mapping[str, Any], run: MeasuredRun | None = None) -> Experiment:
        """The experiment of a run, or of none, with some settings changed. Raises ConfigError."""
        settings = {key: value for key, value in self.document.data.items() if key != "sweep"}
        document = Document.from_mapping({"name": default_name(self.path), **settings}, printable(str(self.path)))
        try:
            if run is not None:
                document = yamlfile.override(document, run.assignments)
            document = yamlfile.override(document, changes)
            return Experiment(**anchored(document.data, self.path.parent))
        except ConfigError as error:
            where = printable(str(self.path)) if run is None else f"{self.label}:{run.line}"
            raise ConfigError("\n".join(f"{where}: {line}" for line in str(error).splitlines())) from None

    def seconds(self, changes: Mapping[str, Any], run: MeasuredRun) -> float:
        """The simulated step time of a run."""
        result = simulate(self.experiment(changes, run))
        return result.timeline.makespan / result.plan.steps / PER_SECOND

    @cached_property
    def base(self) -> Experiment:
        """The experiment as the config has it, or else as the first run has."""
        try:
            return self.experiment({})
        except PpsimError:
            return self.experiment({}, self.runs[0])

    def setting(self, key: str) -> Any:
        """What a setting is, as it is written, or its default; None where there is neither."""
        for settings in (self.document.data, resolved_settings(self.base)):
            given, value = keys.value_at(settings, key)
            if given and value is not None:
                return value
        return None

    def text(self, changes: Mapping[str, Any], remarks: Sequence[str]) -> str:
        """The config with some settings changed, as YAML under some remarks."""
        settings = yamlfile.override(self.document, changes).data
        return "".join(f"# {line}\n" for line in remarks) + yamlfile.dump(settings)
