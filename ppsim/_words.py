"""Figures as people write them: '41.3 ms', '12.1 GiB', '27.3 %'."""

from __future__ import annotations


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
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(value) >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value:.0f} B"


def percent(value: float | None) -> str:
    """A share: '27.3 %'."""
    return "–" if value is None else f"{100 * value:.1f} %"
