"""Figures as people write them: '41.3 ms', '12.1 GiB', '27.3 %'."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

_SIZES = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def seconds(value: float | None) -> str:
    """A time in the unit that fits it, to four digits: '41.3 ms'."""
    if value is None:
        return "–"
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if abs(value) * factor >= 1:
            return f"{value * factor:.4g} {unit}"
    return f"{value * 1e9:.4g} ns" if value else "0 s"


def size(value: float | None) -> str:
    """A size in the binary unit that fits it: '12.1 GiB'."""
    if value is None:
        return "–"
    for unit, factor in _SIZES:
        if abs(value) >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value:.0f} B"


def sizes(values: Iterable[float | None], largest: float | None = None) -> list[str]:
    """Sizes in one unit, which fits the largest of them (or ``largest``), so that they can be compared at a glance."""
    all_ = list(values)
    top = max((abs(value) for value in (*all_, largest) if value is not None), default=0)
    unit, factor = next(((unit, factor) for unit, factor in _SIZES if top >= factor), ("B", 1))
    return ["–" if value is None else f"{_digits(value / factor)} {unit}" for value in all_]


def _digits(number: float) -> str:
    """Four significant digits, never an exponent."""
    return f"{Decimal(f'{number:.4g}').normalize() + 0:f}"


def percent(value: float | None) -> str:
    """A share: '27.3 %'."""
    return "–" if value is None else f"{100 * value:.1f} %"
