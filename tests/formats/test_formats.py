"""The registry of formats, and ``ppsim export`` as users run it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ppsim.analysis.result import Result
from ppsim.errors import FormatError
from ppsim.formats import known, that
from ppsim.ops import Orders
from ppsim.ops import orderfile as dialects
from tests.simulated import simulate

EXPORTS = that("export")
CONFIG = """
name: small
schedule: 1f1b
pipeline: {ranks: 2, microbatches: 2}
costs: {per: stage, forward: 1 ms, backward: 2 ms}
"""


def written(name: str, result: Result) -> str:
    stream = io.StringIO()
    EXPORTS[name].run(result, stream)
    return stream.getvalue()


def test_every_format_is_described_in_a_line() -> None:
    assert {"chrome-trace", "torch-csv", "order", "megatron"} <= {found.name for found in known()}
    assert [found for found in known() if not found.what or "\n" in found.what] == []


@pytest.mark.parametrize("name", EXPORTS)
def test_every_export_writes_text_that_ends_in_a_line(name: str) -> None:
    text = written(name, simulate("1f1b", 2, 2))
    assert text.endswith("\n")
    assert "\r" not in text


def test_the_older_alphabet_is_read_back_as_such() -> None:
    result = simulate("interleaved_zb", 2, 4)
    old = written("torch-csv-old", result)
    assert not {"I", "BW"} & {letter for letter in ("F", "B", "W", "I", "BW") if f"0{letter}0" in old}
    assert dialects.write(Orders.of(dialects.read(old, "torch-old"))) == written("torch-csv", result)


@pytest.mark.parametrize("schedule", ["bpipe", "dualpipe", "chimera"])
def test_the_format_order_holds_what_pytorchs_cannot(schedule: str) -> None:
    """Evictions and stages on two ranks."""
    result = simulate(schedule, 4, 8)
    for name in EXPORTS:
        if name.startswith("torch"):
            with pytest.raises(FormatError, match=r"^not a PyTorch schedule: .*the format 'order' holds everything"):
                written(name, result)
    text = written("order", result)
    assert [list(table) for table in dialects.read(text)] == [list(table) for table in result.orders]


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        (
            "pipedream",
            "an asynchronous schedule runs on from step to step; PyTorch's ends each: take 1f1b",
        ),
        (
            {"name": "seq1f1b", "slices": 3},
            "the schedule cuts each microbatch into 3 slices, which hand on their keys and values; PyTorch's "
            "microbatches are apart: take the schedule that isn't cut, as 1f1b in place of seq1f1b",
        ),
    ],
    ids=["asynchronous", "slices"],
)
def test_orders_that_pytorch_would_load_and_get_wrong(schedule: Any, reason: str) -> None:
    result = simulate(schedule, 2, 4)
    for name in EXPORTS:
        if name.startswith("torch"):
            with pytest.raises(FormatError) as error:
                written(name, result)
            assert str(error.value) == reason
    assert written("order", result)


def test_recomputation_is_the_experiments_and_not_the_orders() -> None:
    """R is put in when the plan is built; PyTorch recomputes inside the model."""
    plain, again = (simulate("1f1b", 2, 2, pipeline={"recompute": r}) for r in ("none", "full"))
    assert written("torch-csv", again) == written("torch-csv", plain)


def test_one_step_is_written_however_many_run() -> None:
    assert written("order", simulate("1f1b", 2, 2, pipeline={"steps": 3})) == written("order", simulate("1f1b", 2, 2))


def export(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "x.yaml").write_text(CONFIG)
    command = [sys.executable, "-m", "ppsim.cli", "export", "x.yaml", *arguments]
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "", "HOME": str(tmp_path)}
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_export_to_standard_output_and_to_a_file(tmp_path: Path) -> None:
    """1F1B on two ranks with two microbatches, by hand."""
    done = export(tmp_path, "--format", "torch-csv")
    assert (done.returncode, done.stdout) == (0, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")
    done = export(tmp_path, "--format", "chrome-trace", "-o", "trace.json")
    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads((tmp_path / "trace.json").read_text())["otherData"]["name"] == "small"


def test_export_of_what_the_format_cannot_hold(tmp_path: Path) -> None:
    done = export(tmp_path, "--format", "torch-csv", "--set", "schedule=dualpipe", "--set", "pipeline.microbatches=4")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "stage 0 is on ranks 0 and 1" in done.stderr
    assert "Traceback" not in done.stderr


def test_export_in_an_unknown_format(tmp_path: Path) -> None:
    done = export(tmp_path, "--format", "torch_csv")
    assert done.returncode == 2
    assert "did you mean 'torch-csv'?" in done.stderr
