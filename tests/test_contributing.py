"""What CONTRIBUTING.md says of adding things: each takes one file or one row, and works as soon as that is there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ppsim
from tests import readme
from tests.drawing import PICTURE, drawing, rooms

PAGE = readme.ROOT / "CONTRIBUTING.md"
NEW = {block.text.partition("\n")[0].removeprefix("# "): block.text for block in readme.blocks(PAGE)}
QUICKSTART = readme.ROOT / "configs" / "quickstart.yaml"


def with_new(name: str, folder: Path) -> Path:
    """A copy of the package with one file of the page in it; of a table, with its row at the end."""
    shutil.copytree(Path(ppsim.__file__).parent, folder / "ppsim", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / name).parent.mkdir(exist_ok=True)
    with (folder / name).open("a", encoding="utf-8") as file:
        file.write(NEW[name])
    return folder


def call(package: Path, *arguments: str | Path) -> str:
    """What the command line with that package prints."""
    done = subprocess.run(
        [sys.executable, "-m", "ppsim", *map(str, arguments)], cwd=package, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(package)}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow  # starts several processes
def test_a_schedule_is_a_file(tmp_path: Path) -> None:
    """(m / size) · (size + p - 1) · (F + B) = 8/2 · (2 + 3) · 30 ms; a batch's activations at once."""
    package = with_new("ppsim/schedules/batches.py", tmp_path)
    assert "batches" in call(package, "list", "schedules")
    settings = ("--set", "schedule={name: batches, size: 2}", "--set", "cluster=null")
    summary = json.loads(call(package, "run", QUICKSTART, *settings, "--json", "--no-files"))
    assert (summary["makespan_s"], summary["per_rank"][0]["peak_in_flight"]) == (0.6, 2)
    assert "batches" in call(package, "compare", QUICKSTART, "--schedules", "batches,gpipe")
    assert "did you mean 'batches'" in subprocess.run(
        [sys.executable, "-m", "ppsim", "check", QUICKSTART, "--set", "schedule=batchez"], cwd=package,
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(package)},
    ).stderr  # fmt: skip


@pytest.mark.slow  # starts several processes
def test_a_device_is_a_row(tmp_path: Path) -> None:
    """Rank 0 of 1F1B holds 4 activations of 1 GiB and weights and gradients of 4 GiB each."""
    package = with_new("ppsim/hardware/catalog/devices.yaml", tmp_path)
    assert "x1-96gb" in call(package, "list", "devices")
    shown = call(package, "run", QUICKSTART, "--set", "cluster.device=x1-96gb", "--no-files")
    assert "of 89.41 GiB: fits" in shown  # 96 · 10^9 / 2^30


@pytest.mark.slow  # starts several processes
def test_a_metric_is_a_file(tmp_path: Path) -> None:
    """Rank r of 1F1B ends its first forward after (r + 1) · 10 ms."""
    package = with_new("ppsim/metrics/first_end.py", tmp_path)
    assert "first_end_s" in call(package, "list", "metrics")
    summary = json.loads(call(package, "run", QUICKSTART, "--set", "cluster=null", "--json", "--no-files"))
    assert [row["first_end_s"] for row in summary["per_rank"]] == [0.01, 0.02, 0.03, 0.04]


@pytest.mark.slow  # starts several processes
def test_a_paper_is_a_folder(tmp_path: Path) -> None:
    """GPipe takes (m + p - 1)(F + B): 5 · 3 = 15 ms for p = 2 and m = 4, 18 ms for p = 3."""
    package = with_new("ppsim/papers/example/paper.yaml", tmp_path / "work")
    folder = package / "ppsim" / "papers" / "example"
    config = (
        "schedule: gpipe\npipeline: {ranks: 2, microbatches: 4}\ncosts: {per: stage, forward: 1 ms, backward: 2 ms}\n"
    )
    (folder / "pipeline.yaml").write_text(config, encoding="utf-8")
    (folder / "steps.csv").write_text("# by hand\np,took_ms\n2,15\n3,18\n", encoding="utf-8")
    assert "An example" in call(package, "list", "papers")
    (figure,) = json.loads(call(package, "reproduce", "example", "--json"))["figures"]
    assert (figure["met"], figure["targets"]) == (2, 2)


@pytest.mark.slow  # starts several processes
def test_a_link_rule_is_a_file(tmp_path: Path) -> None:
    """Three messages of 10 ms wait for each other: 0F0's goes at once, then the newest of the others; by queueing 0F1's.

    Forwards of 4 ms end at 4, 8 and 12: 0F0's goes from 4 to 14, and 0F2's before 0F1's, to 24 and 34.
    """
    package = with_new("ppsim/network/sharing/newest.py", tmp_path)
    (tmp_path / "three.yaml").write_text(
        "schedule: forward_only\npipeline: {ranks: 2, microbatches: 3}\n"
        "costs: {forward: [4 ms, 0 s], message: 10 MB}\n"
        "cluster: {ranks_per_node: 1, inter_node: {bandwidth: 1 GB/s}, sharing: newest}\n"
    )
    call(package, "run", "three.yaml", "--out", "out")
    rows = [line.split(",") for line in (tmp_path / "out" / "transfers.csv").read_text().splitlines()]
    arrives = rows[0].index("arrive_s")
    assert {row[0]: float(row[arrives]) for row in rows[1:]} == {"0F0": 0.014, "0F2": 0.024, "0F1": 0.034}


@pytest.mark.slow  # starts several processes
def test_a_format_is_a_file(tmp_path: Path) -> None:
    """1F1B on two ranks, by hand: F 10 ms, B 20 ms."""
    package = with_new("ppsim/formats/starts_csv.py", tmp_path)
    assert "starts-csv" in call(package, "list", "formats")
    settings = ("--set", "pipeline={ranks: 2, microbatches: 2}", "--set", "cluster=null")
    ms = {"0F0": 0, "0F1": 10, "0B0": 40, "0B1": 70, "1F0": 10, "1B0": 20, "1F1": 40, "1B1": 50}
    lines = [f"{op[0]},{op},{start * 10**6}" for op, start in ms.items()]
    assert call(package, "export", QUICKSTART, "--format", "starts-csv", *settings).splitlines() == lines


def test_every_file_of_the_page_is_added_by_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    files = [name for name in NEW if name.startswith("ppsim/")]
    assert len(files) >= 3
    assert [name for name in files if f'with_new("{name}"' not in source] == []


@pytest.mark.slow
def test_the_house_is_drawn_with_all_its_rooms() -> None:
    """``python -m tests.drawing`` makes it, to the byte the same each time."""
    house = rooms(readme.ROOT / "ppsim")
    assert drawing(house) == drawing(dict(reversed(house.items())))
    kept = PICTURE.read_text(encoding="utf-8")
    assert [room for room in house if room[0] != "_" and f">{room}</text>" not in kept] == [], "python -m tests.drawing"
    text = (readme.ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    told = set(text.replace("/`", "`").split("`"))
    assert [room for room in house if not room.startswith("_") and room not in told] == []


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_pages_name_files_that_are_there(page: str) -> None:
    text = (readme.ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (readme.ROOT / target).exists(), target
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    for name in re.findall(r"`((?:ppsim|tests|docs|engine|configs)/[\w./-]+)`", prose):
        assert (readme.ROOT / name).exists() or (readme.ROOT / "ppsim" / name).exists(), name
