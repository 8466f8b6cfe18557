"""A metric is found by being there: what it says of itself, the rows that are made of it, and what is null."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ppsim
from ppsim import metrics
from ppsim.display.listing import rows as listing
from ppsim.metrics import Metric, Run, every, known, metric, rows, scalars
from ppsim.metrics.base import METRICS
from tests.simulated import between_nodes, simulate

SUFFIX = {"s": "_s", "B": "bytes", "1/s": "_per_s"}
"""How the key of a unit ends; a number of things, a ratio and a table say themselves what they are of."""
SCOPES = ("run", "rank", "stage", "link", "pair")


@pytest.fixture
def registered() -> Iterator[None]:
    """The metrics are afterwards what they were."""
    before = dict(METRICS)
    yield
    METRICS.clear()
    METRICS.update(before)


@pytest.fixture(scope="module")
def result() -> ppsim.Result:
    """1F1B, p=2, m=2, 1 MB over 1 GB/s: F 1 ms, B 2 ms."""
    link = between_nodes(bandwidth="1 GB/s")
    return simulate("1f1b", 2, 2, costs={"message": "1 MB", "weights": "1 MB"}, cluster=link)


@pytest.mark.parametrize("found", every(), ids=lambda found: f"{found.scope}-{found.name}")
def test_every_metric_says_what_it_is(found: Metric) -> None:
    assert found.definition
    assert found.compute.__doc__
    assert found.better in ("low", "high", None)
    assert found.name.endswith(SUFFIX.get(found.unit, ""))
    assert not found.of_work or (found.scope == "run" and found.unit in ("s", "1/s"))


def test_the_listing_says_all_of_it() -> None:
    """A row for each."""
    told = listing("metrics")
    assert len(told) == len(every()) == sum(len(known(scope)) for scope in SCOPES)
    assert {
        "metric": "samples_per_s", "scope": "run", "unit": "1/s", "better": "high", "needs": "samples",
        "definition": "samples of a step · steps / makespan",
    } in told  # fmt: skip


def test_rows_and_figures_are_all_that_are_registered(result: ppsim.Result) -> None:
    assert list(result.per_rank()[0]) == ["rank", *known("rank")]
    assert list(result.per_stage()[0]) == ["stage", "rank", *known("stage")]
    assert list(result.summary["links"][0]) == ["port", *known("link")]
    assert list(result.summary["pairs"][0]) == ["src", "dst", *known("pair")]
    assert {*scalars(result.run), "critical_path"} == set(known("run"))


def test_traffic_by_hand(result: ppsim.Result) -> None:
    """Two outputs from rank 0, two gradients back, 1 MB and 1 ms each.

    Rank 0 starts F0, F1 at 0, 1. Rank 1: F0 2-3, B0 3-5, F1 5-6, B1 6-8. Rank 0: B0 6-8, B1 9-11. 2 of 11 ms a port.
    """
    assert result.summary["makespan_s"] == 0.011
    ports = result.summary["links"]
    assert [(port["bytes"], port["busy_s"]) for port in ports] == [(2_000_000, 0.002)] * 4
    assert all(port["utilization"] == pytest.approx(2 / 11) for port in ports)
    assert result.summary["pairs"] == [
        {"src": 0, "dst": 1, "messages": 2, "bytes": 2_000_000},
        {"src": 1, "dst": 0, "messages": 2, "bytes": 2_000_000},
    ]


@pytest.mark.usefixtures("registered")
def test_a_new_column_per_rank_is_one_function(result: ppsim.Result) -> None:
    @ppsim.metric(scope="rank", unit="count", better="low", definition="ops that it runs")
    def ops_run(run: Run) -> list[int]:
        """Ops of every rank."""
        return [len(run.plan.ops.rows(rank)) for rank in range(run.plan.ops.ranks)]

    assert [row["ops_run"] for row in result.per_rank()] == [4, 4]
    assert "ops_run" in {row["metric"] for row in listing("metrics")}

    @metric(scope="run", unit="1", definition="half the number of ranks")
    def half(run: Run) -> float:
        """Half of them."""
        return run.plan.ops.ranks / 2

    assert simulate("1f1b", 3, 3).summary["half"] == 1.5


@pytest.mark.usefixtures("registered")
def test_a_name_that_another_module_has_is_refused() -> None:
    """A function of the same module takes the older one's place, as where a notebook's cell runs again."""
    taken = metric(scope="rank", unit="s", name="busy_s", definition="other")
    with pytest.raises(ppsim.PpsimError, match=r"metric busy_s per rank: ppsim\.metrics\.bubble has one of that name"):
        taken(lambda run: None)
    for answer in (1, 2):
        metric(scope="run", unit="count", name="mine", definition="again")(lambda run, answer=answer: answer)
    assert simulate("1f1b", 2, 2).summary["mine"] == 2


def test_a_file_in_the_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else is edited: here the folder has a second place, which holds one file."""
    source = (
        "from ppsim.metrics import metric\n\n"
        "@metric(scope='run', unit='count', definition='the answer')\n"
        "def answer(run):\n    return 42\n"
    )
    (tmp_path / "answer.py").write_text(source, encoding="utf-8")
    before = dict(METRICS)
    monkeypatch.setattr(metrics, "__path__", [*metrics.__path__, str(tmp_path)])
    metrics.registry._loaded.cache_clear()
    try:
        assert known("run")["answer"].module == "ppsim.metrics.answer"
        assert simulate("1f1b", 2, 2).summary["answer"] == 42
    finally:
        METRICS.clear()
        METRICS.update(before)
        sys.modules.pop("ppsim.metrics.answer", None)


def test_what_a_measured_run_does_not_know_is_null(result: ppsim.Result) -> None:
    """Times alone give busy and idle time; not what was waited for, held or sent, nor what an op should take."""
    measured = Run(result.plan, result.timeline)
    by_rank = rows(measured, "rank")
    assert by_rank is not None
    unknown = {"waits_s", "weight_versions", "staleness"} | {name for name in by_rank[0] if name.startswith("peak")}
    assert {name for name, value in by_rank[0].items() if value is None} == unknown
    by_stage = rows(measured, "stage")
    assert by_stage is not None
    assert by_stage[1] == {
        "stage": 1, "rank": 1, "forward_s": None, "backward_s": None, "peak_activation_bytes": None,
    }  # fmt: skip
    assert rows(measured, "link") is rows(measured, "pair") is None
    figures = scalars(measured)
    assert figures["makespan_s"] == 0.011
    for name in ("step_bound_s", "max_speedup", "speedup", "peak_memory_bytes", "fits", "samples_per_s", "mfu"):
        assert figures[name] is None


def test_utilisation_of_the_devices_by_hand(result: ppsim.Result) -> None:
    """1.1e9 FLOPs in 11 ms are 1e11 FLOP/s: half of what two devices of 1e11 FLOP/s can do."""
    run = Run(result.plan, result.timeline, flops_per_step=1_100_000_000, peak_flops=2 * 10**11)
    assert scalars(run)["mfu"] == 0.5
