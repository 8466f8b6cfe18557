"""The documentation site is built from a fresh clone by the README's command, with every warning an error."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from ppsim.schedules import known
from tests import installed, readme
from tests.test_readme import IN_A_CLONE

MISSING = [name for name in ("sphinx", "myst_nb", "furo", "nbclient") if find_spec(name) is None]
ASKED_OF_THE_NETWORK = re.compile(
    r"<(?:script|img|iframe)\b[^>]*\bsrc=\"(?:https?:)?//|<link\b[^>]*\bhref=\"(?:https?:)?//"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``sphinx-build -W docs site`` makes."""
    clone = installed.clone(tmp_path_factory.mktemp("site") / "clone")
    (block,) = (b for b in readme.blocks() if b.text.startswith(IN_A_CLONE))
    command = block.text.partition("&& .venv/bin/")[2]
    assert command.strip() == "sphinx-build -W docs site"
    done = readme.run(block._replace(text=f"{sys.executable} -m sphinx -W docs site"), clone, clone)
    assert done.returncode == 0, done.stderr
    return clone / "site"


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason="pip install 'ppsim[docs]'")
def test_site(site: Path) -> None:
    """The gallery has every schedule with its picture, notebooks show theirs, and no page asks the network for anything."""
    gallery = site / "generated" / "gallery"
    assert {path.stem for path in gallery.glob("*.html")} == set(known())
    listed = (site / "generated" / "schedules.html").read_text(encoding="utf-8")
    for name in known():
        assert f'href="gallery/{name}.html"' in listed
        assert f"{name}.png" in (gallery / f"{name}.html").read_text(encoding="utf-8")
    for notebook in (readme.ROOT / "notebooks").glob("*.ipynb"):
        page = (site / "generated" / "notebooks" / f"{notebook.stem}.html").read_text(encoding="utf-8")
        assert page.count("<img") + page.count("data:image/png") >= 3, notebook.stem
    asking = {
        path.name for path in site.rglob("*.html") if ASKED_OF_THE_NETWORK.search(path.read_text(encoding="utf-8"))
    }
    assert asking == set()


def test_pages_are_made_of_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule's page with its settings, and every page of the reference; the site itself is built among slow tests."""
    monkeypatch.syspath_prepend(str(readme.ROOT / "docs"))
    import gallery
    import reference

    page = gallery._schedule_page(
        "interleaved_1f1b", known()["interleaved_1f1b"], gallery.example("interleaved_1f1b", tmp_path)
    )
    assert "| `virtual_stages` | `2` |" in page
    assert "closed form: 285 ms" in page  # (vm + p - 1)(F + B) / v for v = 2, m = 8, p = 4 and F + B = 30 ms
    streamed = gallery._schedule_page("pipedream", known()["pipedream"], gallery.example("pipedream", tmp_path))
    assert "- steady state: 30 ms per microbatch" in streamed  # F + B, once the pipeline is full
    assert "- versions of the weights, by rank: 4, 3, 2, 1" in streamed
    assert "| `vertical_sync` | `false` |" in streamed
    assert "| `ranks` | required | Devices in the pipeline (p). |" in reference.settings()
    assert "| `--set` |" in reference.commands()
    assert "| `bubble_ratio` | 1 | low |" in reference.figures()
    assert ".. autofunction:: simulate" in reference.python()
    assert "## " in reference.published(readme.ROOT / "results" / "reference" / "papers.csv")
