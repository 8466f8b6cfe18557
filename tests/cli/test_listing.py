"""Whatever ``ppsim list`` shows can be used, by the key or option that it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

import ppsim
from ppsim.display.listing import rows

CONFIGS = Path(__file__).parents[2] / "configs"


def test_schedules(tmp_path: Path) -> None:
    """4 ranks and 8 microbatches suit all of them; an order is read from its file."""
    for row in rows("schedules"):
        if row["schedule"] != "file":
            settings = {"schedule": row["schedule"], "cluster": None}
            assert ppsim.load(CONFIGS / "quickstart.yaml", settings).schedule.name == row["schedule"]
    (tmp_path / "order.csv").write_text("0F0,0B0\n1F0,1B0\n", encoding="utf-8")
    schedule = {"name": "file", "path": str(tmp_path / "order.csv")}
    sizes = {"ranks": 2, "microbatches": 1}
    assert ppsim.load(CONFIGS / "quickstart.yaml", {"schedule": schedule, "pipeline": sizes}).schedule.name == "file"


@pytest.mark.parametrize(("what", "key"), [("devices", "cluster.device"), ("links", "cluster.inter_node")])
def test_hardware(what: str, key: str) -> None:
    for row in rows(what):
        name = row[what[:-1]]
        if what == "links" and row["scope"] == "intra":
            key = "cluster.intra_node"
        ppsim.load(CONFIGS / "quickstart.yaml", {key: name})


def test_models() -> None:
    pipeline = {"ranks": 1, "microbatches": 8, "micro_batch_size": 1}
    for row in rows("models"):
        costs = {"kind": "transformer", "model": row["model"], "sequence": 2048, "efficiency": 0.5}
        settings = {"costs": costs, "pipeline": pipeline, "cluster.device": "h100-80gb"}
        ppsim.load(CONFIGS / "quickstart.yaml", settings)


def test_metrics() -> None:
    """Each is in the summary: of a run by itself, of ranks, stages and links in their rows."""
    summary = ppsim.simulate(ppsim.load(CONFIGS / "quickstart.yaml")).summary
    of = {
        "run": summary,
        "rank": summary["per_rank"][0],
        "stage": summary["per_stage"][0],
        "link": summary["links"][0],
        "pair": summary["pairs"][0],
    }
    assert [row["metric"] for row in rows("metrics") if row["metric"] not in of[row["scope"]]] == []
