"""Text with a unit ⇄ exact SI numbers: '25 GB/s', '200 Gbit/s', '5 us', '80 GiB', '312 TFLOP/s'.

Every value is a ``fractions.Fraction``: seconds, bytes, bytes/s, FLOP/s or FLOP. kB, MB, GB and TB are powers of 1000
(KB is read as kB), KiB to TiB powers of 1024; Gbps is Gbit/s, TFLOPS is TFLOP/s. Wrong input raises ``ValueError`` with
a finished sentence; the config layer puts file, line and key in front of it.

The few units are a table of exact factors. A units library would read them no better, would have to be kept from its
own meanings ('Gb' is gilbert in pint), and takes longer to import than all the rest of a config takes to check.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from typing import Final, Literal, NamedTuple

from ppsim.errors import did_you_mean, shown

Dimension = Literal["time", "size", "bandwidth", "rate", "flops"]

_PREFIXES: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_TIMES: Final = {
    "s": Fraction(1), "ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "ms": Fraction(1, 10**3), "min": Fraction(60),
    "h": Fraction(3600),
}  # fmt: skip
_MICRO: Final = {"\N{MICRO SIGN}s": _TIMES["us"], "\N{GREEK SMALL LETTER MU}s": _TIMES["us"]}
_BYTES: Final = {f"{prefix}B": Fraction(factor) for prefix, factor in _PREFIXES.items()}
_BINARY: Final = {f"{prefix}iB": Fraction(1024**power) for power, prefix in enumerate("KMGT", 1)}
_BITS: Final = {f"{prefix}bit": Fraction(factor, 8) for prefix, factor in _PREFIXES.items()}
_SIZES: Final = {**_BYTES, **_BINARY, "KB": _BYTES["kB"], **_BITS}
_BPS: Final = {f"{prefix}bps": _BITS[f"{prefix}bit"] for prefix in "kMGT"}
_FLOPS: Final = {f"{prefix}FLOP": Fraction(factor) for prefix, factor in {**_PREFIXES, "P": 10**15}.items()}
_RATES: Final = {f"{flop}S": factor for flop, factor in _FLOPS.items()}


def _per_second(units: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{unit}/s" for unit in units)


class _Kind(NamedTuple):
    """What one dimension is called, its unit in examples and the one to count in, those accepted and those shown."""

    noun: str
    example: str
    counted: str
    accepted: tuple[str, ...]
    shown: tuple[str, ...]


KINDS: Final[Mapping[str, _Kind]] = {
    "time": _Kind("a time", "ms", "ns", (*_TIMES, *_MICRO), ("s", "ms", "us", "ns")),
    "size": _Kind("a size", "GB", "B", tuple(_SIZES), (*_BYTES, *_BINARY)),
    "bandwidth": _Kind(
        "a bandwidth", "GB/s", "B/s", (*_per_second(_SIZES), *_BPS), _per_second((*_BYTES, *_BINARY, *_BITS))
    ),
    "rate": _Kind("a compute rate", "TFLOP/s", "FLOP/s", (*_per_second(_FLOPS), *_RATES), _per_second(_FLOPS)),
    "flops": _Kind("an amount of work", "GFLOP", "FLOP", tuple(_FLOPS), tuple(_FLOPS)),
}
"""What every dimension is called, and the units of its text."""
_FACTORS: Final = {**_TIMES, **_MICRO, **_SIZES, **_BPS, **_FLOPS, **_RATES}
_DIMENSION_OF: Final = {unit: dimension for dimension, kind in KINDS.items() for unit in kind.accepted}

NUMBER: Final = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_TEXT: Final = re.compile(rf" *(?P<number>[-+]?{NUMBER}) *(?P<unit>[^\W\d_]*(?:/[^\W\d_]+)?) *")
_NOT_FINITE: Final = re.compile(r" *[-+]?\.?(?:nan|inf|infinity)\b.*", re.IGNORECASE)
_BIT_OR_BYTE: Final = re.compile(r"([kmgt]?)(i?)(?:b|bits?|bytes?)(/s|ps)?", re.IGNORECASE)
_MAX_TEXT: Final = 100
_SMALLEST, _LARGEST = Fraction(1, 10**30), Fraction(10**30)
_MANY: Final = 100_000
COUNTABLE: Final = 2**61
"""The most nanoseconds or bytes that anything may be, so that a few of them add up within 64 bits."""


class _Counted(NamedTuple):
    unit: str
    per_si: int
    most: str


COUNTED: Final[dict[str, _Counted]] = {
    "time": _Counted("s", 10**9, "times go up to 73 years (2^61 ns)"),
    "size": _Counted("bytes", 1, "sizes go up to 2 EiB (2^61 bytes)"),
}
"""The dimensions that are simulated as whole numbers, of which the largest is ``COUNTABLE``."""
_SPELLED_OUT: Final = {
    "second": "s", "sec": "s", "millisecond": "ms", "msec": "ms", "microsecond": "us", "usec": "us", "nanosecond": "ns",
    "nsec": "ns", "minute": "min", "hour": "h",
}  # fmt: skip
_EXACT: Final = Context(prec=90, traps=[Inexact])


def _factor(unit: str) -> Fraction:
    """How many SI units one ``unit`` is; only for units in ``_DIMENSION_OF``."""
    return _FACTORS[unit.removesuffix("/s")]


def parse(text: object, dimension: Dimension) -> Fraction:
    """The exact SI value of ``text``, a number followed by a unit of ``dimension``; never negative.

    A ``Fraction`` is taken as SI already: that is how a finished model is validated again.
    Raises ``ValueError`` for everything else, with what would work.
    """
    if isinstance(text, Fraction):
        if text < 0:
            raise ValueError(f"-{show(-text, dimension)} is negative; {KINDS[dimension].noun} is 0 or more")
        return text
    return _parsed(text, dimension) if type(text) is str else _read(text, dimension)


@lru_cache(maxsize=4096)
def _parsed(text: str, dimension: Dimension) -> Fraction:
    """Cases of a sweep, and configs of one folder, say the same again and again."""
    return _read(text, dimension)


def _read(text: object, dimension: Dimension) -> Fraction:
    given = shown(text)
    if isinstance(text, Real) and not isinstance(text, bool):
        text = str(text)
    due = KINDS[dimension]
    if not isinstance(text, str):
        raise ValueError(f"{given}, where {due.noun} is due, e.g. '10 {due.example}'")
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{given} is not a finite number; {due.noun} is due, e.g. '10 {due.example}'")
    match = _TEXT.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if not match:
        raise ValueError(f"{given} is not a number followed by a unit, e.g. '10 {due.example}'")
    number, unit = match["number"], match["unit"]
    digits = number.lstrip("+-")
    if not unit:
        # Nobody means 58720256 GB by 58720256: what is so large was counted in the smallest unit.
        usual = due.counted if _decimal(number, given) >= _MANY else due.example
        raise ValueError(f"{given} is a bare number; write the unit, e.g. '{digits} {usual}'")
    if unit not in _DIMENSION_OF:
        raise ValueError(f"{given}: unknown unit {unit!r}{_unit_meant(unit, dimension)}")
    if _DIMENSION_OF[unit] != dimension:
        other = KINDS[_DIMENSION_OF[unit]].noun
        raise ValueError(f"{given} is {other}, here {due.noun} is due, e.g. '{digits} {due.example}'")
    value = _decimal(number, given, _factor(unit))
    if value < 0:
        raise ValueError(f"{given} is negative; {due.noun} is 0 or more")
    if dimension in COUNTED and value * COUNTED[dimension].per_si > COUNTABLE:
        raise ValueError(f"{given} is more than can be counted; {COUNTED[dimension].most}")
    return value


def _decimal(number: str, given: str, factor: Fraction = Fraction(1)) -> Fraction:
    """``number``, whose form is already checked, times ``factor``; what is absurdly large is refused uncomputed."""
    exponent = number.lower().partition("e")[2]
    if len(exponent) <= 4 and abs(int(exponent or 0)) <= 99:
        value = Fraction(number) * factor
        if not value or _SMALLEST <= abs(value) <= _LARGEST:
            return value
    raise ValueError(f"{given} is out of range (1e-30 to 1e30 in SI units)")


def _unit_meant(unit: str, dimension: Dimension) -> str:
    """What someone who wrote ``unit`` may have meant; a bit and a byte are never guessed, but asked for."""
    due = KINDS[dimension]
    if bits := _BIT_OR_BYTE.fullmatch(unit):
        prefix, binary, per_second = bits[1].upper(), bits[2], "/s" if dimension == "bandwidth" else ""
        kilo = "k" if prefix == "K" else prefix
        byte = f"{prefix}iB" if binary and prefix else f"{kilo}B"
        return f"; did you mean '{kilo}bit{per_second}' or '{byte}{per_second}'?"
    if (word := _SPELLED_OUT.get(unit.lower().removesuffix("s"))) in due.accepted:
        return f"; did you mean '{word}'?"
    return did_you_mean(unit, due.accepted) or f"; {due.noun} is written in {', '.join(due.shown)}"


def show(value: Fraction, dimension: Dimension) -> str:
    """The shortest readable text for an SI ``value``: '10 ms', '56 MiB', '25 GB/s'.

    ``parse`` gives exactly ``value`` back where it is a decimal number of some unit (in at most a hundred characters);
    else the text is rounded to six significant digits.
    """
    return _shown(*value.as_integer_ratio(), dimension)


@lru_cache(maxsize=4096)
def _shown(numerator: int, denominator: int, dimension: Dimension) -> str:
    """Kept by its two numbers: a fraction's own hash takes five times as long."""
    value, units = Fraction(numerator, denominator), KINDS[dimension].shown
    return _shortest(value, units) or _scaled(value, units)[0]


