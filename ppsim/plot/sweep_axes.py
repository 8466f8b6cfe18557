"""What a sweep's pictures are made of: its columns as axes, its cases in groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ppsim.errors import PpsimError, did_you_mean, printable
from ppsim.plot import scales
from ppsim.plot.style import plain
from ppsim.units import Dimension, show

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axis import Axis

SCHEDULE = "which schedule"
"""A column made here: the schedule with those of its settings in which the cases differ."""
WORDS = {
    "ranks": "ranks p", "pipeline.ranks": "ranks p", "microbatches": "microbatches m",
    "pipeline.microbatches": "microbatches m", "virtual_stages": "virtual stages v", "bubble_ratio": "bubble_ratio",
    "peak_memory_bytes": "peak memory", "step_time_s": "step time", SCHEDULE: "schedule",
}  # fmt: skip
SHARES = ("bubble_ratio", "bubble_overhead", "steady_bubble_ratio", "mfu")
MOST_GROUPS = 12
DIMENSIONS: dict[str, Dimension] = {"s": "time", "B": "size", "B/s": "bandwidth", "FLOP/s": "rate"}
"""The dimension of each unit that a parameter's column may be in."""


def finished(table: pd.DataFrame) -> pd.DataFrame:
    """The cases that have figures, with a column for the schedule. Raises PpsimError where there are none."""
    done = table[table["status"] == "ok"].copy()
    if done.empty:
        raise PpsimError("the sweep has no finished case to draw")
    done[SCHEDULE] = _schedules(done, table.attrs.get("parameters", []))
    done.attrs = table.attrs
    return done


def _schedules(done: pd.DataFrame, parameters: Sequence[str]) -> list[str]:
    """'interleaved_1f1b, v = 2': the name, and the settings in which cases of that name differ."""
    own = [key for key in parameters if key.startswith("schedule.")]
    differ: dict[str, list[str]] = {}
    for name, cases in done.groupby("schedule"):
        differ[str(name)] = [key for key in own if cases[key].nunique(dropna=False) > 1]
    labels = []
    for name, *settings in done[["schedule", *own]].itertuples(index=False):
        shown = [
            f"{'v' if key.endswith('.virtual_stages') else key.removeprefix('schedule.')} = {_short(value)}"
            for key, value in zip(own, settings, strict=True)
            if key in differ[name]
        ]
        labels.append(", ".join([str(name), *shown]))
    return labels


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float | int) else str(value)


def fitting(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Which cases fit into memory, as far as is known."""
    return table["fits"].fillna(True).to_numpy(bool) if "fits" in table else np.ones(len(table), bool)


def column(table: pd.DataFrame, name: str, option: str) -> str:
    """The column that a name stands for: itself, or the one parameter that ends in it. Raises PpsimError."""
    if name == "schedule":
        return SCHEDULE
    if name in table.columns:
        return name
    ending = [key for key in table.columns if key.endswith(f".{name}")]
    if len(ending) == 1:
        return str(ending[0])
    known = [key for key in table.columns if key not in ("id", "error", SCHEDULE)]
    hint = did_you_mean(name, known) or ";"
    raise PpsimError(f"{option}: there is no column '{printable(name)}'{hint} known: {', '.join(map(str, known))}")


def varied(table: pd.DataFrame) -> list[str]:
    """What to tell cases apart by: the schedule, p, m, v, then the sweep's other parameters, where they differ."""
    told = ["schedule", "pipeline.ranks", "pipeline.microbatches"]
    others = [k for k in table.attrs.get("parameters", []) if k not in told and not k.startswith("schedule.")]
    return [key for key in (SCHEDULE, "ranks", "microbatches", *others) if table[key].nunique() > 1]


def levels(table: pd.DataFrame, key: str | None) -> list[Any]:
    """The values of a column in order; [None] where there is no column."""
    if key is None:
        return [None]
    values = table[key].dropna().unique().tolist()
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=str)


def part(table: pd.DataFrame, key: str | None, level: Any) -> pd.DataFrame:
    """The cases with that value in a column."""
    return table if key is None else table[table[key] == level]


def words(key: str) -> str:
    """What an axis or a legend calls a column."""
    return WORDS.get(key) or plain(key.rpartition(".")[2] or key)


