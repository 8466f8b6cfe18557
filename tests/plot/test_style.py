"""One style: files that are the same every time, text as it was written, colours that everybody tells apart."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest

import ppsim
from ppsim import plot
from ppsim.ops import Kind
from ppsim.plot import looks, style
from ppsim.schedules.one_f_one_b import OneFOneB
from tests.plot.runs import HALVES, SLOW, outside, overlaps, run, title

DRAW = """
import sys
from ppsim import plot
from tests.plot.runs import SLOW, run
result = run("1f1b", 4, 8, cluster=SLOW, pipeline={"recompute": "full"})
for kind in ("png", "svg", "pdf"):
    plot.save(plot.gantt(result), f"{sys.argv[1]}/gantt.{kind}")
    plot.save(plot.memory(result), f"{sys.argv[1]}/memory.{kind}")
"""


def draw(folder: Path, seed: str) -> dict[str, bytes]:
    folder.mkdir()
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    environment.pop("SOURCE_DATE_EPOCH", None)
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", DRAW, str(folder)], cwd=root, env=environment, check=True)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_two_runs_write_the_same_bytes_and_no_date(tmp_path):
    first, second = draw(tmp_path / "a", "1"), draw(tmp_path / "b", "2")
    assert len(first) == 6
    assert first == second
    for name, content in first.items():
        assert b"atplotlib v" not in content and b"Date" not in content, name
    assert first["gantt.png"].startswith(b"\x89PNG")
    assert b"<svg" in first["gantt.svg"]
    assert first["gantt.pdf"].startswith(b"%PDF")


def test_the_users_settings_change_nothing_and_are_not_changed(tmp_path):
    result = run("1f1b", 4, 8)
    plot.save(plot.gantt(result), tmp_path / "plain.png")
    with mpl.rc_context({"font.size": 40, "text.usetex": True, "axes.facecolor": "pink", "hatch.linewidth": 9}):
        before = dict(mpl.rcParams)
        plot.save(plot.gantt(result), tmp_path / "own.png")
        assert dict(mpl.rcParams) == before
    assert (tmp_path / "plain.png").read_bytes() == (tmp_path / "own.png").read_bytes()


@pytest.mark.slow
def test_matplotlib_is_imported_only_when_something_is_drawn_and_pyplot_never():
    code = """
import sys, ppsim.plot
assert "matplotlib" not in sys.modules
from tests.plot.runs import run
ppsim.plot.gantt(run("1f1b", 2, 2))
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)


def test_the_style_is_a_matplotlib_style_of_its_own():
    with mpl.style.context("ppsim.plot.ppsim"):
        assert mpl.rcParams["svg.hashsalt"] == "ppsim"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.gif", "{}: a figure can't be written as '.gif' files; use png, svg, pdf"),
        ("x", "{}: a figure can't be written as a file without an ending; use png, svg, pdf"),
        ("nowhere/x.png", "{}: the figure can't be written: No such file or directory"),
    ],
)
def test_files_that_cannot_be_written(tmp_path, name, message):
    path = tmp_path / name
    with pytest.raises(ppsim.PpsimError, match=f"^{re.escape(message.format(path))}$"):
        plot.save(plot.gantt(run("1f1b", 2, 2)), path)


def test_format_goes_before_the_ending(tmp_path):
    plot.save(plot.gantt(run("1f1b", 2, 2)).figure, tmp_path / "x.out", format="svg")
    assert b"<svg" in (tmp_path / "x.out").read_bytes()


HOSTILE = "x_{$ \\frac{ %s {} \x1b[31mred\n\t\u4e2d\u202e\ud800 <b>&amp;</b>"


class Named(OneFOneB):
    """1F1B by another name."""

    text: str

    @property
    def label(self) -> str:
        return self.text


def test_text_of_the_user_is_shown_as_it_was_written(tmp_path):
    result = run(Named.model_construct(text=HOSTILE), 2, 2)
    for axes in (plot.gantt(result), plot.memory(result)):
        for kind in ("png", "svg", "pdf"):
            plot.save(axes, tmp_path / f"x.{kind}")
        ElementTree.parse(tmp_path / "x.svg")  # whole XML: none of the text became markup
    shown = "x_{$ \\frac{ %s {} \\x1b[31mred\\n\\t\\u4e2d\\u202e\\ud800 <b>&amp;</b>"
    assert title(plot.gantt(result)).startswith(f"{shown} with p=2, m=2")


def test_a_name_without_end_stays_in_the_figure():
    result = run(Named(text="$" * 3000), 2, 2)
    figure = plot.gantt(result).figure
    assert outside(figure) == overlaps(figure) == []
    assert title(figure.axes[0]).endswith("…")


