"""Constants that are fitted: settings that are numbers, each from where it starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log
from typing import Any, get_args

from ppsim.config import keys
from ppsim.config.experiment import Experiment
from ppsim.errors import ConfigError, printable, shown
from ppsim.units import Dimension, parse, parse_factor, show

DIGITS, FINE = 5, 12
"""Digits that a fitted constant is written with, and that it is fitted with."""
FARTHEST = log(1e4)
"""How far a constant may go from where it starts, as a logarithm."""
DEFAULTS = {
    "transformer": {
        "costs.efficiency.matmul": "0.5", "costs.efficiency.collective": "300 GB/s",
        "costs.efficiency.per_layer": "300 us",
    },
    "profile": {"costs.scale.times": "1"},
}  # fmt: skip
"""What is fitted where nobody says, by kind of costs: as many of them, from the first on, as there are runs."""
SHARES = ("costs.efficiency.matmul", "costs.efficiency.memory", "costs.efficiency.attention", "costs.efficiency.link")
"""Constants that are at most 1."""


@dataclass(frozen=True)
class Constant:
    """A setting to fit: a number, with or without unit, or a list of them that is scaled as a whole."""

    key: str
    start: Any
    """Its value, or values, where the fit starts."""

    def at(self, ratio: float, digits: int = FINE) -> Any:
        """The setting at so many times its start, to so many digits, as it is written."""
        if isinstance(self.start, list):
            return [_scaled(value, ratio, digits) for value in self.start]
        return _scaled(self.start, ratio, digits)

    @property
    def most(self) -> float:
        """The largest logarithm of the ratio."""
        return -log(float(parse_factor(self.start))) if self.key in SHARES else FARTHEST


def number(text: Any) -> tuple[Fraction, Dimension | None]:
    """A setting's value and its unit's dimension, None for a plain number. Raises ValueError for anything else."""
    if isinstance(text, str):
        for dimension in get_args(Dimension):
            try:
                return parse(text, dimension), dimension
            except ValueError:
                continue
    return parse_factor(text), None


def _scaled(text: Any, ratio: float, digits: int) -> Any:
    value, dimension = number(text)
    rounded = f"{float(value) * ratio:.{digits}g}"
    return float(rounded) if dimension is None else show(Fraction(rounded), dimension)


def chosen(asked: Sequence[str], runs: int, kind: str, setting: Callable[[str], Any]) -> list[Constant]:
    """The constants to fit to so many runs, given as 'key' or 'key=start', or the usual ones for a kind of costs.

    ``setting``: what a key is without the fit, None for nothing. Raises ConfigError, a line per mistake.
    """
    if not asked:
        asked = _usual(kind, runs, setting)
    if len(asked) > runs:
        raise ConfigError(
            f"{len(asked)} constants can't be told from {runs} runs; measure at least {len(asked)}, or give fewer "
            "--constant"
        )
    found, mistakes = [], []
    for text in asked:
        key, _, start = (part.strip() for part in text.partition("="))
        try:
            if wrong := keys.problem(key, Experiment):
                raise ValueError(wrong)
            found.append(_checked(key, start or setting(key)))
        except ValueError as error:
            mistakes.append(f"--constant {printable(key)}: {error}")
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return found


def _usual(kind: str, runs: int, setting: Callable[[str], Any]) -> list[str]:
    if kind not in DEFAULTS:
        raise ConfigError(
            f"--constant: missing; with costs of kind {kind} say what is to be fitted, e.g. --constant costs.forward "
            "or --constant runtime.op_overhead='10 us'"
        )
    return [f"{key}={setting(key) or start}" for key, start in list(DEFAULTS[kind].items())[:runs]]


def _checked(key: str, start: Any) -> Constant:
    if start is None:
        raise ValueError(f"has no value to start from; write --constant {printable(key)}=START")
    values = start if isinstance(start, list) else [start]
    try:
        numbers = [number(value)[0] for value in values]
    except ValueError:
        raise ValueError(f"{shown(start)} is no number that could be fitted") from None
    if not any(numbers):
        raise ValueError(f"{shown(start)} only scales; write --constant {printable(key)}=START with more than that")
    return Constant(key, start)
