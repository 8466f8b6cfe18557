"""The keys of an experiment as dotted paths: which there are, and what a setting is where a config doesn't give it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ppsim.config.mistakes import models_in
from ppsim.errors import did_you_mean, printable

NAMES = ("name", "like", "preset")
"""The keys of a mapping that say which row, schedule or preset it is: the mapping's value in a word."""


def problem(path: str, root: type[BaseModel]) -> str | None:
    """What is wrong with a key such as 'pipeline.ranks', None where it can be set."""
    here: list[type[BaseModel]] = [root]
    parts = path.split(".")
    for depth, part in enumerate(parts):
        if part.isdigit() and depth:
            continue
        fields = _fields(here)
        if part not in fields:
            before = ".".join(parts[:depth])
            if not fields:
                return f"{printable(before)} has no keys below it"
            known = ", ".join(sorted(fields))
            where = f"{printable(before)} has no key" if before else "there is no key"
            return f"{where} '{printable(part)}'{did_you_mean(part, fields) or f'; known: {known}'}"
        here = [model for field in fields[part] for model in models_in(field)]
    return None


def _fields(models: list[type[BaseModel]]) -> dict[str, list[FieldInfo]]:
    found: dict[str, list[FieldInfo]] = {}
    for model in models:
        for key, field in model.model_fields.items():
            found.setdefault(key, []).append(field)
    return found


def default(path: str, root: type[BaseModel]) -> Any:
    """What the setting at a path is where nobody gives it; None where that isn't one plain value."""
    here: list[type[BaseModel]] = [root]
    found: Any = None
    for part in path.split("."):
        fields = _fields(here).get(part, [])
        here = [model for field in fields for model in models_in(field)]
        values = [field.default for field in fields if not field.is_required()]
        found = values[0] if values else None
    return None if isinstance(found, BaseModel) else found


@cache
def by_last_part(root: type[BaseModel]) -> Mapping[str, tuple[str, ...]]:
    """The paths of all settings by their last part; those of the pipeline come first."""
    found: dict[str, dict[str, None]] = {}
    for path in _paths(root, "", 0):
        found.setdefault(path.rpartition(".")[2], {})[path] = None
    return {name: tuple(sorted(paths, key=_pipeline_first)) for name, paths in found.items()}


def _pipeline_first(path: str) -> tuple[bool, str]:
    return not path.startswith("pipeline."), path


def _paths(model: type[BaseModel], before: str, depth: int) -> Iterator[str]:
    for key, field in model.model_fields.items():
        if not before and key == "sweep":
            continue
        yield before + key
        if depth < 3:
            for inner in models_in(field):
                yield from _paths(inner, f"{before}{key}.", depth + 1)


def value_at(settings: Mapping[str, Any], path: str) -> tuple[bool, Any]:
    """(whether it is given, the value) of a path in plain settings; of a mapping with a name, that name."""
    here: Any = settings
    parts = path.split(".")
    for depth, part in enumerate(parts):
        if isinstance(here, list) and part.isdigit() and int(part) < len(here):
            here = here[int(part)]
        elif isinstance(here, Mapping) and part in here:
            here = here[part]
        elif isinstance(here, str) and depth == len(parts) - 1 and part in NAMES:
            return True, here
        else:
            return False, None
    if isinstance(here, Mapping):
        here = next((here[key] for key in NAMES if key in here), here)
    return True, here