def both_forms(value: Fraction, dimension: Dimension) -> str:
    """A size in decimal and binary units, a bandwidth in bits and bytes: '109 Gbit/s = 13.625 GB/s'; else ``show``.

    These are the two pairs that people take for one another. A form of more than 15 digits is rounded, with '≈'.
    """
    if dimension == "size":
        families = tuple(_BYTES), ("B", *_BINARY)
    elif dimension == "bandwidth":
        families = _per_second(_BITS), _per_second(_BYTES)
    else:
        return show(value, dimension)
    (first, first_exact), (second, second_exact) = (_scaled(value, family) for family in families)
    if first == second:
        return first
    return f"{first} {'=' if first_exact and second_exact else '≈'} {second}"


def _shortest(value: Fraction, units: Iterable[str]) -> str | None:
    """``value`` in the unit that gives the shortest text, if it is a decimal number of any (that ``parse`` reads)."""
    texts: list[tuple[int, str]] = []
    for unit in units:
        count = value / _factor(unit)
        try:
            number = _plain(count, _EXACT)
        except Inexact:
            continue
        # Three characters more make '13.625 GB/s' read better than '13625 MB/s', and '1.5 s' than '1500 ms'.
        texts.append((len(number) + len(unit) + (0 if 1 <= count < 1000 or not count else 3), f"{number} {unit}"))
    shortest = min(texts, key=lambda text: text[0], default=(0, ""))[1]
    return shortest if 0 < len(shortest) <= _MAX_TEXT else None


