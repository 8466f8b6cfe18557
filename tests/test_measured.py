"""Set beside published measurements and tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ppsim
from tests.simulated import between_nodes, simulate

CONFIGS = Path(__file__).parent.parent / "configs"
VOCABULARY = sorted(CONFIGS.glob("vocabulary-8xA100-*.yaml"))


@pytest.mark.parametrize("config", VOCABULARY, ids=[path.stem for path in VOCABULARY])
def test_iteration_time_of_eight_a100s(config: Path) -> None:
    """Within 2 % of the iteration time measured with these stage times (sail-sg/VocabularyParallelism@6191c3b)."""
    measured = re.search(r"took ([\d.]+) ms", config.read_text(encoding="utf-8"))
    assert measured is not None
    simulated = ppsim.simulate(ppsim.load(config), engine="simpy").summary["makespan_s"] * 1e3
    assert simulated == pytest.approx(float(measured[1]), rel=0.02)


def test_all_measured_runs_are_there() -> None:
    """Eleven runs of plain 1F1B, with the output layer on the last stage (base) or moved away (redis)."""
    assert len(VOCABULARY) == 11


# Zero Bubble (arXiv 2401.10241), Tables 9 and 5: the bubble rate is (makespan - m(TF+TB+TW)) / makespan, and Tcomm a pure
# latency.
def _rows() -> list[tuple[int, int, str, str, str, str, float]]:
    with (Path(__file__).parent / "data" / "zero_bubble_table5.csv").open(encoding="utf-8") as file:
        lines = [line.strip().split(",") for line in file if not line.startswith(("#", "p,"))]
    return [(int(p), int(m), f, b, w, c, float(rate)) for p, m, f, b, w, c, rate in lines]


@pytest.mark.parametrize(("p", "m", "f", "b", "w", "c", "rate"), _rows())
def test_zero_bubble_table_5_1f1b(p: int, m: int, f: str, b: str, w: str, c: str, rate: float) -> None:
    result = simulate(
        "1f1b", p, m,
        costs={"forward": f"{f} ms", "input_grad": f"{b} ms", "weight_grad": f"{w} ms"},
        cluster=between_nodes(latency=f"{c} ms"),
    )  # fmt: skip
    assert round(result.summary["bubble_ratio"], 4) == rate
