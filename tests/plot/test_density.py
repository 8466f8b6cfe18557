"""Thin bars are averaged: every column of pixels has the colours of what happens there, by its time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppsim.ops import NONE
from ppsim.plot.bars import Bars
from ppsim.plot.density import MANY, apart, averages, coverage, split, split_alone

Rows = list[tuple[int, int, int, int]]
RED, BLUE = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])


def table(rows: Rows) -> Bars:
    """Bars from (line, start, end, code)."""
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return Bars.of(columns[0], columns[1], columns[2], columns[3], np.arange(len(rows)))


def rows(bars: Bars) -> Rows:
    return [tuple(map(int, row)) for row in zip(bars.line, bars.start, bars.end, bars.code, strict=True)]


def colour(code: int) -> np.ndarray:
    return RED if code == 1 else BLUE


def alternation(period: float, until: int) -> Rows:
    """A third of the time 1, two thirds 2, as 1F1B."""
    edges = [(k * period, k * period + period / 3, (k + 1) * period) for k in range(int(until / period))]
    return [row for a, b, c in edges for row in ((0, round(a), round(b), 1), (0, round(b), round(c), 2))]


def test_bars_that_are_wide_enough_stay_as_they_are():
    bars = table([(0, 0, 10, 1), (0, 10, 30, 2), (1, 5, 15, 1)])
    clear, thin = split(bars, 10)
    assert rows(clear) == rows(bars) and not len(thin)


def test_many_thin_bars_in_a_row_are_averaged_and_few_are_not():
    few = [(0, k, k + 1, 1) for k in range(MANY - 1)]
    for last, averaged in (([], 0), ([(0, MANY - 1, MANY, 2)], MANY)):
        bars = table([*few, *last, (0, 100, 200, 1), (1, 0, 1, 1)])
        clear, thin = split(bars, 10)
        assert len(thin) == averaged and len(clear) == len(bars) - averaged
        assert (0, 100, 200, 1) in rows(clear) and (1, 0, 1, 1) in rows(clear)


def test_bars_without_length_are_no_bars():
    assert rows(table([(0, 5, 5, 1), (0, 5, 8, 2)])) == [(0, 5, 8, 2)]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40), st.integers(0, 30)), max_size=60), st.integers(1, 50))
def test_coverage_is_the_share_of_each_column(parts, pixel):
    ends, made = [0, 0, 0], []
    for line, length, gap in parts:
        made.append((line, ends[line] + gap, ends[line] + gap + length, 1))
        ends[line] += gap + length
    found = coverage(table(made), 0, pixel, (3, 80))
    for line in range(3):
        filled = np.zeros(80 * pixel)  # every ns by itself
        for where, start, end, _ in made:
            if where == line:
                filled[start:end] = 1
        assert np.allclose(found[line], filled.reshape(80, pixel).mean(axis=1))


@pytest.mark.parametrize("period", [300, 210, 105, 100, 70, 310])
def test_an_alternation_shows_its_shares_whatever_its_period_over_the_pixel(period):
    # A third of red, two thirds of blue in every column but where the bars end, though some columns hold one alone.
    picture = averages(table(alternation(period, 100_000)), (0, 100_000), (1, 1000), colour, reach=12)
    inner = picture[0, 20:-30]
    assert np.allclose(inner[:, 3], 1, atol=1e-6)
    assert np.allclose(inner[:, :3], [1 / 3, 0, 2 / 3], atol=0.02)


def test_the_edge_of_what_is_averaged_stays_where_it_is():
    bars = table([(0, k, k + 1, 1) for k in range(100, 200)])
    picture = averages(bars, (0, 300), (1, 300), colour, reach=6)
    assert np.flatnonzero(picture[0, :, 3]).tolist() == list(range(100, 200))
    assert np.allclose(picture[0, 100:200], [1, 0, 0, 1])


def test_overlapping_bars_become_one_and_touching_ones_stay_two():
    found = apart(table([(0, 0, 10, 0), (0, 5, 8, 0), (0, 9, 12, 0), (0, 12, 14, 0), (1, 0, 3, 0)]))
    assert rows(found) == [(0, 0, 12, 0), (0, 12, 14, 0), (1, 0, 3, 0)]


def test_a_rare_transfer_is_a_bar_and_a_busy_link_is_as_pale_as_it_is_idle():
    rare, none = split_alone(table([(0, k * 1000, k * 1000 + 1, 0) for k in range(10)]), 10)
    assert len(rare) == 10 and not len(none)
    clear, half = split_alone(table([(0, 2 * k, 2 * k + 1, 0) for k in range(5000)]), 10)
    assert not len(clear) and NONE in half.code
    picture = averages(half, (0, 10_000), (1, 1000), colour, reach=6)
    assert np.allclose(picture[0, 20:-20, 3], 0.5, atol=0.01)  # every other ns
    assert np.allclose(picture[0, 20:-20, :3], BLUE)
