"""Branch and bound finds what simulating everything finds; its bound is one."""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import ppsim
from ppsim.config.load import load
from ppsim.sweeps.bound import port_bound, step_bound, too_large, work_bound
from ppsim.sweeps.cases import listing
from ppsim.sweeps.columns import parameters
from ppsim.sweeps.crew import Crew
from ppsim.sweeps.search import search, space
from ppsim.sweeps.work import run_batch
from tests.simulated import between_nodes, experiment
from tests.sweeps.sweeping import CONFIGS, Here, base_of, call, sweep_of, written

SCHEDULES: list[Any] = [
    "gpipe", "1f1b", "zbv", "dualpipev", "bpipe", "dualpipe", "chimera", "hanayo", "naive",
    {"name": "interleaved_1f1b", "virtual_stages": 2}, {"name": "looped_bfs", "virtual_stages": 2},
]  # fmt: skip
VARIANTS: list[dict[str, Any]] = [
    {},
    {"costs": {"forward": ["1 ms", "3 ms", "1 ms", "2 ms"] * 2, "backward": ["2 ms", "1 ms", "5 ms", "2 ms"] * 2}},
    {"costs": {"overlapped": "2.5 ms"}},
    {"costs": {"optimizer": "1 ms"}, "pipeline": {"steps": 3}},
    {"pipeline": {"recompute": "full"}},
    {"pipeline": {"recompute": "except_last", "recompute_when": "late"}},
    {"pipeline": {"microbatch_weights": [1, 2, 0.5, 1, 1, 3, 1, 1]}},
    {"pipeline": {"steps": 2}, "runtime": {"barrier": False, "op_overhead": "100 us"}},
    {"cluster": {"speed": [1, 0.5, 1, 2]}},
    {"cluster": between_nodes(latency="100 us", bandwidth="1 GB/s"), "costs": {"message": "1 MB"}},
    {"costs": {"forward": "0.3333333335 ms", "backward": "1.7 ns"}},
    {
        "pipeline": {"data_parallel": 3},
        "costs": {"weights": "100 MB", "message": "1 MB"},
        "cluster": between_nodes(bandwidth="10 GB/s", latency="10 us", overhead="5 us"),
    },
    {
        "pipeline": {"data_parallel": 2, "steps": 2},
        "costs": {"weights": "300 MB"},
        "runtime": {"grad_sync": "overlapped"},
        "cluster": between_nodes(bandwidth="10 GB/s"),
    },
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: json.dumps(variant)[:60])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_no_step_is_shorter_than_its_bound(schedule: Any, variant: dict[str, Any]) -> None:
    sections = {key: dict(value) for key, value in variant.items()}
    stages = 8 if isinstance(schedule, dict) or schedule in ("zbv", "dualpipev", "hanayo") else 4
    if isinstance(sections.get("costs", {}).get("forward"), list):
        sections["costs"] |= {key: sections["costs"][key][:stages] for key in ("forward", "backward")}
    found = experiment(schedule, 4, 8, **sections)
    bound = step_bound(found, found.problem())
    summary = ppsim.simulate(found, engine="simpy").summary
    assert 0 < bound <= Fraction(str(summary["step_time_s"]))
    # The metric knows the finished plan, so that it may say more; it never says less.
    if found.pipeline.steps == found.pipeline.data_parallel == 1:
        assert work_bound(found, found.problem()) <= Fraction(str(summary["step_bound_s"])) + Fraction(1, 10**9)


