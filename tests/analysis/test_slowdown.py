"""Who slows a job down: ByteDance's own answers for their jobs, and a job small enough to count by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ppsim.analysis.measured.lanes import lanes
from ppsim.analysis.measured.slowdown import Slowdown, slowdown
from ppsim.analysis.measured.table import Label, Measured, Rows
from ppsim.formats.traces import read_trace
from ppsim.ops import Kind

DATA = Path(__file__).parents[1] / "data" / "traces"

# Source: ByteDance-Seed/StragglerAnalysis 8efcd7f, data/result-ST.json (blocking_slowdown, blocking_decompose_by_*).
ST = {
    "stage": {"3": 1.232256, "0": 0.998045, "1": 0.983056, "2": 0.982493},
    "data_parallel": {"1": 1.177870, "0": 1.173083},
    "kind": {
        "forward-compute": 1.087499, "backward-compute": 1.074156, "embedding-grads-all-reduce": 1.009550,
        "grads-reduce-scatter": 1.002667, "optimizer-clip-main-grad": 1.002351, "optimizer": 1.001477,
        "params-all-gather": 1.001131, "layernorm-grads-all-reduce": 1.000003, "gc": 1.0,
        "backward-pp-comm": 0.999993, "forward-pp-comm": 0.999859,
    },
}  # fmt: skip
# The same, step_t_nodelay of data/result-AR.json for the six steps of the excerpt.
AR_STEPS = {16: 45.825935, 421: 46.432391, 821: 46.733869, 831: 46.156801, 1204: 46.229680, 1222: 46.331908}
AR_IDEAL = 23.484700
"""step_t_noblk, the ideal step, pooled over all 44 steps."""


@pytest.fixture(scope="module")
def st() -> Slowdown:
    pytest.importorskip("pyarrow")
    return slowdown(lanes(read_trace(DATA / "trace-ST.parquet")))


def test_the_slowdown_of_st_is_bytedances(st: Slowdown) -> None:
    assert st.slowdown == pytest.approx(1.178702, abs=1e-5)
    assert st.ideal_s == pytest.approx(1.843296, abs=1e-5)


@pytest.mark.parametrize("of", ["stage", "data_parallel", "kind"])
def test_factors_of_st_are_bytedances(st: Slowdown, of: str) -> None:
    assert st.factors()[of] == pytest.approx(ST[of], abs=1e-5)


def test_factors_begin_with_the_culprit(st: Slowdown) -> None:
    assert [next(iter(factors)) for factors in st.factors().values()] == ["3", "1", "forward-compute", "3,1"]


def test_medians_by_stage_hide_the_imbalance_of_stages(st: Slowdown) -> None:
    assert st.by_stage == pytest.approx(1.005, abs=5e-4)  # an independent computation


def test_one_worker_of_ar_is_to_blame() -> None:
    pytest.importorskip("pyarrow")
    found = slowdown(lanes(read_trace(DATA / "trace-AR.parquet")))
    assert found.steps_s == pytest.approx(list(AR_STEPS.values()), abs=1e-4)
    assert found.ideal_s == pytest.approx(AR_IDEAL, rel=0.005)  # typical times of 6 steps instead of 44
    worker, factor = next(iter(found.worker.items()))
    assert (worker, factor) == ("0,0", pytest.approx(1.979, abs=0.015))  # ByteDance: 1.979 over all steps
    assert all(other < 1.03 for name, other in found.worker.items() if name != worker)


def job(forward: dict[tuple[int, int], int], replicas: int = 1) -> Measured:
    """Two ranks, one microbatch, one step: F on both, then B on both, back to back, B twice its F."""
    labels = (Label("F", Kind.F), Label("B", Kind.B))
    rows = []
    for d in range(replicas):
        first, second = forward[0, d], forward[1, d]
        rows += [(d, 0, 0, 0, 0, 0, 0, first), (d, 0, 1, 0, 1, 0, first, first + second)]
        half = first + second
        rows += [(d, 0, 1, 1, 1, 0, half, half + 2 * second), (d, 0, 0, 1, 0, 0, half + 2 * second, 3 * half)]
    table = np.array(rows, np.int64)
    columns = [table[:, i].astype(np.int32) for i in range(6)]
    group = np.full(len(table), -1, np.int32)
    return Measured("test", "test", labels, Rows(*columns, table[:, 6], table[:, 7], group), 2, replicas, 2, 1, (0,))


def test_a_job_counted_by_hand() -> None:
    # F of 10 and 30, B of 20 and 60: the step is 120; all F 20, all B 40: 120 too, so that S = 1.
    found = slowdown(lanes(job({(0, 0): 10, (1, 0): 30})))
    assert found.slowdown == 1
    # Only stage 1 as it was: 20 + 30 + 60 + 40 = 150; only stage 0: 10 + 20 + 40 + 20 = 90.
    assert found.stage == {"1": 150 / 120, "0": 90 / 120}
    assert found.worker == {"1,0": 150 / 120, "0,0": 90 / 120}


def test_the_slowest_replica_is_the_step() -> None:
    # Replica 0 takes 3 · 20 = 60, replica 1 3 · 40 = 120; typical F 15, B 30: 90. Only replica 1 as it was: 120.
    found = slowdown(lanes(job({(0, 0): 10, (1, 0): 10, (0, 1): 20, (1, 1): 20}, replicas=2)))
    assert found.slowdown == pytest.approx(120 / 90)
    assert found.data_parallel == pytest.approx({"1": 120 / 90, "0": 1.0})
