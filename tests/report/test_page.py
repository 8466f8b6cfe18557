"""The report without a browser: links between bars, averages of thin ones, words, the command, the notebook."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ppsim
from ppsim.analysis.compare import Some
from ppsim.cli.app import app
from ppsim.errors import PpsimError
from ppsim.report import _bars, _content
from ppsim.report._bars import Bars, merged, pixel
from ppsim.report._content import Content

ROOT = Path(__file__).parents[2]
COSTS: dict[str, Any] = {
    "per": "stage", "input_grad": "11 ms", "weight_grad": "9 ms", "forward": "10 ms", "activation": "1 GiB",
    "message": "56 MiB", "optimizer": "5 ms",
}  # fmt: skip
SLOW = {"device": "a100-80gb", "inter_node": {"bandwidth": "5 GB/s", "latency": "2 ms"}, "ranks_per_node": 1}
RUNS: dict[str, dict[str, Any]] = {
    "overlapped sends": {},
    "two steps": {"pipeline": {"ranks": 4, "microbatches": 8, "steps": 2}},
    "queues at a port": {"cluster": {**SLOW, "ranks_per_node": 2, "intra_node": "nvlink3", "ranks_per_nic": 2}},
    "blocking sends": {"runtime": {"send": "blocking"}},
    "rendezvous": {"runtime": {"send": "rendezvous"}},
    "fused batches": {"runtime": {"p2p": "fused"}},
    "halves": {"schedule": "zb_h1"},
    "fused pairs": {"schedule": "dualpipe"},
    "recomputed": {"pipeline": {"ranks": 4, "microbatches": 8, "recompute": "full"}},
    "gradient sync": {"pipeline": {"ranks": 4, "microbatches": 8, "data_parallel": 2}},
    "free links": {"cluster": None},
}


def run(**more: Any) -> ppsim.Result:
    base = {"schedule": "1f1b", "pipeline": {"ranks": 4, "microbatches": 8}, "costs": COSTS, "cluster": SLOW}
    return ppsim.simulate(ppsim.Experiment(**{**base, **more}))


@pytest.mark.parametrize("name", RUNS)
def test_the_links_of_every_op_are_those_of_explain(name: str) -> None:
    """Followed as report.js follows them, from any op: the same ops and transfers, to the nanosecond."""
    result = run(**RUNS[name])
    content, plan = Content(result, name), result.plan
    first, before, sent = (column.tolist() for column in content.before)
    n = len(content.ops)
    assert n == len(plan.ops)
    for row in range(n):
        found, link = [], first[row]
        while link >= 0:
            bars, place = (content.ops, link) if link < n else (content.transfers, link - n)
            found.append((int(bars.start[place]), plan.ops.names[place] if link < n else "transfer"))
            link = before[place] if link < n else sent[place]
        chain = ppsim.explain(result, row)
        expected = [(link.start, link.what.split()[0] if link.what[0].isdigit() else "transfer") for link in chain]
        assert found == expected, plan.ops.names[row]


def test_what_is_drawn_where_nothing_is_merged() -> None:
    """All ops, and all idle time: 4 ranks of a makespan each, without what ops take."""
    result = run()
    content = Content(result, "")
    busy = int((content.ops.end - content.ops.start).sum())
    idle = int((content.idle.end - content.idle.start).sum())
    assert busy + idle == 4 * result.timeline.makespan
    assert content.notes == []


def test_thin_bars_are_averaged_by_their_time() -> None:
    """Two bars of 3 and 1 ns within 8 ns of a line: three quarters of the one's colour, half opaque; a wide one stays."""
    colours = np.array([[0, 0, 0, 255], [200, 100, 40, 255], [9, 9, 9, 255], [7, 7, 7, 255]], np.uint8)
    bars = Bars.single(np.array([0, 0, 0, 1]), np.array([0, 7, 10, 5]), np.array([3, 8, 30, 6]), colours)
    found = merged(bars, 10)
    columns = (found.line, found.start, found.end, found.row, found.count)
    assert [column.tolist() for column in columns] == [[0, 0, 1], [10, 0, 5], [30, 8, 6], [2, -1, -1], [1, 2, 1]]
    assert found.colour.tolist() == [[9, 9, 9, 255], [50, 25, 10, 128], [7, 7, 7, 255]]


def test_a_bar_of_no_time_is_in_no_average() -> None:
    nothing = Bars.single(np.array([0]), np.array([5]), np.array([5]), np.zeros((1, 4), np.uint8))
    assert len(merged(nothing, 10)) == 0


@pytest.mark.parametrize(("lines", "bars"), [(4, 1600), (100, 500), (10_000, 100)])
def test_merged_bars_of_a_line(lines: int, bars: int) -> None:
    """A large screen's pixels; of many lines so few that there are about 50,000; at least a hundred."""
    assert pixel(16_000_000, lines) == 16_000_000 // bars