@pytest.mark.parametrize(
    ("schedule", "sections", "ms"),
    [
        # The last of 4 ranks waits for 3 forwards, then works 8 (1 + 2) ms: 27.
        ("1f1b", {}, 27),
        # A third of forwards more: 3 + 8 · 4.
        ("1f1b", {"pipeline": {"recompute": "full"}}, 35),
        # v = 2: rank 3's first stage comes after 3 forwards, its two stages work 2 · 8 · 3 ms.
        ({"name": "interleaved_1f1b", "virtual_stages": 2}, {}, 51),
        # Rank 1 at half speed: one forward of rank 0, then 2 · 24; the last: 1 + 2 + 1 + 24.
        ("gpipe", {"cluster": {"speed": [1, 0.5, 1, 1]}}, 49),
        # Every op costs 0.1 ms more: 3 (1.1) + 8 (3.2).
        ("1f1b", {"runtime": {"op_overhead": "100 us"}}, 28.9),
        # 600 MB of gradients per rank go round three copies: 2 (3-1)/3 of it at 10 GB/s, 80 ms, after the last backward.
        (
            "1f1b",
            {
                "pipeline": {"data_parallel": 3},
                "costs": {"weights": "600 MB"},
                "cluster": between_nodes(bandwidth="10 GB/s"),
            },
            27 + 80,
        ),
        # Each of DualPipe's ranks holds two of the four stages, for half of the microbatches each: 24 on the mean.
        ("dualpipe", {}, 24),
    ],
)
def test_bounds_by_hand(schedule: Any, sections: dict[str, Any], ms: float) -> None:
    found = experiment(schedule, 4, 8, **sections)
    assert float(work_bound(found, found.problem())) * 1e3 == pytest.approx(ms, abs=1e-3)  # 1 us: for rounding


def test_a_port_carries_one_message_at_a_time() -> None:
    """A message holds its ports for 10 MB / (1 GB/s) + 0.5 ms = 10.5 ms; eight microbatches each way.

    A middle rank sends a forward and a backward of each: 16. With v = 2, those of two stages: 32. With two ranks on a
    node and one NIC for both, the outputs of stages 1 and 5 leave node 0, and stage 4's gradient: 24.
    """
    sections = {"costs": {"message": "10 MB"}, "cluster": between_nodes(bandwidth="1 GB/s", overhead="0.5 ms")}
    two_on_a_nic = {"ranks_per_node": 2, "ranks_per_nic": 2, "intra_node": "free"}
    for schedule, cluster, ms in (
        ("1f1b", {}, 16 * 10.5),
        ({"name": "interleaved_1f1b", "virtual_stages": 2}, {}, 32 * 10.5),
        ({"name": "interleaved_1f1b", "virtual_stages": 2}, two_on_a_nic, 24 * 10.5),
    ):
        found = experiment(schedule, 4, 8, **{**sections, "cluster": {**sections["cluster"], **cluster}})
        assert float(port_bound(found, found.problem())) * 1e3 == pytest.approx(ms, abs=1e-3)


def test_what_cant_fit_whatever_the_order() -> None:
    """Weights of 3 GiB, as much of gradients and 2 GiB of optimizer state on each of a rank's stages."""
    costs = {"weights": "3 GiB", "optimizer_state": "2 GiB"}
    for memory, large in (("8 GiB", False), ("7.9 GiB", True)):
        found = experiment("1f1b", 2, 4, costs=costs, cluster={"device": {"memory": memory}})
        assert too_large(found, found.problem()) is large


