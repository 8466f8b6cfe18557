"""Values with units: their text and what it means, the whole numbers that are simulated, the fields of a config."""

from ppsim.units.counted import round_half_up, to_bytes, to_ns
from ppsim.units.fields import (
    Bandwidth,
    Factor,
    FactorField,
    Flops,
    PositiveBandwidth,
    PositiveRate,
    Rate,
    Size,
    Time,
    UnitField,
)
from ppsim.units.text import COUNTABLE, COUNTED, KINDS, Dimension, both_forms, parse, parse_factor, show

__all__ = [
    "COUNTABLE",
    "COUNTED",
    "KINDS",
    "Bandwidth",
    "Dimension",
    "Factor",
    "FactorField",
    "Flops",
    "PositiveBandwidth",
    "PositiveRate",
    "Rate",
    "Size",
    "Time",
    "UnitField",
    "both_forms",
    "parse",
    "parse_factor",
    "round_half_up",
    "show",
    "to_bytes",
    "to_ns",
]
