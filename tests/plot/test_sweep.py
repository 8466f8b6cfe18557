"""The pictures of a sweep: what is drawn where, and which pictures suit which sweep."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ppsim
from ppsim.plot import save
from ppsim.plot import sweep as pictures
from ppsim.plot.sweep_axes import scale
from ppsim.sweeps.cases import listing
from ppsim.sweeps.columns import parameters
from ppsim.sweeps.db import SweepFile
from ppsim.sweeps.export import read_sweep
from ppsim.sweeps.work import run_batch
from tests.marks import rest_slow
from tests.sweeps.sweeping import BASE, base_of, sweep_of, written

GRID = """cluster: {device: {memory: 24 GiB}}
sweep:
  grid:
    schedule: [gpipe, 1f1b, {name: interleaved_1f1b, virtual_stages: 2}, {name: interleaved_1f1b, virtual_stages: 4}]
    pipeline.ranks: [2, 4]
    pipeline.microbatches: {first: 4, last: 64, times: 2}
"""


def swept(folder: Path, text: str) -> Path:
    """The file of a sweep, run here."""
    path = written(folder, text)
    base, sweep = base_of(path), sweep_of(path)
    with SweepFile(folder / "sweep.sqlite", create=True) as file:
        file.list_cases({"name": "x"}, parameters(sweep), listing(base, sweep))
        file.save(run_batch(base, file.pending()))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return swept(tmp_path_factory.mktemp("swept"), BASE.replace("8 GiB", "0 B") + GRID)


@pytest.fixture(scope="module")
def table(folder: Path) -> pd.DataFrame:
    return read_sweep(folder)


def test_which_pictures(table: pd.DataFrame, tmp_path: Path) -> None:
    assert pictures.kinds(table) == ["bubble", "heatmap", "schedules", "pareto"]
    for grid, kinds in (
        ("pipeline.microbatches: [4, 8]", ["bubble", "pareto"]),
        ("schedule: [gpipe, 1f1b]", ["schedules", "pareto"]),
        ("costs.forward: [1 ms, 2 ms]", ["pareto"]),
    ):
        own = tmp_path / grid[:4]
        own.mkdir()
        assert pictures.kinds(read_sweep(swept(own, f"{BASE}sweep: {{grid: {{{grid}}}}}\n"))) == kinds


def test_the_bubble_lies_on_its_closed_form_and_under_five_per_cent_where_that_says_so(table: pd.DataFrame) -> None:
    """A panel per schedule, a colour per p. 1F1B: 100 (p-1)/(m+p-1) per cent, under 5 from m > 19 (p-1) on."""
    figure = pictures.draw(table, "bubble")
    titles = [axes.get_title("left") or axes.get_title() for axes in figure.axes]
    assert titles == ["1f1b", "gpipe", "interleaved_1f1b, v = 2", "interleaved_1f1b, v = 4"]
    axes = figure.axes[0]
    points = [line for line in axes.lines if line.get_marker() != "None"]
    forms = [line for line in axes.lines if line.get_marker() == "None" and len(line.get_xdata()) > 2]
    for p, cases, form in zip((2, 4), points, forms, strict=True):
        m = np.array([4, 8, 16, 32, 64])
        for line in (cases, form):
            assert line.get_xdata().tolist() == m.tolist()
            assert np.allclose(line.get_ydata(), 100 * (p - 1) / (m + p - 1))
        assert (cases.get_ydata() < 5).tolist() == (m > 19 * (p - 1)).tolist()
    assert any(line.get_ydata()[0] == line.get_ydata()[-1] == 5 for line in axes.lines)  # the line at 5 %
    assert axes.get_xscale() == "log"


def test_what_does_not_fit_is_hollow(table: pd.DataFrame) -> None:
    """GPipe on 2 ranks holds m · 8 GiB of activations: 4 microbatches are too many for 24 GiB already; 1F1B holds 2."""
    axes = {axes.get_title("left") or axes.get_title(): axes for axes in pictures.draw(table, "bubble").axes}

    def hollow(name: str) -> int:
        return sum(len(line.get_xdata()) for line in axes[name].lines if line.get_markerfacecolor() == "none")

    unfit = table[table["fits"] == False].groupby("schedule").size()  # noqa: E712
    assert hollow("gpipe") == unfit["gpipe"] > 5
    assert hollow("1f1b") == 0


def test_the_heat_map_shows_each_case_in_its_cell(table: pd.DataFrame) -> None:
    figure = pictures.draw(table, "heatmap")
    axes, lowest = figure.axes[0], figure.axes[2]
    cells = np.asarray(axes.images[0].get_array())
    assert cells.shape == (2, 5)
    assert np.allclose(cells, [[100 * (p - 1) / (m + p - 1) for m in (4, 8, 16, 32, 64)] for p in (2, 4)])
    assert [text.get_text() for text in lowest.get_xticklabels()] == ["4", "8", "16", "32", "64"]
    assert [text.get_text() for text in lowest.get_yticklabels()] == ["2", "4"]
    assert "20" in {text.get_text() for text in axes.texts}  # p = 2, m = 4: 1/5


def test_the_front_is_what_nobody_beats_in_both(table: pd.DataFrame) -> None:
    """Found again the slow way: of what fits, those that no other case equals or beats in one and beats in the other."""
    axes = pictures.draw(table, "pareto").axes[0]
    front = next(line for line in axes.lines if line.get_label() == "none beats these in both")
    fits = table[table["fits"] == True]  # noqa: E712
    points = sorted(set(zip(fits["peak_memory_bytes"].tolist(), fits["bubble_ratio"].tolist(), strict=True)))
    best = [(m, b) for m, b in points if not any((n <= m and c <= b) and (n, c) != (m, b) for n, c in points)]
    form = scale(fits, "peak_memory_bytes", wide=True)
    assert np.allclose(front.get_xydata(), [(m / form.of, 100 * b) for m, b in best])
    assert "Pareto" in axes.figure._suptitle.get_text() or len(best) > 1


def test_points_of_the_front_are_labelled_and_ticks_stand_where_points_are(table: pd.DataFrame) -> None:
    axes = pictures.draw(table, "pareto").axes[0]
    front = next(line for line in axes.lines if line.get_label() == "none beats these in both").get_xydata()
    fits = table[table["fits"] == True]  # noqa: E712
    cases = {
        (memory, bubble): f"p = {p}, m = {m}"
        for memory, bubble, p, m in zip(
            fits["peak_memory_bytes"] / 2**30,
            100 * fits["bubble_ratio"],
            fits["ranks"],
            fits["microbatches"],
            strict=True,
        )
    }
    written_ = {(round(text.xy[0], 6), round(text.xy[1], 6)): text.get_text() for text in axes.texts}
    assert written_
    for place, text in written_.items():  # each stands at a case of the front, and says which
        assert place in {(round(x, 6), round(y, 6)) for x, y in front}
        assert text in {words for at, words in cases.items() if np.allclose(at, place, atol=1e-5)}
    points = np.concatenate([line.get_xydata() for line in axes.lines if line.get_marker() != "None"])
    for ticks, values in ((axes.get_xticks(), points[:, 0]), (axes.get_yticks(), points[:, 1])):
        assert len(ticks) >= 2
        assert all(np.isclose(values, tick).any() for tick in ticks)


def test_the_devices_memory_is_a_line_in_the_pareto_picture(table: pd.DataFrame) -> None:
    axes = pictures.draw(table, "pareto").axes[0]
    (line,) = [line for line in axes.lines if line.get_gid() == "device-memory"]
    assert set(line.get_xdata()) == {24}
    assert "device memory 24 GiB" in _legend_of(axes)


def _legend_of(axes: Any) -> list[str]:
    return [text.get_text().replace("\u00a0", " ") for legend in axes.figure.legends for text in legend.get_texts()]


def test_microbatches_are_on_a_log_scale_and_missing_closed_forms_are_said(tmp_path: Path) -> None:
    text = BASE + "sweep:\n  grid: {schedule: [1f1b, zb], pipeline.microbatches: [8, 12, 20]}\n"
    axes = pictures.draw(read_sweep(swept(tmp_path, text)), "bubble").axes[0]
    assert axes.get_xscale() == "log"  # though 20 isn't far from 8
    axes.figure.draw_without_rendering()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["8", "12", "20"]
    assert "no closed form: zb" in _legend_of(axes)  # what an automatic schedule finds has none


def test_axes_are_chosen_by_name(table: pd.DataFrame) -> None:
    figure = pictures.draw(table, "chart", x="ranks", y="peak_memory_bytes", hue="microbatches", facet="schedule")
    assert figure.axes[0].get_xlabel() == "ranks p"
    assert figure.axes[0].get_ylabel() == "peak memory [GiB]"
    assert len(figure.axes) == 4
    assert [text.get_text() for text in figure.legends[0].get_texts()][:3] == ["m = 4", "m = 8", "m = 16"]


@pytest.mark.parametrize(
    ("kind", "axes", "words"),
    [
        ("chart", {"x": "micro"}, "--x: there is no column 'micro'"),
        ("chart", {"y": "bubble_rati"}, "did you mean 'bubble_ratio'?"),
        ("pareto", {"x": "ranks"}, "--x: pareto has no such axis; it has --y"),
        ("bubbles", {}, "--kind: a sweep has no picture 'bubbles'; did you mean 'bubble'?"),
        ("chart", {"hue": "step_time_s"}, "at most 12"),
    ],
)
def test_what_cant_be_drawn(kind: str, axes: dict[str, str], words: str, table: pd.DataFrame) -> None:
    with pytest.raises(ppsim.PpsimError) as error:
        pictures.draw(table, kind, **axes)
    assert words in str(error.value)


def test_nothing_finished(tmp_path: Path) -> None:
    with SweepFile(tmp_path / "sweep.sqlite", create=True) as file:
        file.list_cases({"name": "x"}, [], [])
    with pytest.raises(ppsim.PpsimError, match="no finished case"):
        pictures.kinds(read_sweep(tmp_path))


@pytest.mark.parametrize("kind", ["bubble", "heatmap", "schedules", "pareto"])
@pytest.mark.parametrize("size", rest_slow(["notebook", "paper"]))
def test_the_same_picture_twice_is_the_same_file(kind: str, size: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        save(pictures.draw(table, kind, size), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_text_of_users_is_plain(tmp_path: Path) -> None:
    """Mathematics in a name is drawn as it is written; half of a formula would otherwise be an error."""
    name = "$x_{$"
    with SweepFile(tmp_path / "sweep.sqlite", create=True) as file:
        from ppsim.sweeps.cases import Case
        from ppsim.sweeps.columns import Column
        from ppsim.sweeps.db import Row

        columns = [Column("costs.kind", "parameter", "str")]
        cases = [Case(str(i), i, {}, {"costs": {"kind": f"{name}{i}"}}, None) for i in range(2)]
        file.list_cases({"name": name}, columns, cases)
        figures = {
            "schedule": "1f1b", "ranks": 2, "microbatches": 4, "virtual_stages": 1, "bubble_ratio": 0.2, "work_s": 1.0,
            "peak_memory_bytes": 2**30, "step_time_s": 1.0,
        }  # fmt: skip
        file.save([Row(str(i), 0.1, figures) for i in range(2)])
    figure = pictures.draw(read_sweep(tmp_path), "chart", x="kind", y="bubble_ratio")
    save(figure, tmp_path / "x.png")
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["$x_{$0", "$x_{$1"]


@pytest.mark.slow
def test_on_the_command_line(folder: Path, tmp_path: Path) -> None:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ppsim.cli", "plot", str(folder), *arguments], cwd=tmp_path, capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    assert call().stdout.split() == ["x-bubble.png", "x-heatmap.png", "x-schedules.png", "x-pareto.png"]
    assert call("--kind", "heatmap", "-o", "map.svg").stdout.split() == ["map.svg"]
    assert call("--x", "ranks", "--format", "pdf").stdout.split() == ["x-chart.pdf"]
    wrong = call("--x", "rank")
    assert (wrong.returncode, "--x: there is no column 'rank'; did you mean" in wrong.stderr) == (2, True)
    run = subprocess.run(
        [sys.executable, "-m", "ppsim.cli", "plot", str(folder / "x.yaml"), "--hue", "ranks"], cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (run.returncode, "--hue: for the folder of a sweep" in run.stderr) == (2, True)


def test_settings_have_their_units_and_what_a_picture_does_not_tell_is_said(tmp_path: Path) -> None:
    """Two bandwidths in each place: the labels name them as people write them, the other pictures say that they vary."""
    varied = "pipeline.ranks: [2, 4], pipeline.microbatches: [4, 8], cluster.inter_node.bandwidth: [1 GB/s, 20 GB/s]"
    text = BASE + f"cluster: {{ranks_per_node: 1, inter_node: {{bandwidth: 1 GB/s}}}}\nsweep: {{grid: {{{varied}}}}}\n"
    table = read_sweep(swept(tmp_path, text.replace("forward:", "message: 10 MB, forward:")))
    texts = [text.get_text() for text in pictures.draw(table, "pareto").axes[0].texts]
    assert any("bandwidth = 20 GB/s" in text for text in texts), texts
    panels = [axes.get_title("left") for axes in pictures.draw(table, "bubble").axes]
    assert panels == ["bandwidth = 1 GB/s", "bandwidth = 20 GB/s"]
    assert "varies, too" not in pictures.draw(table, "bubble").get_suptitle()
    assert "; bandwidth varies, too: the least shows" in pictures.draw(table, "heatmap").get_suptitle()