def random_space(source: random.Random) -> str:
    """A config with a search space of some hundred cases: p · dp = 16, one global batch, links and memory at random."""
    batch = source.choice([32, 64])
    schedules = source.sample(
        ["gpipe", "1f1b", "zbv", "dualpipev", "bpipe", "{name: interleaved_1f1b, virtual_stages: 2}",
         "{name: looped_bfs, virtual_stages: 4}", "{name: interleaved_1f1b, virtual_stages: 4}"], 4,
    )  # fmt: skip
    return f"""
schedule: 1f1b
pipeline: {{ranks: 4, data_parallel: 4, micro_batch_size: 1, global_batch: {batch}}}
costs:
  per: model
  micro_batch_size: 1
  forward: {source.randint(20, 60)} ms
  backward: {source.randint(40, 120)} ms
  activation: {source.randint(4, 40)} GB
  message: {source.randint(1, 60)} MB
  weights: {source.randint(10, 90)} GB
cluster:
  device: {{memory: {source.choice([24, 40, 80])} GB}}
  ranks_per_node: {source.choice([2, 4])}
  intra_node: {{bandwidth: {source.choice([50, 300])} GB/s, latency: {source.randint(1, 50)} us}}
  inter_node: {{bandwidth: {source.choice([2, 12, 25])} GB/s, latency: {source.randint(1, 200)} us}}
runtime: {{op_overhead: {source.randint(0, 200)} us, send: {source.choice(["overlapped", "blocking"])}}}
sweep:
  grid:
    schedule: [{", ".join(schedules)}]
    pipeline.ranks: [2, 4, 8]
    pipeline.data_parallel: [2, 4, 8]
    pipeline.micro_batch_size: [1, 2, 4]
    pipeline.recompute: [none, full, except_last]
  where: gpus == 16
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_search_equals_simulating_everything(seed: int, tmp_path: Path) -> None:
    path = written(tmp_path, random_space(random.Random(seed)))
    base, sweep = base_of(path), sweep_of(path)
    columns = parameters(sweep)
    legal = [case for case in listing(base, sweep) if case.reason is None]
    rows = run_batch(base, [(case.id, json.dumps(case.changes)) for case in legal])
    fitting = [row for row in rows if row.error is None and row.figures["fits"]]
    every = sorted(fitting, key=lambda row: (row.figures["step_time_s"], row.figures["peak_memory_bytes"], row.id))

    candidates = space(base, listing(base, sweep), columns)
    found = search(Crew(Here(), base), candidates, top=5)
    assert [case["id"] for case in found.best] == [row.id for row in every[:5]]
    assert candidates.legal == len(legal)
    print(f"seed {seed}: {found.simulated} of {len(legal)} cases simulated")
    assert found.simulated <= len(legal)


@pytest.mark.slow
def test_the_shipped_search_simulates_at_most_a_quarter(tmp_path: Path) -> None:
    done = call("search", CONFIGS / "search.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["cases"] >= 500
    assert found["simulated_share"] <= 0.25
    assert found["simulated"] + found["cut_by_bound"] + found["cut_by_memory"] == found["cases"]
    times = [case["step_time_s"] for case in found["best"]]
    assert len(times) == 10 and times == sorted(times)
    assert all(case["fits"] and case["ranks"] * case["data_parallel"] == 64 for case in found["best"])
    for case in found["best"]:  # each says what holds it back, and how long its step would be without that
        without = re.search(r"would (?:take|be) ([\d.]+) s$", case["limit"])
        assert without and float(without[1]) < case["step_time_s"], case["limit"]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_search_on_the_command_line(tmp_path: Path) -> None:
    path = written(tmp_path, random_space(random.Random(0)))
    done = call("search", "x.yaml", "--gpus", "16", "--top", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"the best 3 by .*, as certain as if all had been simulated:", done.stdout)
    assert sum(line.startswith(("1: ", "2: ", "3: ")) for line in done.stdout.splitlines()) == 3
    none = call("search", "x.yaml", "--gpus", "17", cwd=tmp_path)
    assert (none.returncode, "where: leaves no case" in none.stderr) == (2, True)
    assert load(path).sweep is not None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("global_batch: ", "steps: 1, microbatches: ", "a search compares step times, which takes the same work"),
        ("sweep:", "uncertainty: {repeat: 2}\nsweep:", "uncertainty: a search compares exact step times"),
    ],
)
def test_what_cant_be_searched(old: str, new: str, words: str, tmp_path: Path) -> None:
    path = written(tmp_path, random_space(random.Random(1)).replace(old, new))
    with pytest.raises(ppsim.ConfigError, match=words):
        space(base_of(path), listing(base_of(path), sweep_of(path)), parameters(sweep_of(path)))


def test_where_nothing_fits(tmp_path: Path) -> None:
    path = written(tmp_path, random_space(random.Random(0)).replace(" GB}\n", " kB}\n"))
    found = space(base_of(path), listing(base_of(path), sweep_of(path)), parameters(sweep_of(path)))
    assert found.too_large == found.legal > 0
    assert found.candidates == []
    done = call("search", "x.yaml", cwd=tmp_path)
    assert (done.returncode, "no case fits into memory" in done.stdout) == (0, True), done.stderr