def test_a_run_of_many_ops_says_what_it_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 40 pixels of 13.9 ms only the backwards of 20 ms stay, 8 on each of 4 ranks; 8 F and OPTIM of each are merged.

    Chains go through what is left: that of the last backward leads over backwards alone.
    """
    for name, value in (("PIXELS", 40), ("LEAST", 40)):
        monkeypatch.setattr(_bars, name, value)
    monkeypatch.setattr(_content, "MOST", 20)
    result = run()
    content = Content(result, "")
    single = content.ops.row[content.ops.row >= 0]
    assert [result.plan.ops[row].kind.name for row in single.tolist()] == ["B"] * 32
    assert int(content.ops.count.sum()) == 4 * (8 + 8 + 1)
    assert any(
        note.startswith("36 of 68 ops are shorter than 13.92\N{NO-BREAK SPACE}ms, a 39th") for note in content.notes
    )
    first, before, _ = content.before
    drawn, link = [], int(first[single.tolist().index(result.plan.ops.names.index("0B7"))])
    while link >= 0:
        if link < len(content.ops):
            drawn.append(result.plan.ops.names[content.ops.row[link]])
            link = int(before[link])
        else:
            link = int(content.before[2][link - len(content.ops)])
    chain = [link.what.split()[0] for link in ppsim.explain(result, "0B7")]
    assert drawn == [name for name in chain if "B" in name]


def test_words_of_an_op() -> None:
    """1F0 of 1F1B with free links waits 10 ms for 0F0, which is its input, while the pipeline fills."""
    result = run(cluster=None)
    words = Content(result, "").words()
    row = result.plan.ops.names.index("1F0")
    assert words["name"][row] == "1F0"
    assert words["inputs"][row] == "0F0 from rank 0"
    assert words["why"][row] == "10 ms: fill, for 0F0"


@pytest.mark.slow
def test_two_pages_of_one_run_differ_in_nothing_random() -> None:
    """But Bokeh's counters of models, which go on within a process."""
    from ppsim.report import html

    result = run()
    one, two = (re.sub(r"\bp\d{4,}\b", "p", html(result)) for _ in range(2))
    assert one == two


def test_the_command_writes_one_file(tmp_path: Path) -> None:
    """Of configs, a results folder and a trace; nothing in it is loaded from elsewhere; the YAML stands in it."""
    config = ROOT / "configs" / "quickstart.yaml"
    folder, target = tmp_path / "folder", tmp_path / "deep" / "page.html"
    assert CliRunner().invoke(app, ["run", str(config), "--out", str(folder)]).exit_code == 0
    trace = folder / "tasks.csv"
    done = CliRunner().invoke(app, ["report", str(config), str(folder), str(trace), "-o", str(target)])
    assert done.exit_code == 0, done.output
    page = target.read_text(encoding="utf-8")
    markup = re.sub(r"(<script[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)
    assert re.findall(r"<[^>]*(?:src|href)=", markup) == []
    assert page.count('<pre class="yaml">name: quickstart') == 2
    assert "quickstart: 1f1b (2)" in page
    assert "tasks.csv, measured" in page


def test_a_config_is_not_overwritten(tmp_path: Path) -> None:
    config = tmp_path / "x.yaml"
    config.write_bytes((ROOT / "configs" / "quickstart.yaml").read_bytes())
    done = CliRunner().invoke(app, ["report", str(config), "-o", str(config)])
    assert isinstance(done.exception, PpsimError)
    assert "is a file that is read" in str(done.exception)


def test_a_notebook_shows_the_page() -> None:
    """In a frame of its own, escaped, so that it can't touch the notebook."""
    shown = ppsim.view(run())._repr_html_()
    assert shown.startswith("<iframe ")
    assert shown.count("<") == 2  # the frame's tags; the page itself is an attribute's text
    assert 'sandbox="allow-scripts"' in shown


def test_no_result_is_an_error() -> None:
    wrong: Any = "x.yaml"
    for results in ((), (wrong,)):
        with pytest.raises(PpsimError, match="compare"):
            ppsim.view(*results)


def test_our_javascript_stays_small() -> None:
    """One file, at most a hundred lines."""
    files = sorted(path.name for path in (ROOT / "ppsim").rglob("*.js"))
    assert files == ["report.js"]
    assert len((ROOT / "ppsim" / "report" / "report.js").read_text(encoding="utf-8").splitlines()) <= 100


def test_memory_curves_keep_their_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many moments to draw, every rank's highest and last value stays."""
    monkeypatch.setattr(_content, "MOST_MOMENTS", 40)
    result: Some = run()
    peaks = [row["peak_memory_bytes"] for row in result.summary["per_rank"]]
    curves = Content(result, "").curves
    assert [int(held.max()) for _, _, held in curves] == peaks
    assert all(a < b for _, time, _ in curves for a, b in pairwise(time[:-1].tolist()))
