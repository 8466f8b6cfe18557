"""Units: exact values, the answers to wrong ones, and the pydantic fields."""

from __future__ import annotations

import json
import tracemalloc
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pint
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from ppsim import units
from ppsim.units import (
    Bandwidth,
    Dimension,
    Factor,
    Flops,
    PositiveBandwidth,
    Rate,
    Size,
    Time,
    both_forms,
    parse,
    parse_factor,
    round_half_up,
    show,
    to_bytes,
    to_ns,
)

EXACT: list[tuple[Dimension, str, Fraction, str]] = [
    ("time", "10 ms", Fraction(1, 100), "10/1000 s"),
    ("time", "10ms", Fraction(1, 100), "the space is optional"),
    ("time", "  1.5 us ", Fraction(15, 10**7), "1.5/10^6 s"),
    ("time", ".5 ns", Fraction(5, 10**10), "0.5/10^9 s"),
    ("time", "1e-3 s", Fraction(1, 1000), "an exponent"),
    ("time", "2.5E+2 ms", Fraction(1, 4), "250 ms"),
    ("time", "5 µs", Fraction(5, 10**6), "the micro sign, U+00B5"),
    ("time", "5 μs", Fraction(5, 10**6), "the Greek mu, U+03BC"),
    ("time", "2 min", Fraction(120), "2 * 60 s"),
    ("time", "1.5 h", Fraction(5400), "1.5 * 3600 s"),
    ("time", "0.1 s", Fraction(1, 10), "a decimal, not the nearest float"),
    ("time", "0 s", Fraction(0), "zero is a time"),
    ("size", "1 GiB", Fraction(2**30), "1024^3"),
    ("size", "80 GB", Fraction(80 * 10**9), "1000^3"),
    ("size", "3 TiB", Fraction(3 * 2**40), "1024^4"),
    ("size", "7 kB", Fraction(7000), "kB is decimal"),
    ("size", "7 KB", Fraction(7000), "so is KB"),
    ("size", "2 KiB", Fraction(2048), "1024"),
    ("size", "12 bit", Fraction(3, 2), "8 bits are a byte"),
    ("size", "1 Gbit", Fraction(125_000_000), "10^9 / 8"),
    ("bandwidth", "25 GB/s", Fraction(25 * 10**9), "bytes per second"),
    ("bandwidth", "200 Gbit/s", Fraction(25 * 10**9), "200/8 GB/s"),
    ("bandwidth", "200 Gbps", Fraction(25 * 10**9), "bps are bits per second"),
    ("bandwidth", "100Mbps", Fraction(12_500_000), "100/8 MB/s"),
    ("bandwidth", "1 GiB/s", Fraction(2**30), "1024^3"),
    ("bandwidth", "8 bit/s", Fraction(1), "8 bits are a byte"),
    ("rate", "312 TFLOP/s", Fraction(312 * 10**12), "A100's datasheet figure, bf16"),
    ("rate", "312 TFLOPS", Fraction(312 * 10**12), "the datasheet's spelling"),
    ("rate", "1.979 PFLOP/s", Fraction(1979 * 10**12), "peta"),
    ("flops", "5 GFLOP", Fraction(5 * 10**9), "giga"),
    ("flops", "7 FLOP", Fraction(7), "no prefix"),
]


@pytest.mark.parametrize(("dimension", "text", "value", "reason"), EXACT)
def test_text_is_exact(dimension: Dimension, text: str, value: Fraction, reason: str) -> None:
    assert parse(text, dimension) == value, reason


