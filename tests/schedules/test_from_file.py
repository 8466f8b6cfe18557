"""A schedule from an order file: what it runs, what it infers, and what is said of a file that isn't one."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ppsim
from ppsim import store
from ppsim.analysis.limit import lines
from ppsim.cli.app import app
from ppsim.config import resolved
from ppsim.ops import orderfile as dialects
from ppsim.schedules.from_file import MAX_BYTES
from tests.goldens import FOLDER, Case, cases
from tests.simulated import experiment, simulate

ONE_STEP = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
CONFIG = """\
schedule:
  name: file
  path: orders/mine.csv
pipeline: {ranks: 2, microbatches: 2}
costs: {per: stage, forward: 1 ms, backward: 2 ms}
"""

Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A config whose order file has the given content."""

    def write(content: str | bytes) -> Path:
        (tmp_path / "orders").mkdir(exist_ok=True)
        order = tmp_path / "orders" / "mine.csv"
        order.write_bytes(content if isinstance(content, bytes) else content.encode())
        config = tmp_path / "x.yaml"
        config.write_text(CONFIG, encoding="utf-8")
        return config

    return write


def complaint(config: Path, **overrides: Any) -> list[str]:
    """The lines of the error, without the folder of the config."""
    with pytest.raises(ppsim.PpsimError) as caught:
        ppsim.simulate(ppsim.load(config, {key.replace("__", "."): value for key, value in overrides.items()}))
    return [line.replace(f"{config.parent}{os.sep}", "") for line in str(caught.value).splitlines()]


@pytest.mark.parametrize("case", cases(), ids=str)
def test_any_golden_file_runs_as_it_stands(case: Case) -> None:
    """Every order that a framework runs, by its file: makespan and peaks of the index."""
    costs = {"input_grad": "1 ms", "weight_grad": "1 ms", "recompute": "1 ms", "stage_input": "1 B"}
    result = simulate({"name": "file", "path": str(case.path)}, case.ranks, case.microbatches, costs=costs)
    assert dialects.write(result.orders) == case.orders_text()
    assert result.timeline.makespan == case.makespan * 10**6
    assert tuple(row["peak_in_flight"] for row in result.per_rank()) == case.peak_until_b_or_i


