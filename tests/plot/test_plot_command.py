"""``ppsim plot`` as a user calls it: every format, every size, and what is wrong with others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ppsim.cli.app import app
from ppsim.plot import scales
from tests.cli.test_cli import BASE, call
from tests.marks import rest_slow

STARTS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "x.yaml").write_text(BASE, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("kind", STARTS)
def test_a_format_for_a_column_of_a_paper(kind: str, folder: Path) -> None:
    done = call("plot", "x.yaml", "--format", kind, "--size", "paper", cwd=folder)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"x-gantt.{kind}\n")
    content = (folder / f"x-gantt.{kind}").read_bytes()
    assert content.startswith(STARTS[kind])
    if kind == "svg":  # a column of 3.4 inches of 72 points
        assert re.search(rb'<svg [^>]*width="244.8pt"', content)
    if kind == "png":  # at 300 dots per inch; the width stands at byte 16
        assert int.from_bytes(content[16:20], "big") == 1020


@pytest.mark.parametrize(
    ("arguments", "file", "start"),
    [
        (("-o", "a.pdf"), "a.pdf", "pdf"),  # the ending says it
        pytest.param(
            ("--format", "svg", "-o", "picture"), "picture", "svg", marks=pytest.mark.slow
        ),  # what is said goes first
        pytest.param(("--kind", "memory", "--ranks", "0-1"), "x-memory.png", "png", marks=pytest.mark.slow),
        pytest.param(("--kind", "peaks"), "x-peaks.png", "png", marks=pytest.mark.slow),
        pytest.param(("--kind", "split"), "x-split.png", "png", marks=pytest.mark.slow),
        pytest.param(("--window", "5 ms", "0.1 s", "--ranks", "1,0"), "x-gantt.png", "png", marks=pytest.mark.slow),
    ],
)
def test_where_it_goes_and_as_what(arguments: tuple[str, ...], file: str, start: str, folder: Path) -> None:
    done = call("plot", "x.yaml", *arguments, cwd=folder)
    assert (done.returncode, done.stdout) == (0, f"{file}\n")
    assert (folder / file).read_bytes().startswith(STARTS[start])


@pytest.mark.parametrize(
    ("arguments", "message"),
    rest_slow(
        [
            (("--format", "gif"), "x-gantt.gif: a figure can't be written as '.gif' files; use png, svg, pdf\n"),
            (("--size", "papr"), "size: unknown size 'papr'; did you mean 'paper'? known: notebook, slide, paper\n"),
            (("--window", "1", "2 s"), "--window: '1' is a bare number; write the unit, e.g. '1 ms'\n"),
            (("--window", "2 s", "1 s"), "window: 2.0 s to 1.0 s is no part of a run; give (start, end) in seconds\n"),
            (("--ranks", "1-x"), "--ranks: '1-x' are no ranks; give them as in 0-3,7\n"),
            (("--ranks", "99"), "ranks: 99 is no rank of this run; they are 0 to 3\n"),
            (("--kind", "peaks", "--ranks", "0"), "--ranks: of a Gantt chart or of memory; peaks shows all\n"),
            (("--kind", "memory", "--window", "0 s", "1 s"), "--window: of a Gantt chart; memory has none\n"),
            (("-o", "x.yaml/a.png"), "x.yaml/a.png: can't be written: x.yaml is a file, not a folder\n"),
        ],
        3,
        several=True,
    ),
)
def test_what_is_wrong(arguments: tuple[str, ...], message: str, folder: Path) -> None:
    done = call("plot", "x.yaml", *arguments, cwd=folder)
    assert (done.returncode, done.stderr) == (2, message)
    assert sorted(path.name for path in folder.iterdir()) == ["x.yaml"]


def test_a_run_without_pictures(folder: Path) -> None:
    done = call("run", "x.yaml", "--no-plots", cwd=folder)
    assert done.returncode == 0
    names = {path.name for path in (folder / "results" / "x").iterdir()}
    assert "tasks.csv" in names and not any(name.endswith(".png") for name in names)


def test_a_stream_whose_steps_nobody_gave_is_drawn_into_its_steady_state(tmp_path: Path) -> None:
    """m = 8 minibatches don't get there; sixteen, four rounds through p = 4 ranks, do. What is given stays."""
    config = tmp_path / "x.yaml"
    config.write_text(
        "schedule: pipedream\npipeline: {ranks: 4, microbatches: 8}\ncosts: {forward: 1 ms, backward: 2 ms}\n", "utf-8"
    )
    for settings, steps in (([], " for 2 steps"), (["--set", "pipeline.steps=1"], "")):
        drawn = tmp_path / "x.svg"
        done = CliRunner().invoke(app, ["plot", str(config), "-o", str(drawn), *settings])
        assert done.exit_code == 0, done.output
        title = f"pipedream with p=4, m=8 takes {57 if steps else 33} ms{steps}:"  # (m + p - 1)·3 ms
        assert title in drawn.read_text("utf-8").replace(scales.NBSP, " ")
    assert "pipeline.steps: 2 shows it" in CliRunner().invoke(app, ["run", str(config), "--no-files"]).output
