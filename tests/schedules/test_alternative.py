"""What a warned-of setting costs is simulated, not guessed, where `run` and `check` ask for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ppsim.analysis import alternatives
from ppsim.cli.app import app
from tests.simulated import experiment, simulate


@pytest.mark.parametrize(
    ("m", "group", "told"),
    [
        # D08 of the public questions: m(f+b) + (p-1)(f+b)/v = 27 + 4.5 with group 5; groups 4+4+1 take 37.
        (9, 4, ["group 5 gives 31.5 ms instead of 37 ms"]),
        (10, 4, ["group 5 gives 34.5 ms instead of 39.5 ms"]),
        (10, 5, []),
        (12, 4, []),
    ],
)
def test_ragged_group(m: int, group: int, told: list[str]) -> None:
    result = simulate({"name": "interleaved_1f1b", "group": group}, 4, m, costs={"per": "rank"})
    found = alternatives.with_alternative(result).notices
    assert [notice.message for notice in found if notice.code == "alternative"] == told


def test_groups_smaller_than_the_pipeline() -> None:
    """Groups of 3 on 4 ranks run, and wait inside each; whole groups of 4 take m(f+b) + (p-1)(f+b)/v = 36 + 4.5."""
    result = simulate({"name": "interleaved_1f1b", "group": 3}, 4, 12, costs={"per": "rank"})
    told = alternatives.alternative(result.experiment)
    assert told is not None
    assert told.message.startswith("group 4 gives 40.5 ms instead of ")
    assert result.summary["makespan_s"] > 0.0405


RAGGED = """\
schedule: {name: interleaved_1f1b, group: 4}
pipeline: {ranks: 4, microbatches: 9}
costs: {forward: 1 ms, backward: 2 ms}
"""


def test_it_is_run_and_check_that_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hot path, which sweeps take, simulates once."""
    config = tmp_path / "x.yaml"
    config.write_text(RAGGED)
    monkeypatch.chdir(tmp_path)
    app(["run", "x.yaml", "--json"], standalone_mode=False)
    codes = [warning["code"] for warning in json.loads(capsys.readouterr().out)["warnings"]]
    assert codes == ["ragged_group", "alternative"]
    app(["check", "x.yaml"], standalone_mode=False)
    assert "# warning: schedule: group 5 gives 31.5 ms instead of 37 ms\n" in capsys.readouterr().out
    plain = simulate({"name": "interleaved_1f1b", "group": 4}, 4, 9)
    assert [notice.code for notice in plain.notices] == ["ragged_group"]


UNEQUAL = {"forward": [f"{t} ms" for t in (2, 3, 3, 1)], "backward": [f"{t} ms" for t in (4, 4, 4, 3)]}
"""Stages of 6, 7, 7, 4 ms."""


def test_closed_forms_are_told_of_equal_stages_alone() -> None:
    """(p-1)/(m+p-1) of 19, 11 and 9 slots; for unequal stages the run itself with m = 32."""
    told = alternatives.what_if(simulate("1f1b", 4, 8))
    assert told == "bubble_ratio by closed form, links being free, with m = 16: 15.8 %, v = 2: 15.8 %, p = 2: 11.1 %"
    unequal = alternatives.what_if(simulate("1f1b", 4, 16, costs=UNEQUAL))
    doubled = simulate("1f1b", 4, 32, costs=UNEQUAL)
    # The middle ranks are busy for 32 · 7 ms; all else of the makespan is idle: (4 · makespan - 32 · 24) / (4 · makespan)
    makespan = doubled.timeline.makespan / 1e6
    assert unequal == f"bubble_ratio simulated with m = 32: {100 * (1 - 32 * 24 / (4 * makespan)):.1f} %"


@pytest.mark.parametrize(
    "sections",
    [
        {"pipeline": {"microbatch_weights": [1, 2] * 4}},
        {"pipeline": {"recompute": "full"}},
        {
            "pipeline": {"global_batch": 16, "micro_batch_size": 1, "data_parallel": 2},
            "cluster": {"speed": [1, 1, 1, 0.5]},
        },
    ],
)
def test_what_no_closed_form_assumes_is_simulated(sections: dict[str, object]) -> None:
    told = alternatives.what_if(simulate("1f1b", 4, 8, **sections))
    assert told is not None and told.startswith("bubble_ratio simulated with m = 16: ")


def test_what_cant_be_told_isnt(tmp_path: Path) -> None:
    """A schedule without a closed form; an order for 8 microbatches and no others; more ops than a hint is worth."""
    assert alternatives.what_if(simulate("zb", 4, 8)) is None
    order = tmp_path / "order.csv"
    order.write_text("0F0,0B0\n1F0,1B0\n")
    written = simulate({"name": "file", "path": order}, 2, 1, costs={"forward": ["1 ms", "2 ms"]})
    assert alternatives.what_if(written) is None
    many = experiment({"name": "interleaved_1f1b", "group": 65}, 64, 10_000)
    assert alternatives.alternative(many) is None