def test_text_is_as_wide_as_it_is_drawn():
    figure = plot.gantt(run("1f1b", 2, 2)).figure
    for text in ("0", "127", "4F10", "idle, upstream (input not computed) 13.6 %"):
        drawn = figure.text(0.5, 0.5, text, fontsize=20, family="DejaVu Sans")
        width = drawn.get_window_extent().width / figure.dpi * style.INCH
        assert style.text_width(text, 20) == pytest.approx(width, abs=0.2 * 20)  # but for the letters' side bearings


def test_wrapping():
    assert style.wrapped("one two three", style.text_width("one two", 9), 9) == "one two\nthree"
    assert style.wrapped("abcdef", style.text_width("abc", 9), 9) == "abc\ndef"
    assert style.wrapped("a b c d e", style.text_width("a b", 9), 9, most_lines=2) == "a b\nc…"


# Machado, Oliveira, Fernandes 2009, "A physiologically-based model for simulation of color vision deficiency", table 1,
# severity 1.0, on linear RGB.
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
PROTANOPIA = np.array(
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
)


def linear(colour: str) -> np.ndarray:
    c = np.array(looks.rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* (D65) of linear sRGB. Source: IEC 61966-2-1 and CIE 1976."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.clip(to_xyz @ rgb / np.array([0.9505, 1.0, 1.089]), 0.008857, None))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("seen", [np.eye(3), DEUTERANOPIA, PROTANOPIA], ids=["normal", "deuteranopia", "protanopia"])
@pytest.mark.parametrize("palette", [looks.KINDS, looks.CATEGORIES], ids=["kinds", "categories"])
def test_colours_differ_for_a_colour_blind_reader(palette, seen):
    # A difference of 2.3 is just noticeable; of 10 can't be missed, also between small areas. A hatch tells, too.
    for one, other in combinations(palette.values(), 2):
        distance = np.linalg.norm(lab(seen @ linear(one.colour)) - lab(seen @ linear(other.colour)))
        assert distance > 10 or one.hatch != other.hatch, (one, other)


@pytest.mark.parametrize("palette", [looks.KINDS, looks.CATEGORIES], ids=["kinds", "categories"])
def test_colours_differ_in_grey(palette):
    for one, other in combinations(palette.values(), 2):
        steps = abs(lab(linear(one.colour))[0] - lab(linear(other.colour))[0])
        assert steps > 8 or one.hatch != other.hatch, (one, other)


def test_causes_differ_by_hatch_or_lightness_and_are_paler_than_any_op():
    for one, other in combinations(looks.CAUSES.values(), 2):
        if "unknown" not in (one.words + other.words):  # which never stands beside another cause
            assert one.hatch != other.hatch or abs(lab(linear(one.colour))[0] - lab(linear(other.colour))[0]) > 5
    palest = max(lab(linear(look.colour))[0] for look in looks.KINDS.values())
    assert all(lab(linear(look.colour))[0] > palest for look in looks.CAUSES.values())


def test_a_ranks_stages_are_shades_that_stay_apart_from_other_kinds():
    shades = {
        (kind, chunk): looks.of_chunk(look.colour, chunk, 2) for kind, look in looks.KINDS.items() for chunk in (0, 1)
    }
    for (one, a), (other, b) in combinations(shades.items(), 2):
        if one[0] != other[0] and looks.KINDS[one[0]].hatch == looks.KINDS[other[0]].hatch:
            first, second = (linear(looks.hexed(colour)) for colour in (a, b))
            assert np.linalg.norm(lab(DEUTERANOPIA @ first) - lab(DEUTERANOPIA @ second)) > 10
    assert looks.of_chunk("#5aa5dc", 0, 1) == looks.rgb("#5aa5dc")


def test_labels_have_contrast():
    # WCAG 2.1 asks 4.5 of text.
    for look in looks.KINDS.values():
        for chunk in (0, 1):
            fill = looks.of_chunk(look.colour, chunk, 2)
            assert looks.contrast(looks.rgb(looks.ink(fill)), fill) >= 4.5
    assert looks.contrast((0, 0, 0), (1, 1, 1)) == pytest.approx(21)


def test_every_kind_that_keeps_a_rank_busy_has_a_look():
    from ppsim.engine.timeline import SENDS_AND_MOVES

    assert set(looks.KINDS) == set(Kind) - set(SENDS_AND_MOVES)


def test_figures_of_each_size():
    result = run("1f1b", 4, 8, HALVES, cluster=SLOW)
    for name, width in (("notebook", 10.0), ("slide", 12.8), ("paper", 3.4)):
        figure = plot.gantt(result, size=name).figure
        assert figure.get_size_inches()[0] == width
        assert figure.get_size_inches()[1] <= 7.2 or name != "slide"  # 16:9
