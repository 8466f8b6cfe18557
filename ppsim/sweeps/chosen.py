"""One case of a sweep or a search, taken out of its table: as an experiment, and as a config that runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ppsim.config import yamlfile
from ppsim.config.experiment import Experiment
from ppsim.errors import ConfigError
from ppsim.sweeps.cases import Base, Resolver


def case_experiment(base: Base, changes: str) -> Experiment:
    """The experiment of a case; ``changes`` as the tables hold them, as JSON text."""
    resolver = Resolver(base)
    return resolver.experiment(resolver.settled(resolver.settings(json.loads(changes))))


def case_config(base: Base, changes: str, folder: Path, why: str) -> str:
    """The YAML text of a case, to be written into ``folder``, with a first line that says which case it is."""
    settings = Resolver(base).settings(json.loads(changes))
    return f"# {why}\n{yamlfile.dump(_from(settings, folder))}"


def _from(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Files that the settings name, seen from another folder."""
    return {
        key: {**section, "path": os.path.relpath(section["path"], folder)}
        if isinstance(section, dict) and isinstance(section.get("path"), str)
        else section
        for key, section in settings.items()
    }


def nth(rows: list[dict[str, Any]], row: int, what: str) -> dict[str, Any]:
    """Row ``row`` of a table, counted from 1 as it is shown. Raises ConfigError where there is none."""
    if not 1 <= row <= len(rows):
        has = f"rows 1 to {len(rows)}" if rows else "no rows"
        raise ConfigError(f"--row: {row} is not in {what}, which has {has}")
    return rows[row - 1]
