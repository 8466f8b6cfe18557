"""Results on disk: written whole or not at all, and nothing that ppsim didn't write is touched."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ppsim
from ppsim import store
from ppsim._texts import Known
from ppsim.errors import PpsimError
from tests.simulated import between_nodes, simulate

FILES = {
    "config.yaml", "summary.json", "tasks.csv", "transfers.csv", "memory.csv", "gantt.png", "memory.png", "trace.json",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def result() -> ppsim.Result:
    return simulate("1f1b", 2, 3, costs={"message": "1 MB"}, cluster=between_nodes(bandwidth="1 GB/s"))


def test_every_file_is_there(result: ppsim.Result) -> None:
    folder = Path("results/x")
    assert set(store.write(result, folder)) == FILES
    assert {path.name for path in folder.iterdir()} == FILES | {store.MARKER}
    assert [path.name for path in Path("results").iterdir()] == ["x"]


def test_the_trace_of_a_large_run_is_compressed(result: ppsim.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a number of ops; what is inside is the plain one, and the same run gives the same bytes."""
    store.write(result, Path("plain"), pictures=False)
    monkeypatch.setattr(store, "TRACE_PLAIN_UP_TO", len(result.plan.ops) - 1)
    for folder in ("a", "b"):
        assert "trace.json" not in store.write(result, Path(folder), pictures=False)
    packed = Path("a/trace.json.gz").read_bytes()
    assert packed == Path("b/trace.json.gz").read_bytes()
    assert gzip.decompress(packed) == Path("plain/trace.json").read_bytes()


def test_memory_has_a_row_only_where_a_value_changes(result: ppsim.Result) -> None:
    """Stage 0 of 1F1B at m = 3 hands activation 0 back as it takes the next one: nothing changes at that instant."""
    rows = result.memory
    held = rows.drop(columns="time_s").to_numpy()
    assert (held[1:] != held[:-1]).any(axis=1).all()
    assert set(rows.groupby("rank").time_s.min()) == {0.0}


def test_tables_have_their_columns(result: ppsim.Result) -> None:
    store.write(result, Path("x"), pictures=False)
    heads = {
        name: Path("x", name).read_text(encoding="utf-8").splitlines()[0] for name in FILES if name.endswith("csv")
    }
    assert heads["tasks.csv"] == "rank,step,stage,microbatch,kind,op,start_s,end_s,wait_s,wait_cause,blocked_by"
    assert heads["transfers.csv"] == "op,src,dst,bytes,ready_s,start_s,left_s,arrive_s,egress,ingress"
    assert heads["memory.csv"].startswith("rank,time_s,weights_bytes")


