"""Finds the schedules: this folder's modules, and the entry points of other packages."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType

from ppsim.errors import Notice, did_you_mean
from ppsim.schedules.base import Schedule

GROUP = "ppsim.schedules"
PYTORCH_NAMES = {
    "GPipe": "gpipe",
    "1F1B": "1f1b",
    "Interleaved1F1B": "interleaved_1f1b",
    "LoopedBFS": "looped_bfs",
    "InterleavedZeroBubble": "interleaved_zb",
    "ZBVZeroBubble": "zbv",
    "DualPipeV": "dualpipev",
}
"""What PyTorch and torchtitan (--parallelism.pipeline_parallel_schedule) call schedules; taken for ours."""
OTHER_NAMES = {
    "1f1b_flush": "1f1b",
    "afab": "gpipe",
    "bfs": "looped_bfs",
    "bf_pp": "looped_bfs",
    "dapple": "1f1b",
    "fill_drain": "gpipe",
    "interleaved": "interleaved_1f1b",
    "pipedream_flush": "1f1b",
    "virtual_pipeline": "interleaved_1f1b",
    "vpp": "interleaved_1f1b",
    "zb1p": "zb_h1",
    "zb2p": "zb_h2",
    "zero_bubble": "zb_h1",
}
"""What others call schedules, in lower case with '_'; never taken for ours, but asked for."""
_NOT_SCHEDULES = {"base", "parts", "problem", "registry", "theory"}


def literal_name(schedule: type[Schedule]) -> str | None:
    """The name that a config calls the schedule by, or None for an abstract one."""
    default = schedule.model_fields["name"].default
    return default if isinstance(default, str) else None


def _defined_in(module: ModuleType) -> Iterator[type[Schedule]]:
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Schedule) and value.__module__ == module.__name__:
            yield value


@cache
def _found() -> tuple[dict[str, type[Schedule]], tuple[Notice, ...]]:
    package = importlib.import_module("ppsim.schedules")
    schedules: dict[str, type[Schedule]] = {}
    notices: list[Notice] = []
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        if module.name in _NOT_SCHEDULES:
            continue
        for schedule in _defined_in(importlib.import_module(f"ppsim.schedules.{module.name}")):
            if name := literal_name(schedule):
                schedules[name] = schedule
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
        package_name = point.dist.name if point.dist else point.value
        try:
            schedule = point.load()
            name = literal_name(schedule)
            if not name or name in schedules:
                raise ValueError(f"its name {name!r} is missing or taken")
            schedules[name] = schedule
        except Exception as error:  # a plug-in is foreign code: whatever it raises, ppsim goes on without it
            notices.append(
                Notice("plugin", "schedule", f"plug-in '{point.name}' of package '{package_name}' left out: {error}")
            )
    return schedules, tuple(notices)


def known() -> dict[str, type[Schedule]]:
    """Every schedule by the name that a config calls it."""
    return _found()[0]


def nearest(name: str) -> str:
    """'; did you mean 'x'?' for a schedule's other name, or for the nearest that there is; else ''."""
    other = OTHER_NAMES.get(name.lower().replace("-", "_").replace(" ", "_"))
    return f"; did you mean '{other}'?" if other else did_you_mean(name, known())


def with_setting(key: str) -> list[str]:
    """The schedules that have a setting of that name."""
    return sorted(name for name, schedule in known().items() if key in schedule.model_fields)


def plugin_notices() -> tuple[Notice, ...]:
    """A warning for each plug-in that could not be used."""
    return _found()[1]
