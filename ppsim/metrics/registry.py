"""Finds the metrics, whatever this folder's modules and the user's own code register, and makes rows of them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, get_args

import numpy as np

from ppsim.errors import ConfigError, did_you_mean, shown
from ppsim.metrics.base import METRICS, REGISTERED, Metric, Run, Scope
from ppsim.metrics.links import pairs

_FOLDER = "ppsim.metrics"
_OURS = f"{_FOLDER}."
Row = dict[str, Any]


@cache
def _loaded() -> None:
    for module in pkgutil.iter_modules(importlib.import_module(_FOLDER).__path__):
        if not module.name.startswith("_"):
            importlib.import_module(_OURS + module.name)


def every() -> list[Metric]:
    """All metrics: ours by module, then those that others have registered."""
    _loaded()
    return _in_order(METRICS.values())


def _in_order(registered: Iterable[Metric]) -> list[Metric]:
    return sorted(registered, key=lambda found: (not found.module.startswith(_OURS), found.module))


def known(scope: Scope, tables: bool | None = None) -> dict[str, Metric]:
    """The metrics of a scope by their names: those that are tables, those that aren't, or (None) all."""
    _loaded()
    return _of_scope(scope, tables, (len(REGISTERED), len(METRICS)))


@lru_cache(maxsize=3 * len(get_args(Scope)))
def _of_scope(scope: Scope, tables: bool | None, _registered: tuple[int, int]) -> dict[str, Metric]:
    """Those of a scope: asked for in every run, whereas what is registered seldom changes."""
    wanted = (found for found in _in_order(METRICS.values()) if found.scope == scope)
    return {found.name: found for found in wanted if tables in (None, found.unit == "table")}


def chosen(names: Sequence[str] | None = None) -> dict[str, Metric]:
    """The figures of a whole run with these names, by default all that are one value. Raises ConfigError."""
    if names is None:
        return known("run", tables=False)
    figures = known("run")
    if isinstance(names, str):
        raise ConfigError(f"metrics: a list of names is due, as in ['{names}']")
    for name in names:
        if name not in figures:
            hint = did_you_mean(str(name), figures) or f"; known: {', '.join(figures)}"
            raise ConfigError(f"metrics: {shown(name)} is no figure of a whole run{hint}")
    return {name: figures[name] for name in names}


def scalars(run: Run) -> Row:
    """Every figure of the whole run that is one value, by its name."""
    return {name: found.of(run) for name, found in chosen().items()}


def tables(run: Run) -> Row:
    """Every figure of the whole run that is several values, by its name."""
    return {name: found.of(run) for name, found in known("run", tables=True).items()}


def rows(run: Run, scope: Scope) -> list[Row] | None:
    """A row per rank, stage, link or pair, with every metric of that scope; None where the run doesn't know of them."""
    keys = _KEYS[scope](run)
    if not keys:
        return keys
    columns = {name: _column(found.of(run), len(keys)) for name, found in known(scope).items()}
    return [key | dict(zip(columns, values, strict=True)) for key, *values in zip(keys, *columns.values(), strict=True)]


def _column(values: Any, length: int) -> list[Any]:
    if values is None:
        return [None] * length
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _ranks(run: Run) -> list[Row]:
    return [{"rank": rank} for rank in range(run.plan.ops.ranks)]


def _stages(run: Run) -> list[Row]:
    return [{"stage": stage, "rank": rank} for stage, ranks in enumerate(run.plan.placement.ranks_of) for rank in ranks]


def _links(run: Run) -> list[Row] | None:
    return [{"port": port} for port in run.plan.ports] if "links" in run.knows else None


def _pairs(run: Run) -> list[Row] | None:
    if "links" not in run.knows:
        return None
    found = run.once(pairs)
    return [{"src": src, "dst": dst} for src, dst in zip(found.src.tolist(), found.dst.tolist(), strict=True)]


_KEYS: Mapping[Scope, Callable[[Run], list[Row] | None]] = {
    "run": lambda _: [{}],
    "rank": _ranks,
    "stage": _stages,
    "link": _links,
    "pair": _pairs,
}
"""What the rows of each scope are of."""
