"""Clocks that differ are set by causality, and only where a message would else arrive before it is sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ppsim.analysis.measured.clocks import clocks, synchronised
from ppsim.analysis.measured.fit import fit
from ppsim.analysis.measured.lanes import Lanes, lanes
from ppsim.analysis.measured.warmup import without_warm_up
from ppsim.formats.traces import read_trace

pytest.importorskip("scipy")
DATA = Path(__file__).parents[1] / "data" / "traces"


@pytest.fixture(scope="module")
def primus() -> Lanes:
    return without_warm_up(lanes(read_trace(DATA / "primus-pp8")))


def shifted(found: Lanes, ns: dict[int, int]) -> Lanes:
    by_rank = np.array([ns.get(rank, 0) for rank in range(found.measured.ranks)])
    shift = by_rank[found.rank][:, None, None]
    return replace(found, start=found.start + shift, end=found.end + shift)


def test_where_every_hop_is_positive_no_clock_is_set(primus: Lanes) -> None:
    found = clocks(primus)  # every hop of this run is at least 0.1 ms
    assert not found.differ
    assert found.said() == []
    assert synchronised(primus, found) is primus


@pytest.mark.parametrize(
    "ns", [{3: 5_000_000}, {0: -40_000_000}, {2: 7_000_000, 6: -9_000_000}, {1: 3_000_000, 2: 3_000_000}]
)
def test_injected_offsets_are_found(primus: Lanes, ns: dict[int, int]) -> None:
    found = clocks(shifted(primus, ns))
    moved = found.offset[0, :, 0]
    assert {*np.flatnonzero(moved).tolist()} == {*ns}
    for rank, injected in ns.items():
        # What is left of the offset is no more than what is said; hops there and back take 0.1 to 1 ms in this run.
        assert abs(moved[rank] + injected) <= found.uncertain[0, rank, 0] < 2_000_000
    assert all(f"clock of rank {rank}: set by" in line for rank, line in zip(sorted(ns), found.said(), strict=True))


def test_the_fit_is_that_of_the_run_with_the_right_clocks(primus: Lanes) -> None:
    rows = primus.measured.rows
    ahead = np.where(rows.rank == 3, 5_000_000, 0)
    wrong = replace(primus.measured, rows=replace(rows, start=rows.start + ahead, end=rows.end + ahead))
    right, found = fit(primus.measured).summary(), fit(wrong).summary()
    assert found["clocks"] != right["clocks"] == []
    assert found["measured_s"] == pytest.approx(right["measured_s"], rel=1e-4)
    assert found["replay_with_overhead_s"] == pytest.approx(right["replay_with_overhead_s"], rel=5e-3)


def test_clocks_that_drift_are_set_step_by_step(primus: Lanes) -> None:
    drift = np.array([0, 20_000_000, -20_000_000, *[0] * (len(primus.steps) - 3)])
    at = (primus.rank == 4)[:, None, None] * drift
    found = clocks(replace(primus, start=primus.start + at, end=primus.end + at))
    assert np.all(np.abs(found.offset[0, 4] + drift) <= found.uncertain[0, 4])
    assert np.flatnonzero(found.offset[0, 4]).tolist() == [1, 2]


def test_spans_that_no_clock_explains_are_left_as_they_are(primus: Lanes) -> None:
    # Each forward of stage 3 starts 50 ms too early, and so does each backward: no constant can mend both.
    early = ((primus.rank == 3) & primus.computes)[:, None, None] * np.int64(50_000_000)
    found = clocks(replace(primus, start=primus.start - early))
    assert not found.differ
    assert len(found.unsolved) == len(primus.steps)
    assert "no offsets of clocks make that right" in found.said()[0]