def _scaled(value: Fraction, units: Iterable[str]) -> tuple[str, bool]:
    """``value`` in the largest unit that it holds at least once, and whether 15 digits say it all (else it has six)."""
    factors = sorted((_factor(unit), unit) for unit in units)
    factor, unit = max((pair for pair in factors if pair[0] <= value), default=factors[0])
    try:
        return f"{_plain(value / factor, Context(prec=15, traps=[Inexact]))} {unit}", True
    except Inexact:
        return f"{_plain(value / factor, Context(prec=6))} {unit}", False


def _plain(number: Fraction, context: Context) -> str:
    """``number`` as decimal digits without an exponent, as far as ``context`` allows."""
    quotient = context.divide(Decimal(number.numerator), Decimal(number.denominator))
    return f"{quotient.normalize(context):f}"


def parse_factor(number: object) -> Fraction:
    """A plain number above zero, exactly as its decimal text says: 0.1 is one tenth.

    Raises ``ValueError`` for anything with a unit, zero, negative or infinite numbers, and true or false.
    """
    if isinstance(number, Fraction):
        value = number
    else:
        real = isinstance(number, Real | Decimal) and not isinstance(number, bool)
        text = str(number).strip(" ") if real or isinstance(number, str) else ""
        if len(text) > _MAX_TEXT or not re.fullmatch(rf"[-+]?{NUMBER}", text):
            raise ValueError(f"{shown(number)}, where a plain number above 0 is due, e.g. 0.8")
        value = _decimal(text, shown(number))
    if value <= 0:
        raise ValueError(f"{number_of(value)} is not above 0; a plain number such as 0.8 is due")
    return value


def number_of(value: Fraction) -> int | float | str:
    """``value`` as the number that reads back as itself; as decimal text where a float is too coarse for it."""
    if value.denominator == 1:
        return int(value)
    if Fraction(str(float(value))) == value:
        return float(value)
    try:
        return _plain(value, _EXACT)
    except Inexact:
        return float(value)