def test_tables_are_what_a_csv_reader_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own writer makes the same bytes: shortest numbers, names quoted where they need it; in parts as well."""
    columns: dict[str, Any] = {
        "number": np.array([3, -1, 3, 2**40]),
        "time_s": np.array([0.1, 1e-9, 0.1, 123456789.000000001]),
        "always": np.zeros(4, np.int64),
        "name": ["0F0", 'node "a", nic 0', "", "two\nlines"],
        "cause": np.array(["fill", "", "a,b", "fill"], object),
        "never": np.full(4, False),
        "half": np.full(4, 0.5),
        "size": np.array([1, 2, 3, 4], np.uint64),
        "none_s": np.full(4, -0.0),
    }
    expected = io.StringIO(newline="")
    rows = zip(*(c.tolist() if isinstance(c, np.ndarray) else c for c in columns.values()), strict=True)
    csv.writer(expected, lineterminator="\n").writerows([list(columns), *rows])
    texts = {"none": Known(np.empty(0)), "some": Known(np.array([0.1])), "all": Known(np.unique(columns["time_s"]))}
    for at_once, known in itertools.product((100_000, 3), texts.values()):
        monkeypatch.setattr(store, "ROWS_AT_ONCE", at_once)
        store._table(columns, tmp_path / "table.csv", known)
        assert (tmp_path / "table.csv").read_bytes() == expected.getvalue().encode()
    store._table({"empty": np.empty(0)}, tmp_path / "table.csv", texts["none"])
    assert (tmp_path / "table.csv").read_text() == "empty\n"


def test_resolved_config_gives_the_same_run(result: ppsim.Result) -> None:
    store.write(result, Path("x"), pictures=False)
    again = ppsim.simulate(ppsim.load("x/config.yaml"))
    assert again.summary == {**result.summary, "name": again.summary["name"]}


def test_an_earlier_run_is_replaced(result: ppsim.Result) -> None:
    store.write(result, Path("x"))
    store.write(result, Path("x"), pictures=False)
    assert not Path("x/gantt.png").exists()
    assert Path("x/summary.json").exists()


def test_same_input_same_bytes(result: ppsim.Result) -> None:
    store.write(result, Path("a"))
    store.write(result, Path("b"))
    for name in FILES:
        assert Path("a", name).read_bytes() == Path("b", name).read_bytes(), name


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("../x", "../x: '..' in a results folder; name it directly"),
        ("~/x", "~/x: the shell left '~' as it is; write the folder's name in full"),
        (".", ".: the home or working directory, or one above it; name a folder inside"),
        ("link", "link: a link; ppsim writes only into folders of its own"),
        ("file", "file: a file; results go into a folder"),
        ("file/x", "file/x: can't be written: file is a file, not a folder"),
        ("file/x/y", "file/x/y: can't be written: file is a file, not a folder"),
        ("full", "full: ppsim didn't write mine.txt; move that away, or use --out"),
    ],
)
def test_refused(result: ppsim.Result, folder: str, message: str) -> None:
    Path("target").mkdir()
    Path("link").symlink_to("target")
    Path("file").write_text("mine")
    Path("full").mkdir()
    Path("full/mine.txt").write_text("mine")
    with pytest.raises(PpsimError) as error:
        store.write(result, Path(folder))
    assert str(error.value) == message
    assert Path("full/mine.txt").read_text() == "mine"
    assert list(Path("target").iterdir()) == []


def test_a_file_added_to_a_run_is_kept(result: ppsim.Result) -> None:
    store.write(result, Path("x"), pictures=False)
    Path("x/notes.txt").write_text("mine")
    with pytest.raises(PpsimError, match=r"^x: ppsim didn't write notes\.txt; move that away, or use --out$"):
        store.write(result, Path("x"), pictures=False)
    assert Path("x/notes.txt").read_text() == "mine"


def test_two_runs_into_one_folder(result: ppsim.Result) -> None:
    with store.replaced(Path("x")), pytest.raises(PpsimError, match="another run is writing there"):
        store.write(result, Path("x"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable(result: ppsim.Result) -> None:
    Path("closed").mkdir(mode=0o500)
    with pytest.raises(PpsimError, match=r"^closed/x: can't be written: Permission denied$"):
        store.write(result, Path("closed/x"))


SLOW_WRITER = """
import sys, time
from pathlib import Path
from ppsim import store
with store.replaced(Path("x")) as fresh:
    (fresh / "summary.json").write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_kill_while_writing_leaves_the_earlier_result(result: ppsim.Result) -> None:
    """A real kill -9 in the middle of writing; the next run clears what it left."""
    store.write(result, Path("x"), pictures=False)
    before = {path.name: path.read_bytes() for path in Path("x").iterdir()}
    with subprocess.Popen([sys.executable, "-c", SLOW_WRITER], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "writing\n"
        writer.send_signal(signal.SIGKILL)
    assert {path.name: path.read_bytes() for path in Path("x").iterdir()} == before
    store.write(result, Path("x"), pictures=False)
    assert [path.name for path in Path.cwd().iterdir()] == ["x"]
    assert json.loads(Path("x/summary.json").read_text())["ranks"] == 2


@pytest.mark.slow
def test_kill_at_any_moment_of_a_run() -> None:
    """`ppsim run` killed after 0.2, 0.4, … s: the earlier result stays whole, and no name but its folder shows."""
    Path("x.yaml").write_text(
        "name: x\nschedule: 1f1b\npipeline: {ranks: 8, microbatches: 64}\ncosts: {forward: 1 ms, backward: 2 ms}\n"
    )
    command = [sys.executable, "-m", "ppsim.cli", "run", "x.yaml"]
    subprocess.run(command, check=True, capture_output=True)
    names = {path.name for path in Path("results/x").iterdir()}
    for tenths in range(2, 24, 3):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            time.sleep(tenths / 10)
            run.kill()
        assert {path.name for path in Path("results/x").iterdir()} - {".lock"} == names
        assert json.loads(Path("results/x/summary.json").read_text())["ranks"] == 8
        assert [path.name for path in Path("results").iterdir() if not path.name.startswith(".")] == ["x"]
