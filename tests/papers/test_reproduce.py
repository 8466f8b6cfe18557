"""Papers: the pages are read, rows are judged as the page says, and every published target is met or known to miss."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

import ppsim
from ppsim.papers.paper import known, named, read
from ppsim.papers.reproduce import reproduce

CONFIG = """\
schedule: gpipe
pipeline: {ranks: 2, microbatches: 4}
costs: {per: stage, forward: 1 ms, backward: 2 ms}
"""
# GPipe takes (m + p - 1)(F + B): 15 ms for p = 2, m = 4; 18 for p = 3.
PAGE = """\
title: "A made-up paper"
source: by hand
figures:
  - name: table1
    what: step times
    kind: {kind}
    tolerance: {tolerance}
    config: x.yaml
    set: {{pipeline.ranks: "{{p}}"}}
    published: took_ms
    simulated: "step_time_s * 1000"
"""


def _paper(folder: Path, rows: str, kind: str = "measured", tolerance: str = "2 %", more: str = "") -> Path:
    (folder / "x.yaml").write_text(CONFIG, encoding="utf-8")
    (folder / "table1.csv").write_text(rows, encoding="utf-8")
    (folder / "paper.yaml").write_text(PAGE.format(kind=kind, tolerance=tolerance) + more, encoding="utf-8")
    return folder


def test_rows_are_judged_by_their_tolerance(tmp_path: Path) -> None:
    (table,) = reproduce(read(_paper(tmp_path, "# by hand\np,took_ms\n2,15.2\n3,20\n")))
    assert [(row.label, row.published, row.simulated, row.met) for row in table.rows] == [
        ("p 2", 15.2, pytest.approx(15.0), True),  # 1.3 % off
        ("p 3", 20.0, pytest.approx(18.0), False),  # 10 % off
    ]
    assert table.worst_error == pytest.approx(-0.1)


def test_an_absolute_tolerance(tmp_path: Path) -> None:
    (table,) = reproduce(read(_paper(tmp_path, "p,took_ms\n2,15.2\n", tolerance="0.1")))
    assert [row.met for row in table.rows] == [False]


def test_rows_that_were_not_read_are_never_targets(tmp_path: Path) -> None:
    (table,) = reproduce(read(_paper(tmp_path, "p,took_ms,status\n2,99,by eye\n3,18,\n")))
    assert [(row.judged, row.note) for row in table.rows] == [(False, "by eye"), (True, "")]


def test_a_known_miss_is_missed_with_its_reason(tmp_path: Path) -> None:
    more = '    misses: [{rows: "p == 3", why: "the reason"}]\n'
    (table,) = reproduce(read(_paper(tmp_path, "p,took_ms\n2,15\n3,20\n", more=more)))
    assert [row.note for row in table.missed] == ["the reason"]


def test_values_relative_to_a_row(tmp_path: Path) -> None:
    """15 ms and 18 ms: 1.2 times as long; the reference itself is no target."""
    more = '    relative_to: "p == 2"\n'
    (table,) = reproduce(read(_paper(tmp_path, "p,took_ms\n2,150\n3,180\n", more=more)))
    assert [(row.published, row.simulated, row.judged) for row in table.rows] == [
        (1.0, 1.0, False),
        (1.2, pytest.approx(1.2), True),
    ]


def test_a_constant_is_fitted_on_named_rows_and_judged_on_the_others(tmp_path: Path) -> None:
    """The hand-made rows are those of F = 2 ms: 5·4 = 20 ms for p = 2, 6·4 = 24 for p = 3."""
    pytest.importorskip("scipy")
    more = '    fit: {constants: {f_ms: {start: 1, what: "ms of a forward"}}, rows: "p == 2"}\n'
    folder = _paper(tmp_path, "p,took_ms\n2,20\n3,24\n", kind="fitted", more=more)
    page = folder / "paper.yaml"
    page.write_text(page.read_text("utf-8").replace('"{p}"', '"{p}", costs.forward: "{f_ms} ms"'), encoding="utf-8")
    (table,) = reproduce(read(folder))
    ((_, constants),) = table.constants
    assert constants["f_ms"] == pytest.approx(2.0, rel=1e-4)
    assert [(row.judged, row.met) for row in table.rows] == [(False, None), (True, True)]


def test_an_order_is_missed_by_the_rows_that_change_places(tmp_path: Path) -> None:
    rows = "p,took_ms\n2,15\n3,18\n4,17\n"  # simulated 15, 18, 21: p = 4 is published as faster than p = 3
    (table,) = reproduce(read(_paper(tmp_path, rows, kind="order")))
    assert [row.met for row in table.rows] == [True, False, False]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("title: x\n", "source: "),
        (PAGE.format(kind="measured", tolerance="2 %").replace("    tolerance: 2 %\n", ""), "needs a tolerance"),
        (PAGE.format(kind="guessed", tolerance="2 %"), "kind"),
    ],
)
def test_a_page_with_a_mistake_is_one_line_at_its_place(tmp_path: Path, page: str, message: str) -> None:
    (tmp_path / "paper.yaml").write_text(page, encoding="utf-8")
    with pytest.raises(ppsim.ConfigError, match=message):
        read(tmp_path)


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ppsim", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=400)


def test_the_command_prints_a_summary_and_exits_by_its_targets(tmp_path: Path) -> None:
    done = call(tmp_path, "reproduce", "vocabulary", "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["figures"]
    assert [(figure["figure"], figure["met"], figure["targets"]) for figure in figures] == [
        ("iterations", 11, 11),
        ("bubbles", 11, 11),
    ]


def test_an_unknown_paper_is_an_error_with_the_nearest(tmp_path: Path) -> None:
    done = call(tmp_path, "reproduce", "vocabulari")
    assert (done.returncode, "did you mean 'vocabulary'?" in done.stderr) == (2, True)


@pytest.mark.slow
def test_every_target_is_met_or_known_to_miss(tmp_path: Path) -> None:
    done = call(tmp_path, "reproduce", "--out", "out")
    with (tmp_path / "out" / "papers.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    missed = [row for row in rows if row["met"] == "False"]
    assert [row for row in missed if not row["note"]] == []
    assert done.returncode == (1 if missed else 0)
    assert {row["paper"] for row in rows} == set(known())


def test_every_page_can_be_read() -> None:
    for name in known():
        paper = named(name)
        assert all((paper.folder / figure.config).is_file() for figure in paper.figures), name