WRONG: list[tuple[Dimension, object, str]] = [
    ("time", "10", "'10' is a bare number; write the unit, e.g. '10 ms'"),
    ("time", 10, "10 is a bare number; write the unit, e.g. '10 ms'"),
    ("time", 0.5, "0.5 is a bare number; write the unit, e.g. '0.5 ms'"),
    ("size", "4", "'4' is a bare number; write the unit, e.g. '4 GB'"),
    ("size", 58_720_256, "58720256 is a bare number; write the unit, e.g. '58720256 B'"),
    ("bandwidth", "2.5e10", "'2.5e10' is a bare number; write the unit, e.g. '2.5e10 B/s'"),
    ("bandwidth", "200 Gb", "'200 Gb': unknown unit 'Gb'; did you mean 'Gbit/s' or 'GB/s'?"),
    ("bandwidth", 25, "25 is a bare number; write the unit, e.g. '25 GB/s'"),
    ("rate", 312, "312 is a bare number; write the unit, e.g. '312 TFLOP/s'"),
    ("time", "10 GB", "'10 GB' is a size, here a time is due, e.g. '10 ms'"),
    ("bandwidth", "25 GB", "'25 GB' is a size, here a bandwidth is due, e.g. '25 GB/s'"),
    ("size", "25 GB/s", "'25 GB/s' is a bandwidth, here a size is due, e.g. '25 GB'"),
    ("rate", "5 TFLOP", "'5 TFLOP' is an amount of work, here a compute rate is due, e.g. '5 TFLOP/s'"),
    ("flops", "5 TFLOPS", "'5 TFLOPS' is a compute rate, here an amount of work is due, e.g. '5 GFLOP'"),
    ("time", "10 sec", "'10 sec': unknown unit 'sec'; did you mean 's'?"),
    ("time", "10 Milliseconds", "'10 Milliseconds': unknown unit 'Milliseconds'; did you mean 'ms'?"),
    ("size", "1 Gb", "'1 Gb': unknown unit 'Gb'; did you mean 'Gbit' or 'GB'?"),
    ("size", "1 GBit", "'1 GBit': unknown unit 'GBit'; did you mean 'Gbit' or 'GB'?"),
    ("size", "1 gb", "'1 gb': unknown unit 'gb'; did you mean 'Gbit' or 'GB'?"),
    ("size", "1 kb", "'1 kb': unknown unit 'kb'; did you mean 'kbit' or 'kB'?"),
    ("size", "1 Gib", "'1 Gib': unknown unit 'Gib'; did you mean 'Gbit' or 'GiB'?"),
    ("size", "8 bytes", "'8 bytes': unknown unit 'bytes'; did you mean 'bit' or 'B'?"),
    ("size", "8 GBs", "'8 GBs': unknown unit 'GBs'; did you mean 'GB'?"),
    ("bandwidth", "200 Gb/s", "'200 Gb/s': unknown unit 'Gb/s'; did you mean 'Gbit/s' or 'GB/s'?"),
    ("bandwidth", "25 GBps", "'25 GBps': unknown unit 'GBps'; did you mean 'Gbit/s' or 'GB/s'?"),
    ("bandwidth", "25 GB/ms", "'25 GB/ms': unknown unit 'GB/ms'; did you mean 'GB/s'?"),
    ("rate", "312 Tflops", "'312 Tflops': unknown unit 'Tflops'; did you mean 'TFLOPS'?"),
    ("time", "1 mss", "'1 mss': unknown unit 'mss'; did you mean 'ms'?"),
    ("time", "-5 ms", "'-5 ms' is negative; a time is 0 or more"),
    ("time", Fraction(-1), "-1 s is negative; a time is 0 or more"),
    ("time", "nan ms", "'nan ms' is not a finite number; a time is due, e.g. '10 ms'"),
    ("time", "-inf s", "'-inf s' is not a finite number; a time is due, e.g. '10 ms'"),
    ("time", float("nan"), "nan is not a finite number; a time is due, e.g. '10 ms'"),
    ("size", float("inf"), "inf is not a finite number; a size is due, e.g. '10 GB'"),
    ("time", None, "an empty value, where a time is due, e.g. '10 ms'"),
    ("time", True, "true, where a time is due, e.g. '10 ms'"),
    ("time", ["1 ms"], "a list, where a time is due, e.g. '10 ms'"),
    ("time", {"a": 1}, "a mapping, where a time is due, e.g. '10 ms'"),
    ("time", "", "'' is not a number followed by a unit, e.g. '10 ms'"),
    ("time", "ms", "'ms' is not a number followed by a unit, e.g. '10 ms'"),
    ("time", "1_000 ms", "'1_000 ms' is not a number followed by a unit, e.g. '10 ms'"),
    ("time", "1,5 ms", "'1,5 ms' is not a number followed by a unit, e.g. '10 ms'"),
    ("time", "٣ ms", "'٣ ms' is not a number followed by a unit, e.g. '10 ms'"),
    ("time", "2*3 ms", "'2*3 ms' is not a number followed by a unit, e.g. '10 ms'"),
    ("time", "9**9**9 s", "'9**9**9 s' is not a number followed by a unit, e.g. '10 ms'"),
    ("time", "1 s\n", r"'1 s\n' is not a number followed by a unit, e.g. '10 ms'"),
    ("time", "1 \x1b[31m", r"'1 \x1b[31m' is not a number followed by a unit, e.g. '10 ms'"),
    ("time", "1e27 h", "'1e27 h' is out of range (1e-30 to 1e30 in SI units)"),
    ("size", "1e-31 B", "'1e-31 B' is out of range (1e-30 to 1e30 in SI units)"),
    ("time", "1e31 s", "'1e31 s' is out of range (1e-30 to 1e30 in SI units)"),
    ("time", "1e-999999999 s", "'1e-999999999 s' is out of range (1e-30 to 1e30 in SI units)"),
]


