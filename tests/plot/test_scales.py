"""Numbers that people read."""

from __future__ import annotations

import pytest

from ppsim.plot import scales


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"), (999, "999 ns"), (1000, "1 us"), (10_000_000, "10 ms"), (11_744_051, "11.74 ms"),
        (1_746_000_000, "1.746 s"), (60_000_000_000, "60 s"), (86_400 * 10**9, "86,400 s"), (999_999_999, "1000 ms"),
    ],
)  # fmt: skip
def test_a_duration_has_four_digits_and_the_unit_that_fits(ns, text):
    assert scales.duration(ns) == text.replace(" ", scales.NBSP)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (10**7, 10**7, "10 ms"),
        (10**7, 37 * 10**6, "10–37 ms"),
        (10**6, 2 * 10**9, "0.001–2 s"),
        (10_000_000, 10_000_001, "10 ms"),  # they read the same
    ],
)
def test_a_range_of_durations_has_one_unit(low, high, text):
    assert scales.durations(low, high) == text.replace(" ", scales.NBSP)


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0 B"), (1023, "1023 B"), (2**30, "1 GiB"), (1.5 * 2**30, "1.5 GiB"), (80e9, "74.51 GiB")]
)
def test_a_size_is_binary(amount, text):
    assert scales.size(amount) == text.replace(" ", scales.NBSP)


@pytest.mark.parametrize(("share", "text"), [(0, "0.0 %"), (0.0001, "< 0.1 %"), (3 / 11, "27.3 %"), (1, "100.0 %")])
def test_what_is_not_nothing_never_reads_as_nothing(share, text):
    assert scales.percent(share) == text.replace(" ", scales.NBSP)


def test_a_number_never_has_an_exponent():
    assert [scales.number(x) for x in (0, 1e-9, 0.5, 100, 123456.7, 1e15)] == [
        "0", "0.000000001", "0.5", "100", "123,457", "1,000,000,000,000,000",
    ]  # fmt: skip
