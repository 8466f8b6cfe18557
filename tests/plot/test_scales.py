"""Numbers that people read."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

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


@pytest.mark.parametrize(
    ("low", "high", "most", "texts"),
    [
        (0, 10, 4, ["0", "5", "10"]),
        (3.151, 3.249, 4.5, ["3.16", "3.18", "3.2", "3.22", "3.24"]),  # at each 0.05 only 3.2 would be in sight
        (
            1000.001,
            1000.0045,
            4,
            ["1000.001", "1000.002", "1000.003", "1000.004"],
        ),  # six digits would read 1000 each time
    ],
)
def test_an_axis_has_two_ticks_at_least_and_no_two_read_the_same(low, high, most, texts):
    axis = Figure().add_subplot().xaxis
    second = scales.Unit("s", 10**9)
    axis.axes.set_xlim(low * 1e9, high * 1e9)
    scales.round_ticks(axis, low * 1e9, high * 1e9, second, most)
    places = axis.get_majorticklocs()
    words = axis.get_major_formatter().format_ticks(places)
    assert [
        text for at, text in zip(places, words, strict=True) if low * 1e9 <= at + 1 and at - 1 <= high * 1e9
    ] == texts