def test_path_is_relative_to_the_config_not_to_where_one_stands(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write(ONE_STEP)
    monkeypatch.chdir(FOLDER)
    result = ppsim.simulate(ppsim.load(config))
    assert result.timeline.makespan == 9 * 10**6  # 1F1B: (m+p-1) · 3


@pytest.mark.slow
def test_run_keeps_a_copy_and_its_sha256(write: Write) -> None:
    config = write(ONE_STEP)
    command = [sys.executable, "-m", "ppsim.cli", "run", str(config), "--out", "out"]
    done = subprocess.run(command, cwd=config.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    copy = config.parent / "out" / "mine.csv"
    assert copy.read_text(encoding="utf-8") == ONE_STEP
    digest = hashlib.sha256(ONE_STEP.encode()).hexdigest()
    kept = config.parent / "out" / "config.yaml"
    assert f"path: mine.csv\n  alphabet: auto\n  sha256: {digest}" in kept.read_text(encoding="utf-8")
    # The resolved config runs again, from the copy; a changed copy is noticed.
    first, again = ppsim.load(config), ppsim.load(kept)
    assert resolved.config_id(again) == resolved.config_id(first)
    assert ppsim.simulate(again).timeline.makespan == 9 * 10**6
    copy.write_text(ONE_STEP.replace("1F1,1B1", "1F1,,1B1"), encoding="utf-8")
    (line,) = complaint(kept)
    assert "schedule.sha256: mine.csv has changed: its content's sha256 is " in line


@pytest.mark.parametrize(
    ("rows", "name", "stages_of"),
    [
        (["0F0,2F0,2B0,0B0", "1F0,3F0,3B0,1B0"], "loop", ((0, 2), (1, 3))),
        (["0F0,3F0,3B0,0B0", "1F0,2F0,2B0,1B0"], "v", ((0, 3), (1, 2))),
        (["0F0,1F1,1B1,0B0", "1F0,0F1,0B1,1B0"], "bidirectional", ((0, 1), (1, 0))),
        (["0F0,1F0,1B0,0B0", "2F0,2B0"], "inferred", ((0, 1), (2,))),
    ],
)
def test_placement_is_what_the_ranks_run(
    write: Write, rows: list[str], name: str, stages_of: tuple[tuple[int, ...], ...]
) -> None:
    config = write("\n".join(rows))
    m = 2 if "F1" in "".join(rows) else 1
    loaded = ppsim.load(config, {"pipeline.microbatches": m})
    assert (loaded.placement.name, loaded.placement.stages_of) == (name, stages_of)
    # Bidirectional ranks hold what others hold, too: each copy's weights count.
    result = ppsim.simulate(ppsim.load(config, {"pipeline.microbatches": m, "costs.weights": "1 GB"}))
    weights = [row["peak_by_category"]["weights"] for row in result.per_rank()]
    assert weights == [len(held) * 10**9 for held in stages_of]


@pytest.mark.parametrize("name", [".ppsim", ".lock", "summary.json", "two\nlines.csv"])
def test_the_kept_copy_is_no_file_of_the_run(write: Write, tmp_path: Path, name: str) -> None:
    """Whatever an order file is called, a run's folder runs again and is replaced by the next run."""
    (tmp_path / name).write_text(ONE_STEP, encoding="utf-8")
    config = write(ONE_STEP)
    result = ppsim.simulate(ppsim.load(config, {"schedule.path": str(tmp_path / name)}))
    for _ in range(2):
        store.write(result, tmp_path / "out", pictures=False)
    again = ppsim.load(tmp_path / "out" / "config.yaml")
    assert ppsim.simulate(again).timeline.makespan == result.timeline.makespan


def test_a_stage_on_two_ranks_is_an_error(write: Write) -> None:
    """Nobody would sum the gradients of its copies; only where two directions cross is it meant."""
    with pytest.raises(ppsim.ConfigError, match=r"row 2 \(rank 1\): stage 0 is on rank 0, too; only a bidirectional"):
        ppsim.load(write("0F0,0B0\n0F1,0B1\n"))


def test_order_with_communication_and_moves(write: Write) -> None:
    """SEND, RECV, recomputation, an eviction to the neighbour and back: F 1, R 1, B 2 ms; 1F, 1R, 1B, then 0R, 0B."""
    config = write("0F0,0SEND_F0,0EVICT0>1,0LOAD0<1,0RECV_B0,0R0,0B0\n1RECV_F0,1F0,1R0,1B0,1SEND_B0\n")
    result = ppsim.simulate(ppsim.load(config, {"pipeline.microbatches": 1}))
    assert result.timeline.makespan == 8 * 10**6


def test_forwards_alone_hold_no_gradients(write: Write) -> None:
    config = write("0F0,0F1\n1F0,1F1\n")
    result = ppsim.simulate(ppsim.load(config, {"costs.weights": "1 GB"}))
    assert result.per_rank()[0]["peak_by_category"]["gradients"] == 0


def test_older_alphabet_is_found_or_named(write: Write) -> None:
    """B is the input half beside BW; without W and BW only a named alphabet can tell."""
    config = write("0F0,0B0,0W0\n1F0,1B0,1W0\n")
    tables = ppsim.simulate(ppsim.load(config, {"pipeline.microbatches": 1})).orders
    assert [table.cells() for table in tables] == [["0F0", "0I0", "0W0"], ["1F0", "1I0", "1W0"]]
    (line,) = complaint(config, pipeline__microbatches=1, schedule__alphabet="torch-new")
    assert "'torch-new' is not one of auto, torch, torch-old; did you mean" in line


def test_other_sizes_than_the_pipelines_name_both(write: Write) -> None:
    lines = complaint(write(ONE_STEP), pipeline__ranks=3, pipeline__microbatches=4)
    assert [line.split(": ", 2)[2] for line in lines] == [
        "3 ranks, but mine.csv has 2 rows, and a row is a rank; use 2",
        "4 microbatches, but mine.csv has 2, 0 to 1; use 2",
    ]


PLACE = "x.yaml:3:3: schedule.path: "


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("0F0,3X1\n1F0,0F0junk\n", [
            f"{PLACE}mine.csv:row 1, column 2: '3X1' is not an op; an op reads stage, kind, microbatch, as in '2F0'",
            f"{PLACE}mine.csv:row 2, column 2: '0F0junk' is not an op; an op reads stage, kind, microbatch, as in "
            "'2F0'; did you mean '0F0'?",
        ]),
        ("0F0,0B0\n\n1F0,1B0\n", [f"{PLACE}mine.csv:row 2, column 1: no op; a row is a rank and lists its ops"]),
        ("", [f"{PLACE}mine.csv: no ops; an order file has a row per rank, a cell per op, as '0F0,0B0'"]),
        (b"0F0,\xff\n", [f"{PLACE}orders/mine.csv:1:5: not UTF-8 text (byte 0xff)"]),
        ("0F0,0F1,0B0,0B1\n2F0,2B0,2F1,2B1\n", [f"{PLACE}mine.csv: stage 1 is on no rank, and the last stage is 2"]),
        ("0F0,0F1,0B0,0B1\n2147483647F0,1B0,2147483647F1,1B1\n",
         [f"{PLACE}mine.csv: stage 2 is on no rank, and the last stage is 2147483647"]),
    ],
)  # fmt: skip
def test_mistakes_of_the_text(write: Write, content: str | bytes, expected: list[str]) -> None:
    assert complaint(write(content)) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        # Idle slots count as columns: the cell is found where a spreadsheet shows it.
        ("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,,,1W1,1I1\n", "mine.csv: row 2, column 6 (rank 1): 1W1 before its 1I1"),
        ("0F0,,0B1,0F1,0B0\n1F0,1B0,1F1,1B1\n", "mine.csv: row 1, column 3 (rank 0): 0B1 before its 0F1"),
        ("0F0,0F1,0B0\n1F0,1B0,1F1,1B1\n", "mine.csv: 0B1 is missing (there is neither B nor I)"),
        ("0F0,0F1,0B0,0I1\n1F0,1B0,1F1,1B1\n", "mine.csv: row 1, column 4 (rank 0): 0I1 without its W"),
        ("0F0,0F1,0B0,1B1\n1F0,1B0,1F1,0B1\n",
         "mine.csv: row 2, column 4 (rank 1): 0B1: its 0F1 is on rank 0"),
        ("0F0,0EVICT0>2,0LOAD0<2,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n",
         "mine.csv: row 1, column 2 (rank 0): 0EVICT0>2: rank 2 is unknown; the ranks are 0 to 1"),
    ],
)  # fmt: skip
def test_mistakes_of_the_schedule(write: Write, content: str, expected: str) -> None:
    assert expected in complaint(write(content))


