"""What a measured run's constants explain: known answers of an independent program, and runs of ppsim's own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ppsim
from ppsim.analysis.measured.fit import Fit, fit
from ppsim.analysis.measured.report import text
from ppsim.analysis.measured.settings import Known
from ppsim.errors import PpsimError
from ppsim.formats import that
from ppsim.formats.traces import read_trace
from ppsim.units import parse

DATA = Path(__file__).parents[1] / "data" / "traces"

# An independent program: measured durations of every op in the order it ran, links free, against the measured span from
# the first forward to the last backward, in ms.
PRIMUS = {5: (3205.8, 3238.3), 6: (3205.5, 3238.2), 7: (3204.3, 3237.3), 8: (3211.0, 3244.7), 9: (3210.9, 3243.8)}


@pytest.fixture(scope="module")
def primus() -> Fit:
    return fit(read_trace(DATA / "primus-pp8"))


def test_primus_followed_1f1b(primus: Fit) -> None:
    assert (primus.order.setting, primus.order.equal) == ("1f1b", 1.0)


@pytest.mark.parametrize("step", PRIMUS)
def test_primus_replayed(primus: Fit, step: int) -> None:
    place = primus.lanes.steps.index(step)
    simulated, measured = PRIMUS[step]
    assert primus.replayed[place] / 1e6 == pytest.approx(simulated, abs=0.06)
    assert primus.lanes.span[place] / 1e6 == pytest.approx(measured, abs=0.06)


def test_a_gap_before_every_op_explains_the_rest_of_primus(primus: Fit) -> None:
    assert primus.values.overhead.ns / 1e6 == pytest.approx(0.78, abs=0.01)  # the same program
    error = primus.with_overhead / primus.lanes.span - 1
    late = [primus.lanes.steps.index(step) for step in (16, 18)]  # slow steps, late in the run
    assert np.delete(error, late) == pytest.approx(0.001, abs=0.0006)


def test_the_warm_up_of_primus_is_left_out(primus: Fit) -> None:
    assert primus.lanes.steps == (3, 5, 6, 7, 8, 9, 16, 18)  # 1 takes twice as long, in 2 the ranks' clocks aren't set
    assert "step 1, 2: warm-up, left out" in primus.summary()["notes"]


def test_constants_come_near_to_primus(primus: Fit) -> None:
    # With each rank's median instead of each op's own time the same program is 2.1 % short; a gap of 0.78 ms is 1.1 %.
    assert primus.summary()["residual"] == pytest.approx(0.010, abs=0.002)


def test_the_memory_of_primus(primus: Fit) -> None:
    # Rank r of 8 holds 8 - r microbatches in flight; the published peaks fall by 7.2 to 7.8 GiB from rank to rank.
    held = primus.values.memory
    assert held is not None
    assert held.activation / 2**30 == pytest.approx(7.5, abs=0.1)
    peaks = [rank["peak_memory_bytes"] for rank in primus.result.summary["per_rank"]]
    assert primus.measured.memory is not None
    assert peaks == pytest.approx(np.median(primus.measured.memory, axis=0).tolist(), rel=1e-3)


@pytest.mark.parametrize(("job", "mean"), [("ST", -0.0014), ("AR", -0.0029)])
def test_straggler_jobs_replayed(job: str, mean: float) -> None:
    """Mean errors by the independent program; every step within 1 %, on average within 0.5 %."""
    pytest.importorskip("pyarrow")
    found = fit(read_trace(DATA / f"trace-{job}.parquet"))
    assert (found.order.setting, found.order.equal) == ("1f1b", 1.0)
    error = found.replayed / found.lanes.span - 1
    assert np.all(np.abs(error) < 0.01)
    assert error.mean() == pytest.approx(mean, abs=0.0005)
    assert abs(found.residual) < 0.01


def test_the_straggler_of_ar_gets_a_speed_of_its_own() -> None:
    pytest.importorskip("pyarrow")
    found = fit(read_trace(DATA / "trace-AR.parquet"))
    # Rank 0 takes 545 + 869 ms per microbatch, the same stage of the other replicas 232 + 368: 0.42.
    assert found.calibrated.settings["cluster"]["speed"] == [pytest.approx(0.42, abs=0.01), 1, 1, 1]
    best = found.changes[0]
    assert (best.slug, best.gain) == (
        "no-straggler",
        pytest.approx(0.518, abs=0.01),
    )  # 232 + 398 ms is then the slowest


CONFIGS = {
    "1f1b": "schedule: 1f1b\npipeline: {ranks: 4, microbatches: 8, steps: 2}",
    "gpipe": "schedule: gpipe\npipeline: {ranks: 3, microbatches: 5}",
    "interleaved_1f1b": "schedule: {name: interleaved_1f1b, virtual_stages: 2}\npipeline: {ranks: 4, microbatches: 8, steps: 2}",
    "zb_h1": "schedule: zb_h1\npipeline: {ranks: 4, microbatches: 8}",
    "zbv": "schedule: zbv\npipeline: {ranks: 4, microbatches: 8}",
    "dualpipev": "schedule: dualpipev\npipeline: {ranks: 4, microbatches: 10}",
}
COSTS = """
costs: {per: stage, forward: 10 ms, input_grad: 12 ms, weight_grad: 8 ms, message: 10 MB, optimizer: 3 ms}
cluster: {ranks_per_node: 8, intra_node: {bandwidth: 100 GB/s, latency: 2 us}}
"""


@pytest.mark.parametrize("schedule", CONFIGS)
def test_a_run_of_ppsims_own_is_found_again(schedule: str, tmp_path: Path) -> None:
    """All constants are in the trace, so that the fitted experiment takes exactly as long, op by op."""
    config = tmp_path / "x.yaml"
    config.write_text(CONFIGS[schedule] + COSTS)
    result = ppsim.simulate(ppsim.load(config))
    with (tmp_path / "trace.json").open("w") as stream:
        that("export")["chrome-trace"].run(result, stream)
    found = fit(read_trace(tmp_path / "trace.json"))
    s = found.summary()
    assert (s["schedule"], s["orders_equal"]) == (schedule, 1.0)
    assert s["measured_s"] == s["replay_s"] == s["fitted_s"]
    assert (s["residual"], s["start_error_s"]["most"], s["parted_at"]) == (0, 0, None)
    link = found.calibrated.settings["cluster"]["intra_node"]
    assert link == {"bandwidth": "100 GB/s", "latency": "2 us"}
    again = tmp_path / "again.yaml"
    again.write_text(text(found))
    assert ppsim.load(again).pipeline.ranks == result.plan.ops.ranks


def test_keys_of_the_json(primus: Fit) -> None:
    keys = (
        "format ranks microbatches virtual_stages steps schedule orders_equal measured_s replay_s fitted_s residual slowdown "
        "factors changes"
    )
    s = json.loads(json.dumps(primus.summary()))
    assert set(keys.split()) <= set(s)
    assert set(s["factors"]) == {"stage", "data_parallel", "kind", "worker"}
    assert len(s["changes"]) == 5
    assert {"change", "step_s", "gain", "peak_memory_bytes"} <= set(s["changes"][0])
    gains = [change["gain"] for change in s["changes"]]
    assert gains == sorted(gains, reverse=True)


def test_layers_make_the_balance_a_whole_number(primus: Fit) -> None:
    """64 layers of about 16 ms each; the last stage's 142 ms are 11 ms more than the others': less than a layer."""
    found = fit(primus.measured, Known(layers=64, source="--layers"))
    assert all(change.slug != "balance" for change in found.changes)
    pytest.importorskip("pyarrow")
    st = fit(read_trace(DATA / "trace-ST.parquet"), Known(layers=32, source="--layers"))
    # A layer takes 212 / 8 = 26.5 ms; the last stage has 132 ms beside its 8 layers. With 5 it takes 264 ms and the others,
    # with 9 each, 238; with 4 one of the others has 10, which is 265: no split does better.
    balance = next(change for change in st.changes if change.slug == "balance")
    costs = balance.settings["costs"]
    work = [parse(f, "time") + parse(b, "time") for f, b in zip(costs["forward"], costs["backward"], strict=True)]
    assert float(max(work)) == pytest.approx(0.265, abs=0.002)
    assert balance.change.endswith(("stage 3 -3)", "stage 3 -4)"))


def test_a_launch_file_of_another_run_is_refused(primus: Fit) -> None:
    with pytest.raises(PpsimError, match=r"pretrain\.sh: its pipeline has 4 ranks, .* 8: not the same run"):
        fit(primus.measured, Known(ranks=4, source="pretrain.sh"))


def test_a_messages_size_makes_its_time_a_bandwidth() -> None:
    """56 MiB in the 0.618 ms of the typical link (median over both ways of ranks 1 and 2) are 95 GB/s."""
    pytest.importorskip("pyarrow")
    measured = read_trace(DATA / "trace-ST.parquet")
    found = fit(measured, Known(message_bytes=56 * 2**20, source="args.sh"))
    link = found.calibrated.settings["cluster"]["intra_node"]
    assert float(parse(link["bandwidth"], "bandwidth")) == pytest.approx(56 * 2**20 / 0.618e-3, rel=0.01)
    assert abs(found.residual) < 0.005


def test_lengths_of_microbatches_are_found_where_they_are_the_same_in_every_step(tmp_path: Path) -> None:
    lengths = [1, 1, 0.5, 1, 1.5, 1, 1]
    config = tmp_path / "x.yaml"
    config.write_text(
        f"schedule: 1f1b\npipeline: {{ranks: 3, microbatches: 7, steps: 2, microbatch_weights: {lengths}}}\n"
        "costs: {forward: 10 ms, backward: 20 ms}\n"
    )
    with (tmp_path / "trace.json").open("w") as stream:
        that("export")["chrome-trace"].run(ppsim.simulate(ppsim.load(config)), stream)
    found = fit(read_trace(tmp_path / "trace.json"))
    assert found.values.weights == pytest.approx(lengths)
    assert found.summary()["residual"] == pytest.approx(0, abs=1e-9)


def test_times_that_vary_at_random_are_not_explained_by_constants(tmp_path: Path) -> None:
    """Each op of a stage takes 5 to 15 ms: constants can't say which, and the figure says how much that is."""
    folder = tmp_path / "job"
    folder.mkdir()
    chance = np.random.default_rng(1)
    (folder / "config.json").write_text(json.dumps({"pp_size": 2, "num_mbs": 8}))
    steps: dict[int, dict[str, dict[str, list[float]]]] = {0: {}, 1: {}}
    for step in range(20, 30):
        end: dict[tuple[str, int, int], float] = {}
        free = [0.0, 0.0]
        times: dict[int, dict[str, list[float]]] = {
            r: {f"{k}_{e}": [0.0] * 8 for k in ("fwd", "bwd") for e in ("start", "end")} for r in (0, 1)
        }
        first = [("fwd", 0)] + [op for k in range(1, 8) for op in (("fwd", k), ("bwd", k - 1))] + [("bwd", 7)]
        last = [op for k in range(8) for op in (("fwd", k), ("bwd", k))]
        todo = [first, last]
        while any(todo):
            for rank in (0, 1):
                while todo[rank]:
                    kind, k = todo[rank][0]
                    source = ("fwd", 0, k) if kind == "fwd" else ("bwd", 1, k)
                    needs = rank == (1 if kind == "fwd" else 0)
                    if needs and source not in end:
                        break
                    start = max(free[rank], end[source] if needs else 0.0)
                    free[rank] = end[kind, rank, k] = start + float(chance.uniform(5, 15))
                    times[rank][f"{kind}_start"][k], times[rank][f"{kind}_end"][k] = start, free[rank]
                    todo[rank].pop(0)
        for rank in (0, 1):
            steps[rank][str(step)] = times[rank]
    for rank in (0, 1):
        (folder / f"pp_rank_{rank}.json").write_text(json.dumps(steps[rank]))
    found = fit(read_trace(folder))
    assert found.values.weights is None
    # The mean distance of a uniform 5 … 15 from its median of 10 is 2.5: a quarter.
    assert found.summary()["op_spread"] == pytest.approx(0.25, abs=0.03)
    assert found.summary()["replay_s"] == found.summary()["measured_s"]
    assert found.summary()["residual"] > 0.03  # waits for the longer of two are longer than the median
