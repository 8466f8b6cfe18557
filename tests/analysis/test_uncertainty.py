"""Random times, slow ranks, repeats and their statistics."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ppsim
from ppsim.analysis.specify import specify
from ppsim.analysis.uncertainty import perturbed, statistics, student
from ppsim.config.uncertainty import Uncertainty
from ppsim.plan import Plan, build, check
from tests.simulated import between_nodes, experiment, simulate
from tests.sweeps.sweeping import BASE, call, written

LINK = {"cluster": between_nodes(latency="100 us", bandwidth="1 GB/s"), "costs": {"message": "1 MB"}}


def plan_of(schedule: Any = "1f1b", p: int = 4, m: int = 8, **sections: Any) -> Plan:
    found = experiment(schedule, p, m, **sections)
    problem = found.problem()
    return build(check(found.schedule.orders(problem), problem), specify(found, problem))


def drawn(plan: Plan, seed: int = 0, **settings: Any) -> Plan:
    return perturbed(plan, Uncertainty.model_validate({"repeat": 1, **settings}), np.random.SeedSequence(seed))


def spread(repeat: int = 20, **settings: Any) -> dict[str, Any]:
    result = simulate("1f1b", 4, 8, uncertainty={"repeat": repeat, **settings}, **LINK)
    return result.summary["uncertainty"]


@pytest.mark.parametrize(
    "schedule", ["1f1b", "gpipe", "zbv", "dualpipe", {"name": "interleaved_1f1b", "virtual_stages": 2}]
)
def test_zero_jitter_is_the_deterministic_result_exactly(schedule: Any) -> None:
    """Every statistic of every figure, to the last bit."""
    plain = simulate(schedule, 4, 8, **LINK).summary
    summary = simulate(
        schedule, 4, 8, uncertainty={"repeat": 7, "jitter": {"ops": 0, "transfers": 0.0}}, **LINK
    ).summary
    figures = summary["uncertainty"]["figures"]
    assert {"makespan_s", "step_time_s", "bubble_ratio", "max_speedup"} <= set(figures)
    for name, found in figures.items():
        assert set(found.values()) == {plain[name]} == {summary[name]}, name


def test_the_run_itself_stays_the_nominal_one() -> None:
    result = simulate("1f1b", 4, 8, uncertainty={"repeat": 2, "jitter": {"ops": 0.5}})
    assert result.summary["makespan_s"] == 0.033  # (8 + 3) · 3 ms


def test_factors_are_lognormal_with_mean_one_and_the_given_deviation() -> None:
    """m = 20,000: 160,000 factors. Their mean is 1 ± 5 · 0.2 / 400, their deviation 0.2; ln is normal with
    sigma² = ln(1 + 0.2²), so that it is symmetric about -sigma²/2."""
    plan = plan_of(m=20_000)
    factor = drawn(plan, jitter={"ops": 0.2}).duration / plan.duration
    assert factor.mean() == pytest.approx(1, abs=0.0025)
    assert factor.std() == pytest.approx(0.2, rel=0.02)
    logs, sigma = np.log(factor), math.sqrt(math.log(1.04))
    assert logs.std() == pytest.approx(sigma, rel=0.02)
    assert np.median(logs) == pytest.approx(-(sigma**2) / 2, abs=0.002)
    assert (factor > 0).all()


def test_who_shares_a_factor() -> None:
    plan = plan_of(**LINK)
    sender = plan.routes.src[plan.transfers.route]
    for scope, distinct in (("op", len(plan.ops)), ("rank", 4), ("shared", 1)):
        found = drawn(plan, jitter={"ops": 0.2, "transfers": 0.3, "scope": scope})
        factor = np.round(found.duration / plan.duration, 4)
        if scope == "op":
            assert len(set(factor.tolist())) > 50
        else:
            assert (
                len(set(zip(plan.ops.rank if scope == "rank" else 0 * plan.ops.rank, factor, strict=True))) == distinct
            )
        on_way = np.round(
            found.routes.occupancy[found.transfers.route] / plan.routes.occupancy[plan.transfers.route], 4
        )
        if scope == "rank":
            assert len(set(zip(sender.tolist(), on_way.tolist(), strict=True))) == len(set(sender.tolist()))


def test_a_transfer_is_slower_on_its_ports_and_in_flight_alike() -> None:
    plan = plan_of(**LINK)
    found = drawn(plan, jitter={"transfers": 0.3})
    before, after = plan.transfers.route, found.transfers.route
    on_ports = found.routes.occupancy[after] / plan.routes.occupancy[before]
    in_flight = found.routes.latency[after] / plan.routes.latency[before]
    assert np.allclose(on_ports, in_flight, atol=1e-4)
    assert len(set(np.round(on_ports, 3))) > 30
    assert (found.duration == plan.duration).all()
    for column in ("src", "dst", "bytes", "egress", "ingress"):
        assert (getattr(found.routes, column)[after] == getattr(plan.routes, column)[before]).all()


def test_a_change_of_one_leaves_the_others_numbers_alone() -> None:
    plan = plan_of(**LINK)
    ops = drawn(plan, jitter={"ops": 0.2})
    both = drawn(plan, jitter={"ops": 0.2, "transfers": 0.3}, slow={"rank": 0, "factor": 9, "probability": 0})
    assert (both.duration == ops.duration).all()


def test_durations_are_rounded_half_up() -> None:
    """A rank of factor 1.5: 1 ns takes 1.5, so 2; 2 ns take 3."""
    plan = plan_of("gpipe", 1, 1, costs={"forward": "1 ns", "backward": "2 ns"})
    assert drawn(plan, slow={"rank": 0, "factor": 1.5}).duration.tolist() == [2, 3]


def test_a_straggler_by_hand() -> None:
    """GPipe, p = 2, m = 2, F = 1, B = 2; rank 1 takes twice as long: F 1 (0-1, 1-2), on rank 1 1-3, 3-5, B 5-9, 9-13, on
    rank 0 B 9-11, 13-15: 15 ms instead of 9."""
    result = simulate("gpipe", 2, 2, uncertainty={"repeat": 3, "slow": {"rank": 1, "factor": 2}})
    assert result.summary["makespan_s"] == 0.009
    assert result.summary["uncertainty"]["figures"]["makespan_s"] == dict.fromkeys(
        ("mean", "p50", "p95", "p99", "ci95_low", "ci95_high"), 0.015
    )


def test_a_probability_is_how_often() -> None:
    """One rank: 3 ms or 6 ms. Of 2000 repeats a quarter is slow, ± 5 · sqrt(2000 · 3/16) = 97."""
    result = simulate(
        "gpipe", 1, 1, uncertainty={"repeat": 2000, "slow": {"rank": 0, "factor": 2, "probability": 0.25}}
    )
    mean = result.summary["uncertainty"]["figures"]["makespan_s"]["mean"]
    assert (mean / 0.003 - 1) * 2000 == pytest.approx(500, abs=97)


def test_seeds() -> None:
    """The same seed gives the same numbers, another one others, and more repeats go on from the same first ones."""
    jitter = {"ops": 0.1, "transfers": 0.1}
    first = spread(jitter=jitter)
    assert first == spread(jitter=jitter)
    assert first["figures"] != spread(jitter=jitter, seed=1)["figures"]
    plan, settings = plan_of(**LINK), Uncertainty.model_validate({"repeat": 9, "jitter": jitter})
    few, many = np.random.SeedSequence(5).spawn(2), np.random.SeedSequence(5).spawn(9)
    for one, other in zip(few, many, strict=False):
        assert (perturbed(plan, settings, one).duration == perturbed(plan, settings, other).duration).all()


def test_both_engines_see_the_same_times() -> None:
    pytest.importorskip("numba", reason="Numba is not installed: there is one engine")
    settings = {"repeat": 5, "jitter": {"ops": 0.2, "transfers": 0.2}, "slow": [{"rank": 1, "factor": 1.5}]}
    found = [
        simulate("1f1b", 4, 8, engine=engine, uncertainty=settings, **LINK).summary["uncertainty"]
        for engine in ("simpy", "compiled")
    ]
    assert found[0] == found[1]


def test_statistics_by_hand() -> None:
    """1 … 5: mean 3, deviation sqrt(2.5), t of 4 degrees 2.776: 3 ± 2.776 sqrt(2.5 / 5); the 95th percentile lies four
    fifths of the way from 4 to 5."""
    found = statistics([5.0, 1.0, 4.0, 2.0, 3.0])
    assert (found["mean"], found["p50"]) == (3, 3)
    assert found["p95"] == pytest.approx(4.8)
    assert found["p99"] == pytest.approx(4.96)
    assert found["ci95_low"] == pytest.approx(3 - 2.776 * math.sqrt(0.5), abs=0.005)
    assert found["ci95_high"] == pytest.approx(3 + 2.776 * math.sqrt(0.5), abs=0.005)
    alone = statistics([0.1])
    assert (alone["mean"], alone["p99"], alone["ci95_low"]) == (0.1, 0.1, None)
    assert set(statistics([0.1] * 7).values()) == {0.1}  # 7 · 0.1 / 7 is not 0.1 in floating point


@pytest.mark.parametrize(
    ("freedom", "t"),
    # Every textbook's table, two-sided 95 %.
    [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (5, 2.571),
        (10, 2.228),
        (30, 2.042),
        (120, 1.980),
        (10**6, 1.960),
    ],
)
def test_students_t(freedom: int, t: float) -> None:
    assert student(0.95, freedom) == pytest.approx(t, rel=0.002)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{repeat: 0}", "uncertainty.repeat: 0 is too small; at least 1"),
        ("{repeat: 2, jitter: {ops: -0.1}}", "uncertainty.jitter.ops: -0.1 is too small"),
        ("{repeat: 2, jitter: {ops: .nan}}", "uncertainty.jitter.ops:"),
        ("{repeat: 2, jitter: {ops: much}}", "uncertainty.jitter.ops: 'much' is not a number"),
        ("{repeat: 2, slow: {rank: 4, factor: 2}}", "uncertainty.slow.rank: rank 4 is unknown; the ranks are 0 to 3"),
        (
            "{repeat: 2, slow: [{rank: 0, factor: 2}, {rank: 9, factor: 2}]}",
            "uncertainty.slow.1.rank: rank 9 is unknown",
        ),
        ("{repeat: 2, slow: {rank: 0, factor: 0}}", "uncertainty.slow.factor: 0 is not above 0"),
        ("{repeat: 2, slow: {rank: 0, factor: 2, probability: 2}}", "uncertainty.slow.probability: 2"),
        ("{jitter: {ops: 0.1}}", "uncertainty.repeat: missing"),
    ],
)
def test_mistakes(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ppsim.ConfigError) as error:
        ppsim.load(written(tmp_path, f"{BASE}uncertainty: {text}\n"))
    assert words in str(error.value)


@pytest.mark.slow
def test_run_shows_how_far_the_step_time_spreads(tmp_path: Path) -> None:
    written(tmp_path, BASE + "uncertainty: {repeat: 20, jitter: {ops: 0.1}}\n")
    screen = call("run", "x.yaml", "--no-files", cwd=tmp_path).stdout
    assert "step time over 20 repeats: mean " in screen
    summary = json.loads(call("run", "x.yaml", "--no-files", "--json", cwd=tmp_path).stdout)
    found = summary["uncertainty"]["figures"]["step_time_s"]
    assert found["ci95_low"] < found["mean"] < found["ci95_high"]
    assert found["p50"] <= found["p95"] <= found["p99"]
    # Jitter can only make late what waits for the latest of several: the mean is above the nominal step.
    assert found["mean"] > summary["step_time_s"]


def test_without_uncertainty_the_id_is_as_it_was_and_the_summary_says_none() -> None:
    assert simulate("1f1b", 2, 2).summary["uncertainty"] is None
