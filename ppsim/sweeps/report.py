"""What a sweep says: the best cases, by a figure that may be compared, and the Pareto front against memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ppsim.costs.given import without_memory
from ppsim.errors import ConfigError, did_you_mean, printable
from ppsim.metrics import known
from ppsim.sweeps.columns import Column
from ppsim.sweeps.db import SweepFile
from ppsim.sweeps.export import ordered

MEMORY = "peak_memory_bytes"
IDENTITY = ("id", "changes")
"""What names a case, beside its parameters and figures."""
TOP = 10
Figures = dict[str, Any]


@dataclass(frozen=True)
class Ranking:
    """The best cases, best first, and the front: those that no other beats in both the figure and peak memory."""

    figure: str
    why: str
    finished: int
    fitting: int
    best: list[Figures]
    front: list[Figures]
    missing: list[str]
    """What takes memory and wasn't given, in words; a peak leaves it out."""


def not_given(base: str, columns: Iterable[Column]) -> list[str]:
    """The same of a sweep's base, its settings as JSON, and of what it varies."""
    costs = json.loads(base).get("costs") or {}
    varied = {column.name for column in columns}
    if costs.get("kind", "given") != "given" or "costs" in varied:
        return []
    return without_memory({*costs, *(name.removeprefix("costs.") for name in varied)})


def ranking(file: SweepFile, rank_by: str | None = None) -> Ranking:
    """Rank the finished cases that fit into memory.

    By step time where all do the same work, else by ``bubble_ratio``; or as told. Raises ConfigError for a figure that
    isn't one, or that doesn't compare.
    """
    columns = ordered(file.columns())
    figures = [column.name for column in columns if column.role == "figure" and column.kind in ("float", "int")]
    same, why = same_work(file)
    figure = rank_by or ("step_time_s" if same else "bubble_ratio")
    counts = file.counts()
    if counts.get("ok", 0) and figure not in figures:
        raise ConfigError(f"--rank-by: no case has a figure '{printable(figure)}'; there are {', '.join(figures)}")
    metric = known("run").get(figure.split(".")[0])
    if not same and metric is not None and metric.of_work:
        raise ConfigError(f"--rank-by: {figure} is not ranked: {why}; use bubble_ratio")
    missing = not_given(file.about("base") or "{}", columns)
    if not counts.get("ok", 0):
        return Ranking(figure, why, 0, 0, [], [], missing)
    fits = "status = 'ok' AND fits IS NOT 0" if any(column.name == "fits" for column in columns) else "status = 'ok'"
    name = f'"{figure}"'
    direction = "DESC" if metric is not None and metric.better == "high" else "ASC"
    order = f"{name} {direction}, {MEMORY}, id"
    shown = [*IDENTITY, *(column.name for column in columns)]
    ranked = f"{fits} AND {name} IS NOT NULL"
    best = [dict(zip(shown, row, strict=True)) for row in file.rows(shown, ranked, order, TOP)]
    fitting = sum(1 for _ in file.rows(["id"], fits))
    return Ranking(figure, why, counts["ok"], fitting, best, _front(file, shown, ranked, order), missing)


def check_figure(rank_by: str | None) -> None:
    """Raises ConfigError for what is no figure's name, with what a statistic of repeats adds to it or without.

    Also for a figure of which neither less nor more is better.
    """
    figures = {name: metric for name, metric in known("run").items() if metric.unit != "table"}
    names = [name for name, metric in figures.items() if metric.better is not None]
    if rank_by in figures and rank_by not in names:
        raise ConfigError(f"--rank-by: {rank_by} is not ranked: neither less nor more of it is better")
    if rank_by is not None and rank_by.split(".")[0] not in names:
        hint = did_you_mean(rank_by, names) or ";"
        raise ConfigError(f"--rank-by: there is no figure '{printable(rank_by)}'{hint} known: {', '.join(names)}")


def same_work(file: SweepFile) -> tuple[bool, str]:
    """Whether all finished cases do the same work in a step, and the words for it."""
    low, high = file.span("work_s")
    if low is None or low == high:
        return True, "every case does the same work in a step"
    return False, (
        f"the cases do different amounts of work in a step, from {low:.4g} s to {high:.4g} s of computation, so their "
        "step times don't compare (costs per: model and one global batch would make them)"
    )


def _front(file: SweepFile, shown: Sequence[str], ranked: str, order: str) -> list[Figures]:
    """Of the cases from best to worst, each that needs less memory than all before it."""
    front: list[Figures] = []
    least, place = None, shown.index(MEMORY)
    for row in file.rows(shown, f"{ranked} AND {MEMORY} IS NOT NULL", order):
        if least is None or row[place] < least:
            least = row[place]
            front.append(dict(zip(shown, row, strict=True)))
    return front


def grouped(reasons: Iterable[tuple[str, str]]) -> list[tuple[int, str, str]]:
    """(how many, the first one's reason, what it sets), the most frequent first.

    Reasons whose first lines differ in numbers alone count as one.
    """
    groups: dict[str, tuple[int, str, str]] = {}
    for reason, changes in reasons:
        reason = reason.partition("\n")[0]
        alike = re.sub(r"[0-9]+", "0", reason)
        count, *first = groups.get(alike, (0, reason, changes))
        groups[alike] = (count + 1, first[0], first[1])
    return sorted(groups.values(), key=lambda group: -group[0])


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Each key's shortest end that no other key ends in."""

    def ends(name: str) -> list[str]:
        parts = name.split(".")
        return [".".join(parts[at:]) for at in range(len(parts) - 1, -1, -1)]

    return {
        name: next((end for end in ends(name) if not any(end in ends(other) for other in names if other != name)), name)
        for name in names
    }


def thinned(rows: Sequence[Figures], most: int) -> list[Figures]:
    """At most so many of the rows, spread evenly, the first and the last among them."""
    if len(rows) <= most:
        return list(rows)
    return [rows[i * (len(rows) - 1) // (most - 1)] for i in range(most)]


def varying(parameters: Sequence[Column], rows: Sequence[Figures]) -> list[str]:
    """The parameters in which these rows differ, and the schedule; the others are ``shared``."""
    return [c.name for c in parameters if c.name == "schedule" or len({row[c.name] for row in rows}) > 1]


def shared(parameters: Sequence[Column], rows: Sequence[Figures]) -> dict[str, Any]:
    """What was varied and is the same in all of these rows."""
    shown = varying(parameters, rows)
    return {c.name: rows[0][c.name] for c in parameters if rows and c.name not in shown}