@pytest.mark.parametrize(("dimension", "text", "message"), WRONG)
def test_wrong_text_is_answered(dimension: Dimension, text: object, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(text, dimension)
    assert str(caught.value) == message


def test_absurd_numbers_are_refused_at_once() -> None:
    """A number with 10^9 digits would take minutes and gigabytes; its refusal takes neither."""
    tracemalloc.start()
    for text in ("1e999999999 s", "1e-999999999 s", "9" * 10**6 + " s", "1e" + "9" * 50 + " s"):
        with pytest.raises(ValueError, match=r"out of range|not a number"):
            parse(text, "time")
        with pytest.raises(ValueError, match=r"out of range|a plain number above 0 is due"):
            parse_factor(text.removesuffix(" s"))
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


def test_a_fraction_is_si_already() -> None:
    assert parse(Fraction(1, 3), "time") == Fraction(1, 3)


def test_numpy_numbers_are_bare_numbers_too() -> None:
    with pytest.raises(ValueError, match=r"^10 is a bare number"):
        parse(np.int64(10), "time")


SHOWN: list[tuple[Dimension, Fraction, str, str]] = [
    ("time", Fraction(1, 100), "10 ms", "shorter than 0.01 s"),
    ("time", Fraction(1, 10_000), "100 us", "as short as 0.1 ms, and between 1 and 1000"),
    ("time", Fraction(3, 2), "1.5 s", "rather than 1500 ms"),
    ("time", Fraction(0), "0 s", "zero in the SI unit"),
    ("time", Fraction(1, 3), "333.333 ms", "no decimal number: six digits"),
    ("size", Fraction(2**30), "1 GiB", "shorter than 1.073741824 GB"),
    ("size", Fraction(58_720_256), "56 MiB", "56 * 1024^2"),
    ("size", Fraction(80 * 10**9), "80 GB", "no short binary form"),
    ("size", Fraction(512), "512 B", "bytes"),
    ("size", Fraction(10**15), "1000 TB", "no larger unit"),
    ("bandwidth", Fraction(25 * 10**9), "25 GB/s", "shorter than 200 Gbit/s"),
    ("bandwidth", Fraction(13_625 * 10**6), "109 Gbit/s", "shorter than 13.625 GB/s"),
    ("rate", Fraction(312 * 10**12), "312 TFLOP/s", "tera"),
    ("flops", Fraction(1500), "1.5 kFLOP", "kilo"),
]


@pytest.mark.parametrize(("dimension", "value", "text", "reason"), SHOWN)
def test_shown(dimension: Dimension, value: Fraction, text: str, reason: str) -> None:
    assert show(value, dimension) == text, reason


BOTH: list[tuple[Dimension, Fraction, str, str]] = [
    ("size", Fraction(58_720_256), "58.720256 MB = 56 MiB", "1 * 4096 * 7168 * 2 bytes"),
    ("size", Fraction(2**40), "1.099511627776 TB = 1 TiB", "1024^4"),
    ("size", Fraction(80 * 10**9), "80 GB ≈ 74.5058 GiB", "80e9 / 2^30 = 74.50580597 (19 digits in full)"),
    ("size", Fraction(512), "512 B", "one form serves both"),
    ("bandwidth", Fraction(13_625 * 10**6), "109 Gbit/s = 13.625 GB/s", "109 / 8"),
    ("time", Fraction(1, 100), "10 ms", "a time has one form"),
]


@pytest.mark.parametrize(("dimension", "value", "text", "reason"), BOTH)
def test_both_forms(dimension: Dimension, value: Fraction, text: str, reason: str) -> None:
    assert both_forms(value, dimension) == text, reason


NUMBERS = st.one_of(
    st.decimals(0, 10**12, allow_nan=False, allow_infinity=False, places=6).map(str),
    st.from_regex(r"[0-9]{1,19}(\.[0-9]{0,19})?([eE][-+]?[12]?[0-9])?", fullmatch=True, alphabet="0123456789.eE+-"),
)
UNITS: list[tuple[Dimension, str]] = [
    ("time", "s"), ("time", "ns"), ("time", "h"), ("size", "B"), ("size", "bit"), ("size", "MiB"), ("size", "TiB"),
    ("bandwidth", "Gbit/s"), ("bandwidth", "KiB/s"), ("rate", "PFLOPS"), ("flops", "FLOP"),
]  # fmt: skip


@given(NUMBERS, st.sampled_from(UNITS))
def test_what_is_shown_reads_back_exactly(number: str, unit: tuple[Dimension, str]) -> None:
    dimension, name = unit
    try:
        value = parse(f"{number} {name}", dimension)
    except ValueError:
        reject()  # out of range
    assert parse(show(value, dimension), dimension) == value


@given(st.text(), st.sampled_from(UNITS))
def test_any_text_is_a_value_or_a_one_line_answer(text: str, unit: tuple[Dimension, str]) -> None:
    try:
        assert parse(text, unit[0]) >= 0
    except ValueError as error:
        assert str(error).isprintable()


@pytest.mark.parametrize(
    ("value", "whole"),
    [("0.5", 1), ("1.5", 2), ("2.5", 3), ("2.4999", 2), ("0", 0), ("1e20", 10**20)],
)
def test_halves_round_up(value: str, whole: int) -> None:
    """Python's own round gives 0, 2 and 2 for the first three (to even)."""
    assert round_half_up(Fraction(value)) == whole


def test_to_nanoseconds_and_bytes() -> None:
    assert to_ns(parse("1.5 ns", "time")) == 2  # half up
    assert to_ns(parse("10 ms", "time")) == 10**7
    assert to_bytes(parse("12 bit", "size")) == 2  # 1.5 bytes, half up
    assert to_bytes(parse("1 GiB", "size")) == 2**30


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (1, Fraction(1)),
        (0.1, Fraction(1, 10)),
        ("0.25", Fraction(1, 4)),
        (" 1e-3 ", Fraction(1, 1000)),
        (Decimal("0.3"), Fraction(3, 10)),
        (Fraction(1, 3), Fraction(1, 3)),
        (np.float64(0.1), Fraction(1, 10)),
    ],
)
def test_a_factor_is_its_decimal_text(number: object, value: Fraction) -> None:
    assert parse_factor(number) == value


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (0, "0 is not above 0; a plain number such as 0.8 is due"),
        (-0.5, "-0.5 is not above 0; a plain number such as 0.8 is due"),
        (Fraction(-1, 2), "-0.5 is not above 0; a plain number such as 0.8 is due"),
        (True, "true, where a plain number above 0 is due, e.g. 0.8"),
        (None, "an empty value, where a plain number above 0 is due, e.g. 0.8"),
        (float("nan"), "nan, where a plain number above 0 is due, e.g. 0.8"),
        (float("inf"), "inf, where a plain number above 0 is due, e.g. 0.8"),
        ("80 %", "'80 %', where a plain number above 0 is due, e.g. 0.8"),
        ("1_0", "'1_0', where a plain number above 0 is due, e.g. 0.8"),
        ([1], "a list, where a plain number above 0 is due, e.g. 0.8"),
    ],
)
def test_wrong_factors(number: object, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_factor(number)
    assert str(caught.value) == message


class Settings(BaseModel):
    """One field of each type."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    time: Time = Fraction(1, 100)
    size: Size | None = None
    bandwidth: Bandwidth = Fraction(0)
    link: PositiveBandwidth = Fraction(10**9)
    rate: Rate = Fraction(10**12)
    work: Flops = Fraction(10**9)
    speed: Factor = Fraction(1)


def test_fields_read_and_write_text() -> None:
    settings = Settings.model_validate({"time": "5 us", "size": "1024 MiB", "link": "200 Gbit/s", "speed": 0.1})
    assert (settings.time, settings.size) == (Fraction(5, 10**6), Fraction(2**30))
    assert (settings.link, settings.speed) == (Fraction(25 * 10**9), Fraction(1, 10))
    written = {
        "time": "5 us", "size": "1 GiB", "bandwidth": "0 B/s", "link": "25 GB/s", "rate": "1 TFLOP/s",
        "work": "1 GFLOP", "speed": 0.1,
    }  # fmt: skip
    assert settings.model_dump() == written
    assert json.loads(settings.model_dump_json()) == written
    assert Settings.model_validate(written) == settings
    assert Settings.model_validate(dict(settings)) == settings, "a finished model is validated again"


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (Fraction(2), 2),
        (Fraction(1, 4), 0.25),
        (Fraction("0.12345678901234567891"), "0.12345678901234567891"),  # a float holds 15 to 17 digits
        (Fraction(1, 3), 1 / 3),  # no decimal number: the nearest float
    ],
)
def test_a_factor_is_written_as_a_number(value: Fraction, number: object) -> None:
    assert Settings(speed=value).model_dump()["speed"] == number


def test_zero_is_refused_where_it_makes_no_sense() -> None:
    assert Settings.model_validate({"bandwidth": "0 GB/s"}).bandwidth == 0
    with pytest.raises(ValidationError, match="zero bandwidth carries nothing; write 'free' for a link without cost"):
        Settings.model_validate({"link": "0 GB/s"})


def test_every_mistake_is_reported_with_its_key() -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"time": "5", "size": "1 Gb", "speed": 0})
    found = {error["loc"]: str(error["ctx"]["error"]) for error in caught.value.errors()}
    assert found == {
        ("time",): "'5' is a bare number; write the unit, e.g. '5 ms'",
        ("size",): "'1 Gb': unknown unit 'Gb'; did you mean 'Gbit' or 'GB'?",
        ("speed",): "0 is not above 0; a plain number such as 0.8 is due",
    }


@pytest.mark.slow  # importing jsonschema takes seconds where its formats' grammars are installed
@pytest.mark.parametrize(
    ("key", "value", "legal"),
    [
        ("time", "10 ms", True),
        ("time", "5µs", True),
        ("time", "10", False),
        ("time", "10 GB", False),
        ("time", 10, False),
        ("size", "58.7 MB", True),
        ("link", "200 Gbit/s", True),
        ("link", "200 Gb/s", False),
        ("rate", "312 TFLOPS", True),
        ("speed", 0.8, True),
        ("speed", "0.8", True),
        ("speed", 0, False),
        ("speed", "fast", False),
    ],
)
def test_the_json_schema_knows_units(key: str, value: Any, legal: bool) -> None:
    """What an editor says of a value by the schema is what ppsim says of it."""
    import jsonschema

    valid = jsonschema.Draft202012Validator(Settings.model_json_schema(mode="serialization")).is_valid({key: value})
    assert valid is legal
    try:
        Settings.model_validate({key: value})
    except ValidationError:
        assert not legal
    else:
        assert legal


def test_defaults_in_the_json_schema_are_text() -> None:
    fields = Settings.model_json_schema(mode="serialization")["properties"]
    assert fields["time"]["default"] == "10 ms"
    assert fields["time"]["examples"] == ["10 ms"]


def test_factors_are_those_of_an_independent_library() -> None:
    """Pint's own registry, exact: times in seconds; sizes in bytes (8 bits each)."""
    registry = pint.UnitRegistry(non_int_type=Fraction)
    for unit in ("ns", "us", "ms", "s", "min", "h"):
        assert parse(f"1 {unit}", "time") == registry.Quantity(Fraction(1), unit).to("s").magnitude
    for unit in ("B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB", "bit", "kbit", "Mbit", "Gbit", "Tbit"):
        assert parse(f"1 {unit}", "size") == registry.Quantity(Fraction(1), unit).to("byte").magnitude
        assert parse(f"1 {unit}/s", "bandwidth") == registry.Quantity(Fraction(1), f"{unit}/s").to("byte/s").magnitude


def test_every_unit_has_a_value() -> None:
    """A unit that is accepted but has no factor would be a traceback."""
    for kind, entry in units.KINDS.items():
        for unit in entry.accepted:
            assert parse(f"1 {unit}", kind) > 0  # type: ignore[arg-type]
