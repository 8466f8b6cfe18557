"""Numbers that people read: the unit that fits a span of time or a size, ticks at round values of it, short text."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axis import Axis


class Unit(NamedTuple):
    """A unit's name and how many ns or bytes it is."""

    name: str
    of: int


TIMES = (Unit("s", 10**9), Unit("ms", 10**6), Unit("us", 10**3), Unit("ns", 1))
SIZES = (Unit("TiB", 2**40), Unit("GiB", 2**30), Unit("MiB", 2**20), Unit("KiB", 2**10), Unit("B", 1))


NBSP = "\N{NO-BREAK SPACE}"
"""Between a number and its unit, so that lines aren't broken there."""


def fitting(value: float, units: tuple[Unit, ...]) -> Unit:
    """The largest unit of which ``value`` holds at least one; the smallest where it holds none."""
    return next((unit for unit in units if value >= unit.of), units[-1])


def number(value: float, digits: int = 4) -> str:
    """Decimal text of that many significant digits, never an exponent; whole numbers keep all of theirs."""
    rounded = Decimal(f"{value:.{digits}g}")
    return f"{round(value):,}" if abs(value) >= 10**digits else f"{rounded.normalize() + 0:f}"


def duration(ns: float) -> str:
    """'10 ms'."""
    unit = fitting(ns, TIMES)
    return f"{number(ns / unit.of)}{NBSP}{unit.name}"


def size(amount: float) -> str:
    """'1.5 GiB'."""
    unit = fitting(amount, SIZES)
    return f"{number(amount / unit.of)}{NBSP}{unit.name}"


def durations(shortest: float, longest: float) -> str:
    """'10 ms' where both read the same, else '10–37 ms'."""
    unit = fitting(longest, TIMES)
    low, high = number(shortest / unit.of, 3), number(longest / unit.of, 3)
    return duration(longest) if low == high else f"{low}–{high}{NBSP}{unit.name}"


def percent(share: float) -> str:
    """'27.3 %'; what isn't nothing never reads as 0."""
    return f"<{NBSP}0.1{NBSP}%" if 0 < share < 0.0005 else f"{100 * share:.1f}{NBSP}%"


_ROUND = (0.1, 0.2, 0.5, 1, 2, 5, 10)


def round_ticks(axis: Axis, low: float, high: float, unit: Unit, most: float) -> None:
    """About that many ticks at most, and two at least, at round numbers of ``unit``; the axis' data are ns or bytes."""
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    low, high = low / unit.of, high / unit.of
    step = _step(low, high, max((high - low) / most, 1e-9))
    digits = math.floor(math.log10(max(high, step))) - math.floor(math.log10(step)) + 1
    axis.set_major_locator(MultipleLocator(step * unit.of))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value / unit.of, max(digits, 6))))


def _step(low: float, high: float, wanted: float) -> float:
    """The least of 1, 2, 5, 10, … that is no less than what is wanted; less where only one would be in sight."""
    power = 10.0 ** math.floor(math.log10(wanted))
    at_most = next(place for place, factor in enumerate(_ROUND) if factor * power >= wanted * 0.999)
    for factor in reversed(_ROUND[: at_most + 1]):
        if math.floor(high / (factor * power)) > math.ceil(low / (factor * power)):
            break
    return factor * power
