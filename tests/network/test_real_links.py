"""Runs of PyTorch over gloo on shaped links, by their configs: ``tests/real/links.py`` measures them again."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

import ppsim
from tests.real.links import CASES, predicted

ROOT = Path(__file__).parents[2]
MEASURED = list(csv.DictReader((ROOT / "results/reference/real_links.csv").read_text(encoding="utf-8").splitlines()))


def config(case: str) -> Path:
    """The config of a case: 'gpipe p3 m6, 2 MB' is gloo-gpipe-p3-m6-2mb.yaml."""
    return ROOT / "configs" / f"gloo-{re.sub('[ ,]+', '-', case.replace(' a ', ' ').replace(' MB', 'mb'))}.yaml"


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row["case"])
def test_a_real_run_is_predicted_within_3_percent(row: dict[str, str]) -> None:
    found = ppsim.simulate(ppsim.load(config(row["case"]))).summary["makespan_s"]
    assert found == pytest.approx(float(row["measured_s"]), rel=0.03)


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row["case"])
def test_the_configs_are_what_was_run(row: dict[str, str]) -> None:
    """The same figures as the table's, to what its bandwidths are rounded to."""
    case = next(case for case in CASES if str(case) == row["case"])
    size = int(row["message_bytes"])
    rates = {400: row["bare_bandwidth"], 200: row["bare_bandwidth"], 160: "19210000 B/s"}
    links = {mbit: {size: {"bandwidth": bandwidth}} for mbit, bandwidth in rates.items()}
    by_config = ppsim.simulate(ppsim.load(config(row["case"])), engine="simpy").summary["makespan_s"]
    assert predicted(case, links, 732_000).timeline.makespan / 1e9 == pytest.approx(by_config, rel=1e-4)
    assert by_config == pytest.approx(float(row["simulated_s"]), rel=1e-3)
