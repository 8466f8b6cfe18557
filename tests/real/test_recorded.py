"""Traces that PyTorch's profiler recorded of real pipelines (``record_kineto``): three processes, gloo, CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ppsim.analysis.measured.fit import fit
from ppsim.analysis.measured.result import as_result
from ppsim.analysis.measured.table import Measured
from ppsim.formats.traces import read_trace
from ppsim.ops import Kind

pytest.importorskip("ijson")
DATA = Path(__file__).parents[1] / "data" / "traces"
RECORDED = {"kineto-1f1b": ("1f1b", 1), "kineto-interleaved": ("interleaved_1f1b", 2)}
RANKS, MICROBATCHES, STEPS = 3, 6, 3
"""As ``record_kineto`` runs them."""


@pytest.fixture(scope="module", params=RECORDED)
def recorded(request: pytest.FixtureRequest) -> tuple[str, Measured]:
    return request.param, read_trace(DATA / request.param)


def test_all_that_ran_is_read(recorded: tuple[str, Measured]) -> None:
    name, found = recorded
    _, chunks = RECORDED[name]
    assert (found.ranks, found.replicas, found.microbatches, len(found.steps)) == (RANKS, 1, MICROBATCHES, STEPS)
    assert found.stages == RANKS * chunks
    assert found.stages_of == tuple(tuple(range(rank, RANKS * chunks, RANKS)) for rank in range(RANKS))
    assert int(found.computes.sum()) == STEPS * MICROBATCHES * found.stages * 2
    # All outputs but the last stage's are sent, all inputs but the first's received; gradients likewise.
    messages = STEPS * MICROBATCHES * (found.stages - 1)
    for kind in (Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B):
        assert int((found.kind == kind).sum()) == messages
    assert found.names == (("rank 0", "rank 1", "rank 2"),)


def test_the_schedule_is_recognised(recorded: tuple[str, Measured]) -> None:
    name, found = recorded
    s = fit(found).summary()
    assert (s["schedule"], s["orders_equal"], s["virtual_stages"]) == (RECORDED[name][0], 1.0, RECORDED[name][1])


def test_no_message_is_used_before_it_is_there(recorded: tuple[str, Measured]) -> None:
    """One machine, one clock: with the waits taken off, no op starts before its input's producer has ended."""
    s = fit(recorded[1]).summary()
    assert s["clocks"] == []


def test_the_replay_is_the_step_but_for_what_was_not_recorded(recorded: tuple[str, Measured]) -> None:
    """The same ops at the same times: never longer than measured, and what is missing are gaps."""
    found = fit(recorded[1])
    short = found.replayed / found.lanes.span
    assert np.all(short <= 1.0 + 1e-9)
    assert np.all(short > 0.7)


def test_idle_time_adds_up(recorded: tuple[str, Measured]) -> None:
    result = as_result(recorded[1])
    total = result.idle.busy + sum(result.idle.causes.values())
    assert np.allclose(total, result.lanes.span, rtol=1e-3)
