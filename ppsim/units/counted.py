"""Exact values as whole nanoseconds and bytes, the only numbers that a simulation adds up."""

from __future__ import annotations

from fractions import Fraction

from ppsim.errors import ConfigError
from ppsim.units.text import COUNTABLE, COUNTED, KINDS, Dimension


def round_half_up(value: Fraction) -> int:
    """The nearest integer, halves upwards: the one rounding rule of every duration and size (2.5 → 3)."""
    return _nearest(value.numerator, value.denominator)


def _nearest(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)


def to_ns(seconds: Fraction) -> int:
    """Whole nanoseconds, rounded half up. Raises ConfigError for more than can be counted."""
    return _counted(_nearest(seconds.numerator * 10**9, seconds.denominator), seconds, "time")


def to_bytes(size: Fraction) -> int:
    """Whole bytes, rounded half up. Raises ConfigError for more than can be counted."""
    return _counted(_nearest(size.numerator, size.denominator), size, "size")


def _counted(number: int, value: Fraction, dimension: Dimension) -> int:
    if number > COUNTABLE:
        due = KINDS[dimension].noun
        raise ConfigError(
            f"{due} that follows from what is given, {float(value):.4g} {COUNTED[dimension].unit}, is more than can be "
            f"counted; {COUNTED[dimension].most}"
        )
    return number
