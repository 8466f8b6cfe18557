"""``ppsim plot`` as a user calls it: every format, every size, and what is wrong with others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.test_cli import BASE, call

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
        (("--kind", "split"), "x-split.png", "png"),
        pytest.param(("--window", "5 ms", "0.1 s", "--ranks", "1,0"), "x-gantt.png", "png", marks=pytest.mark.slow),
    ],
)
def test_where_it_goes_and_as_what(arguments: tuple[str, ...], file: str, start: str, folder: Path) -> None:
    done = call("plot", "x.yaml", *arguments, cwd=folder)
    assert (done.returncode, done.stdout) == (0, f"{file}\n")
    assert (folder / file).read_bytes().startswith(STARTS[start])


@pytest.mark.parametrize(
    ("arguments", "message"),
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
