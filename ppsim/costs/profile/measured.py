"""Measured layers, as a profile lists them: the one form that every profile's reader gives."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

ZERO = Fraction(0)
MOST_MISTAKES = 20
LIMIT = 16 << 20
"""The most bytes that a profile may have."""


class MeasuredLayer(NamedTuple):
    """What was measured of one layer, for one microbatch: seconds and bytes."""

    name: str
    forward: Fraction
    input_grad: Fraction
    weight_grad: Fraction
    activation: Fraction = ZERO
    """Bytes that its forward leaves to its backward."""
    message: Fraction = ZERO
    """Bytes that cross a cut behind this layer."""
    parameters: int | Fraction = 0
    """A number of parameters (int), or their bytes (Fraction)."""
    halves_assumed: bool = False
    """The backward was measured as a whole: each half was taken as half of it."""


def listed(mistakes: list[str]) -> str:
    """All mistakes, a line each; of very many the first."""
    more = len(mistakes) - MOST_MISTAKES
    return "\n".join(mistakes[:MOST_MISTAKES] + ([f"and {more} more of such lines"] if more > 0 else []))
