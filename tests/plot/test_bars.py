"""Bars under a pixel are merged: bounded, true to where things are, and to how much of each there is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppsim.ops import NONE
from ppsim.plot.bars import Bars, apart, merged, merged_alone

Rows = list[tuple[int, int, int, int]]


def table(rows: Rows) -> Bars:
    """Bars from (line, start, end, code)."""
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return Bars.of(columns[0], columns[1], columns[2], columns[3], np.arange(len(rows)))


def rows(bars: Bars) -> Rows:
    return [tuple(map(int, row)) for row in zip(bars.line, bars.start, bars.end, bars.code, strict=True)]


def area(bars: Bars, code: int) -> float:
    mine = bars[bars.code == code]
    return float((mine.end - mine.start).sum())


def test_bars_of_a_pixel_or_more_stay_as_they_are():
    bars = table([(0, 0, 10, 1), (0, 10, 30, 2), (1, 5, 15, 1)])
    assert rows(merged(bars, 0, 10)) == rows(bars)


def test_bars_without_length_are_no_bars():
    assert rows(table([(0, 5, 5, 1), (0, 5, 8, 2)])) == [(0, 5, 8, 2)]


@pytest.mark.parametrize("period", [30, 21, 10.5, 10, 7, 31])
def test_an_alternation_keeps_its_shares_whatever_its_period_over_the_pixel(period):
    # 1F1B under the pixel: a third of the time F, two thirds B. A period of a pixel (21 or 10) or a half would show
    # one kind only, if each column showed what stands at a fixed place of it.
    rows_, at = [], 0.0
    while at < 10_000:
        rows_ += [(0, round(1000 * at), round(1000 * (at + period / 3)), 1)]
        rows_ += [(0, round(1000 * (at + period / 3)), round(1000 * (at + period)), 2)]
        at += period
    bars = table(rows_)
    pixel = 1000 * (10 if period < 10 else 21)
    few = merged(bars, 0, pixel)
    assert len(few) <= len(bars) and len(few) <= 10_000_000 / pixel + 1
    for code in (1, 2):  # what is owed never exceeds a few columns
        assert abs(area(few, code) - area(bars, code)) <= 3 * pixel


def test_neighbouring_columns_of_one_kind_are_one_bar():
    # 100 forwards of 1 ns without a gap, ten to a pixel.
    assert rows(merged(table([(0, k, k + 1, 1) for k in range(100)]), 0, 10)) == [(0, 0, 100, 1)]


def test_a_lone_bar_under_a_pixel_is_seen():
    bars = table([(0, 0, 100, 1), (0, 100, 101, 2), (0, 101, 200, 1)])
    assert 2 in merged(bars, 0, 10).code


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40), st.integers(0, 30), st.integers(0, 3)), max_size=60),
    st.integers(1, 50),
)
def test_every_merged_column_holds_a_bar_of_its_kind(parts, pixel):
    ends = [0, 0, 0]
    made: Rows = []
    for line, length, gap, code in parts:
        start = ends[line] + gap
        made.append((line, start, start + length, code))
        ends[line] = start + length
    bars = table(made)
    few = merged(bars, 0, pixel)
    assert len(few) <= len(bars)
    assert set(rows(few)) >= {row for row in rows(bars) if row[2] - row[1] >= pixel}
    for line, start, end, code, row in zip(few.line, few.start, few.end, few.code, few.row, strict=True):
        if row == NONE:
            for left in np.arange(start, end, pixel):
                here = (bars.line == line) & (bars.code == code) & (bars.start < left + pixel) & (bars.end > left)
                assert np.any(here)


def test_overlapping_bars_become_one_and_touching_ones_stay_two():
    found = apart(table([(0, 0, 10, 0), (0, 5, 8, 0), (0, 9, 12, 0), (0, 12, 14, 0), (1, 0, 3, 0)]))
    assert rows(found) == [(0, 0, 12, 0), (0, 12, 14, 0), (1, 0, 3, 0)]


def test_a_rare_transfer_is_seen_and_a_busy_link_keeps_its_share():
    rare = merged_alone(table([(0, k * 1000, k * 1000 + 1, 0) for k in range(10)]), 0, 10)
    assert len(rare) == 10  # a column each: the gaps are wider than a pixel
    half = merged_alone(table([(0, 2 * k, 2 * k + 1, 0) for k in range(5000)]), 0, 10)
    assert area(half, 0) == pytest.approx(5000, abs=3 * 10)  # every other ns
