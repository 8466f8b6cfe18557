"""A YAML file -> an Experiment, with every mistake at once, each at its line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from ppsim.config import yamlfile
from ppsim.config.experiment import Experiment
from ppsim.config.yamlfile import Document
from ppsim.costs.transformer.source import is_path
from ppsim.errors import ConfigError, shown


def load(path: str | Path, overrides: Mapping[str, Any] | Sequence[str] = ()) -> Experiment:
    """Read an experiment; ``overrides`` as ``{"pipeline.ranks": 8}`` or ``["pipeline.ranks=8"]``.

    Raises ConfigError with one line per mistake, each as file:line:column: key: what is wrong.
    """
    if not isinstance(path, str | PathLike):
        raise ConfigError(f"load takes the path of a YAML file, not {shown(path)}")
    path = Path(path)
    return experiment_of(document_of(path, overrides), path)


def document_of(path: Path, overrides: Mapping[str, Any] | Sequence[str] = ()) -> Document:
    """What stands in a config, with its ``overrides``. Raises ConfigError."""
    document = yamlfile.read(path)
    return yamlfile.override(document, overrides) if overrides else document


def experiment_of(document: Document, path: Path) -> Experiment:
    """The experiment of a config that has been read from ``path``. Raises ConfigError, as ``load`` does."""
    try:
        return Experiment(**{"name": default_name(path), **anchored(document.data, path.parent)})
    except ConfigError as error:
        placed = [(document.locate(mistake.place), mistake) for mistake in error.mistakes]
        placed.sort(key=lambda item: item[0] if isinstance(item[0], tuple) else (0, 0))
        lines = {f"{document.where(mistake.place)}: {mistake}": None for _, mistake in placed}
        raise ConfigError("\n".join(lines) or str(error)) from None


def anchored(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The settings with the paths of files made relative to the folder of their config."""
    found = {
        key: {**section, "path": str(folder / section["path"])}
        if isinstance(section, dict) and isinstance(section.get("path"), str)
        else section
        for key, section in data.items()
    }
    costs = found.get("costs")
    if isinstance(costs, dict) and "model" in costs:
        found["costs"] = {**costs, "model": _anchored_model(costs["model"], folder)}
    return found


def _anchored_model(model: Any, folder: Path) -> Any:
    """A model that is a file, or is like one."""
    if isinstance(model, dict) and isinstance(model.get("like"), str):
        return {**model, "like": _anchored_model(model["like"], folder)}
    return str(folder / model) if isinstance(model, str) and is_path(model, folder) else model


def default_name(path: Path) -> str:
    """The name of an experiment whose file gives none: the file's stem, made a legal name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).lstrip("._-")[:100] or "experiment"