def test_deadlock_of_a_files_order(write: Write) -> None:
    """Rank 0 wants the gradient of microbatch 1 first, rank 1 the input of microbatch 1 after the backward of 0."""
    lines = complaint(write("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"))
    assert lines[1:3] == ["  rank 0 at 0B0 waits for 1B0", "  rank 1 at 1F1 waits for 0F1"]


def test_files_that_are_none(write: Write) -> None:
    """One line each, at the key; a pipe is never opened (it would hang), what is huge never read."""
    config = write(ONE_STEP)
    folder = config.parent
    os.mkfifo(folder / "pipe.csv")
    with (folder / "huge.csv").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    for path, expected in (
        ("orders/min.csv", "orders/min.csv: no such file; did you mean 'mine.csv'?"),
        ("orders", "orders: a directory, where an order file is due"),
        ("pipe.csv", "pipe.csv: not a regular file, but a pipe, device or socket"),
        ("/dev/zero", "/dev/zero: not a regular file, but a pipe, device or socket"),
        ("huge.csv", "huge.csv: larger than 64 MiB, the limit for an order file"),
    ):
        (line,) = complaint(config, schedule__path=path)
        assert line == f"override 'schedule.path': schedule.path: {expected}"
    (line,) = complaint(config, schedule__path=[1])
    assert line.endswith("a list is not a file's path")


def test_file_is_read_once(write: Write) -> None:
    """What was validated is what runs: the file may be gone by then."""
    config = write(ONE_STEP)
    loaded = ppsim.load(config)
    (config.parent / "orders" / "mine.csv").unlink()
    assert ppsim.simulate(loaded).timeline.makespan == 9 * 10**6
    assert resolved.text(loaded)


def test_path_in_python_is_taken_as_it_is(write: Write) -> None:
    order = write(ONE_STEP).parent / "orders" / "mine.csv"
    assert experiment({"name": "file", "path": order}, 2, 2).schedule.files() == {order.name: order}


@pytest.mark.parametrize(
    ("order", "without_effect"),
    [("0F0,0R0,0B0\n1F0,1R0,1B0\n", []), ("0F0,0B0\n1F0,1B0\n", ["costs.recompute", "costs.stage_input"])],
)
def test_an_order_may_list_its_own_recomputation(write: Write, order: str, without_effect: list[str]) -> None:
    """Neither `run` nor `check` says that its costs have no effect, nor is 1F1B, which keeps more, named as the remedy."""
    config = write(order)
    settings = {
        "pipeline.microbatches": 1,
        "costs.recompute": "1 ms",
        "costs.activation": "2 B",
        "costs.stage_input": "1 B",
    }
    result = ppsim.simulate(ppsim.load(config, settings))
    assert [notice.key for notice in result.notices if notice.code == "no_effect"] == without_effect
    shown = CliRunner().invoke(
        app, ["check", str(config), *(f"--set={key}={value}" for key, value in settings.items())]
    )
    assert [
        key for key in ("costs.recompute", "costs.stage_input") if f"warning: {key}:" in shown.output
    ] == without_effect
    assert all("order (file)" not in line for line in lines(result))