def value_words(table: pd.DataFrame, key: str, level: Any) -> str:
    """A value of a column as people write it, with its unit: '50 GB/s'."""
    unit = table.attrs.get("units", {}).get(key, "")
    if unit in DIMENSIONS and isinstance(level, float | int):
        return plain(show(Fraction(str(level)), DIMENSIONS[unit]))
    return plain(_short(level))


def level_words(table: pd.DataFrame, key: str, level: Any) -> str:
    """'p = 8'; a schedule by its name alone."""
    if key == SCHEDULE:
        return plain(str(level))
    return f"{name_words(key)} = {value_words(table, key, level)}"


def name_words(key: str) -> str:
    """What a parameter is called in a few characters: 'p', 'bandwidth'."""
    name = "schedule" if key == SCHEDULE else key.rpartition(".")[2]
    return plain({"ranks": "p", "microbatches": "m", "virtual_stages": "v"}.get(name, name))


def untold(table: pd.DataFrame, told: Iterable[str | None]) -> str:
    """'; send, bandwidth vary, too': what a picture doesn't tell cases apart by; '' where it tells all of it."""
    known = {name_words(way) for way in told if way is not None}
    left = [name for way in varied(table) if (name := name_words(way)) not in known]
    return f"; {', '.join(left)} {'varies' if len(left) == 1 else 'vary'}, too" if left else ""


@dataclass(frozen=True)
class Scale:
    """How an axis shows a column: its values over ``of``, in ``unit``; or each at its place, with its text."""

    of: float
    unit: str
    logarithmic: bool
    places: dict[Any, int] | None = None

    def at(self, values: Iterable[Any]) -> list[float]:
        """Where values are on the axis."""
        return [self.places[v] if self.places is not None else v / self.of for v in values]

    def label(self, text: str) -> str:
        """The axis' label."""
        return f"{text} [{self.unit}]" if self.unit else text

    def dress(self, axis: Axis, values: Sequence[Any]) -> None:
        """Ticks, and the logarithm where there is one."""
        from matplotlib.axis import YAxis
        from matplotlib.ticker import FuncFormatter, NullLocator

        if self.places is not None:
            axis.set_ticks(list(self.places.values()), [plain(_short(value)) for value in self.places])
        elif self.logarithmic:
            axis._set_axes_scale("log", base=2)  # type: ignore[attr-defined]
            at = self.at(values)
            axis.set_ticks(at if self.of == 1 and len(at) <= 12 else _powers(at))
            axis.set_major_formatter(FuncFormatter(lambda value, _: scales.number(value)))
            axis.set_minor_locator(NullLocator())
        elif isinstance(axis, YAxis) and min(values) >= 0:
            axis.axes.set_ylim(bottom=0)


def _powers(values: Sequence[float]) -> list[float]:
    low, high = np.ceil(np.log2(min(values))), np.floor(np.log2(max(values)))
    return [float(2**power) for power in np.arange(low, high + 1)]


def scale(table: pd.DataFrame, key: str, wide: bool = False) -> Scale:
    """The scale that fits a column's values; ``wide``: sizes, too, by their logarithm where they are far apart."""
    values = table[key].dropna()
    if not _numeric(values):
        return Scale(1, "", False, {value: place for place, value in enumerate(levels(table, key))})
    high = float(values.max())
    unit = table.attrs.get("units", {}).get(key, "")
    base = key.split(".")[0]
    if key in SHARES or base in SHARES:
        return Scale(0.01, "%", False)
    if unit == "B" or base.endswith("_bytes"):
        found = scales.fitting(high / 8, scales.SIZES)
        return Scale(found.of, found.name, wide and 0 < 8 * float(values.min()) <= high)
    if unit == "s" or (base.endswith("_s") and not base.endswith("_per_s")):
        time = scales.fitting(high / 8 * 1e9, scales.TIMES)
        return Scale(time.of / 1e9, time.name, False)
    low = float(values.min())
    counted = key in ("microbatches", "pipeline.microbatches") and high > low  # the bubble goes with their inverse
    return Scale(1, unit, low > 0 and (counted or high / low >= 8) and unit == "" and _whole(values))


def _numeric(values: pd.Series[Any]) -> bool:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    return bool(is_numeric_dtype(values)) and not is_bool_dtype(values)


def _whole(values: pd.Series[Any]) -> bool:
    return bool((values == values.round()).all())
