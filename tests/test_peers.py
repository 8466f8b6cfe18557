"""Set beside other programs, and beside the closed forms with a latency that hold for them."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path

import pytest

from tests.simulated import between_nodes, simulate

with (Path(__file__).parent / "data" / "peer_makespans.csv").open(encoding="utf-8") as _file:
    ROWS = list(csv.DictReader(line for line in _file if not line.startswith("#")))


def _makespan(schedule: str, p: int, m: int, v: int, forward: str, backward: str, latency: str) -> Fraction:
    """In units of the given times, exact."""
    named = {"name": schedule, "virtual_stages": v} if schedule == "interleaved_1f1b" else schedule
    result = simulate(
        named, p, m,
        costs={"forward": f"{forward} ms", "backward": f"{backward} ms"},
        cluster=between_nodes(latency=f"{latency} ms"),
        engine="auto",
    )  # fmt: skip
    return Fraction(result.timeline.makespan, 10**6)


@pytest.mark.parametrize("row", ROWS, ids=["-".join([r["system"].split()[0], *list(r.values())[1:9]]) for r in ROWS])
def test_peer_gives_the_same_makespan(row: dict[str, str]) -> None:
    backward = str(Fraction(row["backward"]) + Fraction(row["weight"]))
    found = _makespan(
        row["schedule"], int(row["ranks"]), int(row["microbatches"]), int(row["virtual_stages"]),
        row["forward"], backward, row["latency"],
    )  # fmt: skip
    assert float(found) == pytest.approx(float(row["makespan"]), abs=1e-6)


@pytest.mark.parametrize("p", [2, 3, 4, 8])
@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize("latency", ["0.25", "0.5", "2", "3"])
def test_latency_closed_forms(p: int, rounds: int, latency: str) -> None:
    """1F1B (m+p-1)(F+B) + 2c(m(p-1)/p + p-2) where p divides m; GPipe (m+p-1)(F+B) + 2c(p-1). F = 1, B = 2."""
    m, c = p * rounds, Fraction(latency)
    assert _makespan("1f1b", p, m, 1, "1", "2", latency) == 3 * (m + p - 1) + 2 * c * (Fraction(m * (p - 1), p) + p - 2)
    assert _makespan("gpipe", p, m, 1, "1", "2", latency) == 3 * (m + p - 1) + 2 * c * (p - 1)


@pytest.mark.parametrize("p", [2, 4, 8])
@pytest.mark.parametrize("v", [2, 3])
@pytest.mark.parametrize("latency", ["0.25", "1"])
def test_interleaved_latency_closed_form(p: int, v: int, latency: str) -> None:
    """mv(F+B) + (p-1)(F+B) + 2c(pv-1) with chunk times F = 1, B = 2, for c <= F where p divides m."""
    m, c = 2 * p, Fraction(latency)
    expected = 3 * m * v + 3 * (p - 1) + 2 * c * (p * v - 1)
    assert _makespan("interleaved_1f1b", p, m, v, "1", "2", latency) == expected
