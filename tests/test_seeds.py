"""The systems and figures of the documents that started the project."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ppsim
from ppsim.analysis.explain import waiting
from tests.simulated import ms, simulate

CONFIGS = Path(__file__).parent.parent / "configs"


@pytest.mark.parametrize(
    ("p", "m", "ratio", "overhead"), [(4, 8, 27.3, 37.5), (8, 8, 46.7, 87.5), (8, 16, 30.4, 43.8), (4, 32, 8.6, 9.4)]
)
def test_table_of_bubbles(p: int, m: int, ratio: float, overhead: float) -> None:
    """(p-1)/(m+p-1) of the total and (p-1)/m of the ideal time, in %, as the seed prints them."""
    sizes = {"pipeline.ranks": p, "pipeline.microbatches": m}
    summary = ppsim.simulate(ppsim.load(CONFIGS / "seed-bubble-table.yaml", sizes)).summary
    assert round(100 * summary["bubble_ratio"], 1) == ratio
    assert round(100 * summary["bubble_overhead"] + 1e-9, 1) == overhead


def test_size_and_number_of_messages() -> None:
    """b·s·h·2 = 1·4096·7168·2 = 58,720,256 bytes; m messages for each of the 2(p-1) directed neighbour pairs."""
    result = ppsim.simulate(ppsim.load(CONFIGS / "seed-bubble-table.yaml"))
    expected = [(a, b) for a in range(4) for b in range(4) if abs(a - b) == 1]
    assert [(row["src"], row["dst"]) for row in result.summary["pairs"]] == expected
    assert {row["messages"] for row in result.summary["pairs"]} == {8}
    assert {row["bytes"] for row in result.summary["pairs"]} == {8 * 58_720_256}


@pytest.mark.parametrize(("p", "m", "v"), [(4, 8, 2), (8, 16, 2), (4, 16, 4)])
def test_interleaving_divides_the_bubble_by_v(p: int, m: int, v: int) -> None:
    """(p-1)/(vm+p-1), Narayanan et al. 2021."""
    summary = simulate({"name": "interleaved_1f1b", "virtual_stages": v}, p, m, costs={"per": "rank"}).summary
    assert summary["bubble_ratio"] == pytest.approx((p - 1) / (v * m + p - 1))


def test_naive_has_one_busy_device_at_a_time() -> None:
    """Drawing (b): of 4 devices 3 are idle at any time, utilisation exactly 1/p, and no two ops overlap."""
    result = ppsim.simulate(ppsim.load(CONFIGS / "seed-gpipe-naive.yaml"))
    assert result.summary["bubble_ratio"] == pytest.approx(3 / 4)
    order = np.argsort(result.timeline.start, kind="stable")
    assert np.all(result.timeline.start[order][1:] >= result.timeline.end[order][:-1])


def test_gpipe_drawing_busy_devices_by_slot() -> None:
    """Drawing (c): in slots 1 to 4 one, two, three and four devices are busy (a slot is a forward, 1 ms)."""
    result = ppsim.simulate(ppsim.load(CONFIGS / "seed-gpipe-pipelined.yaml"))
    start, end = result.timeline.start, result.timeline.end
    middle = (np.arange(4) + 0.5) * 1e6
    assert [int(np.sum((start <= t) & (t < end))) for t in middle] == [1, 2, 3, 4]


def test_a_device_at_half_speed_is_named() -> None:
    """All stages F + B = 3 but one of 6: sum over stages + (m-1) · slowest = 4·3 + 3 + 7·6 = 57; ranks wait for it."""
    result = simulate("gpipe", 4, 8, cluster={"speed": [1, 1, 0.5, 1]})
    assert ms(result) == 57
    assert waiting(result).endswith("waiting for rank 2 to finish its work")


@pytest.mark.parametrize(("k", "percent"), [(2, 11.1), (4, 15.8), (8, 17.9)])
def test_bubble_at_four_times_as_many_microbatches(k: int, percent: float) -> None:
    """'Negligible when M > 4K' is (K-1)/(5K-1): 11.1, 15.8 and 17.9 %."""
    assert round(100 * simulate("gpipe", k, 4 * k).summary["bubble_ratio"], 1) == percent
