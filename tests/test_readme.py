"""Everything that the README and the pages in docs tell a reader to do works, and shows what it says."""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import ppsim
from tests import installed, readme
from tests.readme import Block
from tests.reference_outputs import MADE_WITH, made_with

BLOCKS = readme.blocks()
INSTALL = "-m venv"
IN_A_CLONE = "# in a clone"
"""How a block begins that the tests of the installation and of the site run."""
(NEW,) = (b for b in readme.blocks(readme.DOCS / "howto" / "schedule.md") if b.text.startswith(readme.NEW_SCHEDULE))
PAGES = [pytest.param(page, id=page.relative_to(readme.ROOT).as_posix()) for page in readme.PAGES]
EXPERIMENTS = [
    pytest.param(page, block, id=f"{page.stem}-{block.title}")
    for page in readme.PAGES
    for block in readme.blocks(page)
    if block.language == "yaml"
]


def to_run(page: Path) -> list[Block]:
    """Blocks of shell and Python, but for those that install or add to the package."""
    found = [block for block in readme.blocks(page) if block.language in ("sh", "python")]
    return [b for b in found if INSTALL not in b.text and not b.text.startswith((IN_A_CLONE, readme.NEW_SCHEDULE))]


def extended(folder: Path) -> Path:
    """A copy of the package with the new file of the page on schedules in it."""
    shutil.copytree(Path(ppsim.__file__).parent, folder / "ppsim", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / NEW.text.partition("\n")[0].removeprefix("# ")).write_text(NEW.text, encoding="utf-8")
    return folder


def output_of(block: Block, page: Path) -> str | None:
    """What the page shows as the block's output: the block of text right after it."""
    found = readme.blocks(page)
    after = found[found.index(block) + 1 :][:1]
    return after[0].text if after and after[0].language == "text" else None


def plain(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if to_run(page.values[0])])
def test_blocks_in_turn(page: Path, tmp_path: Path) -> None:
    """Each runs, prints what its comments say (``# → …``), and what the block of text after it shows.

    One test a page: later blocks use what earlier ones wrote, as a reader would run them.
    """
    work = readme.workspace(tmp_path / "work", page)
    for block in to_run(page):
        if block.text.startswith("# needs torch") and find_spec("torch") is None:
            continue  # takes a schedule from PyTorch
        own = "halves" in block.text and block.language == "sh"
        done = readme.run(block, work, extended(tmp_path / "package") if own else None)
        assert done.returncode == 0, f"{block.title}: {done.stderr}"
        printed = plain(done.stdout)
        for expected in re.findall(r"# → (.+)$", block.text, re.M):
            assert expected in printed, block.title
        if (shown := output_of(block, page)) is not None:
            assert plain(shown) == printed, block.title


def test_every_page_with_a_how_is_run() -> None:
    assert [page for page in (readme.DOCS / "howto").glob("*.md") if len(to_run(page)) < 2] == []


@pytest.mark.parametrize(("page", "block"), EXPERIMENTS)
def test_experiment(page: Path, block: Block, tmp_path: Path) -> None:
    """Every experiment is whole: it can be taken as it is."""
    work = readme.workspace(tmp_path / "work", page)
    (work / "experiment.yaml").write_text(block.text, encoding="utf-8")
    assert ppsim.load(work / "experiment.yaml").pipeline.ranks == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gantt.png", "bubble.png"])
def test_pictures_are_current(name: str, tmp_path: Path) -> None:
    """To the byte, where the same releases draw; where others do, to what a letter's outline may differ by.

    Made by ``python -m tests.reference_outputs``.
    """
    from matplotlib.image import imread

    work = readme.workspace(tmp_path / "work")
    drawn, kept = work / readme.REFERENCE / name, readme.ROOT / readme.REFERENCE / name
    if not drawn.exists():
        assert readme.run(BLOCKS[0], work).returncode == 0
    if drawn.read_bytes() == kept.read_bytes():
        return
    assert (kept.parent / MADE_WITH).read_text(encoding="utf-8") != made_with(), f"{name} is out of date"
    new, old = imread(drawn), imread(kept)
    assert new.shape == old.shape
    assert np.abs(new - old).mean() < 0.01


def test_pictures_that_are_kept_are_shown() -> None:
    kept = sorted(path.name for path in (readme.ROOT / readme.REFERENCE).glob("*.png"))
    assert kept == ["bubble.png", "gantt.png", "growth.png"]
    pages = [readme.README, *sorted((readme.ROOT / "docs").glob("*.md"))]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert all(f"{readme.REFERENCE.as_posix()}/{name})" in text for name in kept)


def test_measured_figures() -> None:
    """-1.4 … 0.0 %, and slopes of 83.6, 134.2 and 75 ms: max(25, x) + max(50, x) for 8 MiB in x = 33.6, 67.1, 13.4 ms."""
    text = readme.README.read_text(encoding="utf-8")
    errors = []
    for path in sorted((readme.ROOT / "configs").glob("vocabulary-8xA100-*.yaml")):
        measured = re.search(r"took ([\d.]+) ms", path.read_text(encoding="utf-8"))
        assert measured is not None
        errors.append(ppsim.simulate(ppsim.load(path)).summary["makespan_s"] * 1e5 / float(measured[1]) - 100)
    assert f"−{-min(errors):.1f} … {max(errors) + 0:.1f} %".replace("-0.0", "0.0") in text
    for bandwidth, slope in ((2, "83.6 ms"), (1, "134.2 ms"), (5, "75.0 ms")):
        more = [_gpipe(bandwidth, m) for m in (64, 96)]
        assert f"{(more[1] - more[0]) / 32 * 1e3:.1f} ms" == slope


def _gpipe(gbit_per_s: int, m: int) -> float:
    experiment = ppsim.Experiment(
        schedule="gpipe",
        pipeline={"ranks": 8, "microbatches": m},
        costs={"per": "stage", "forward": "25 ms", "backward": "50 ms", "message": "8 MiB"},
        cluster={"ranks_per_node": 1, "inter_node": {"bandwidth": f"{gbit_per_s} Gbit/s", "latency": "1 ms"}},
    )
    return float(ppsim.simulate(experiment).summary["makespan_s"])


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in re.findall(r"^#+ (.+)$", text, re.M)}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    """Files that exist, and headings of pages; what is made with the site is looked for when that is built."""
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        name, _, heading = target.partition("#")
        if target.startswith("https://") or "generated/" in name:
            continue
        found = page.parent / name if name else page
        assert found.exists(), target
        assert not heading or heading in headings(found), target


def test_ci_runs_the_tests_by_the_same_command() -> None:
    (line,) = (b.text for b in BLOCKS if INSTALL in b.text and "pytest" in b.text)
    install, _, tests = (part.strip() for part in line.partition("&& .venv/bin/pytest"))
    assert tests == ""
    extras = re.search(r"-e '\.\[[\w,]+\]'", install)
    assert extras is not None
    script = (readme.ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert extras[0] in script
    assert script.splitlines()[-2:] == ["pytest", "pytest -m slow"]  # all of them, each once


@pytest.mark.slow
def test_install_and_run(tmp_path: Path) -> None:
    """The first command, in a fresh copy of the repository."""
    installed.needs_an_index(tmp_path)
    (command,) = (b for b in BLOCKS if INSTALL in b.text and "pytest" not in b.text)
    clone = installed.clone(tmp_path / "clone")
    done = readme.run(command, clone)
    assert done.returncode == 0, done.stderr
    assert "quickstart: 1f1b, p = 4, m = 8; 64 ops" in done.stdout
    assert (clone / "results" / "quickstart" / "gantt.png").is_file()
