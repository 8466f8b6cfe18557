"""The table of a sweep: columns, types, units, speed; the file behind it."""

from __future__ import annotations

import csv
import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ppsim
from ppsim.config.sweep import Sweep
from ppsim.sweeps.cases import Case
from ppsim.sweeps.columns import Cells, Column, parameters
from ppsim.sweeps.db import Row, SweepFile
from ppsim.sweeps.export import write_tables


def columns(**grid: list[object]) -> list[Column]:
    return parameters(Sweep.model_validate({"grid": {key.replace("_0_", "."): values for key, values in grid.items()}}))


def test_parameters_are_names_and_numbers() -> None:
    assert columns(
        schedule=["gpipe", {"name": "interleaved_1f1b", "virtual_stages": 2}],
        pipeline_0_ranks=[2, 4],
        runtime_0_barrier=[True, False],
        cluster_0_inter_node=["ib-hdr", {"like": "ib-hdr", "latency": "10 us"}],
        cluster_0_device_0_memory=["80 GB", "40 GiB"],
        cluster_0_speed=[0.5, 1],
        costs_0_forward=[["1 ms", "2 ms"]],
    ) == [
        Column("schedule", "parameter", "str"),
        Column("schedule.virtual_stages", "parameter", "int"),
        Column("pipeline.ranks", "parameter", "int"),
        Column("runtime.barrier", "parameter", "bool"),
        Column("cluster.inter_node", "parameter", "str"),
        Column("cluster.inter_node.latency", "parameter", "float", "s"),
        Column("cluster.device.memory", "parameter", "float", "B"),
        Column("cluster.speed", "parameter", "float"),
        Column("costs.forward", "parameter", "str"),
    ]


def test_cells_are_si_numbers_and_what_holds_by_default() -> None:
    found = columns(
        schedule=[{"name": "interleaved_1f1b", "virtual_stages": 2}],
        pipeline_0_steps=[1], cluster_0_inter_node_0_bandwidth=["25 GB/s"], costs_0_forward=[["1 ms"]],
    )  # fmt: skip
    given = {
        "schedule": "1f1b", "cluster": {"inter_node": {"like": "ib-hdr", "bandwidth": "8 Gbit/s"}},
        "costs": {"forward": ["1 ms", "2 ms"]},
    }  # fmt: skip
    assert Cells(found).of(given) == {
        "schedule": "1f1b",
        "schedule.virtual_stages": None,  # 1f1b has none
        "pipeline.steps": 1,  # nobody gave it
        "cluster.inter_node.bandwidth": 1e9,
        "costs.forward": '["1 ms", "2 ms"]',
    }
    assert Cells(found[:2]).of({"schedule": "interleaved_1f1b"})["schedule.virtual_stages"] == 2  # its default


def listed(file: SweepFile, count: int, found: list[Column]) -> None:
    cases = (
        Case(f"{i:064x}", i, {}, {"schedule": ("gpipe", "1f1b")[i % 2], "pipeline": {"ranks": 2 + i % 3}}, None)
        for i in range(count)
    )
    file.list_cases({"name": "x"}, found, cases)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Four cases: two done, one failed, one to do."""
    with SweepFile(tmp_path / "sweep.sqlite", create=True) as file:
        listed(file, 4, columns(schedule=["gpipe"], pipeline_0_ranks=[2]))
        figures = {"step_time_s": 0.25, "fits": True, "ranks": 2, "period_s": None, "engine": "simpy"}
        file.save([Row(f"{3:064x}", 0.5, {**figures, "fits": False}), Row(f"{1:064x}", 0.125, figures)])
        file.save([Row(f"{0:064x}", 0.25, error="deadlock: 2 of 2\nrank 0")])
        write_tables(file, tmp_path)
    return tmp_path


def test_read_sweep_is_typed_and_ready_for_groupby(small: Path) -> None:
    table = ppsim.read_sweep(small)
    assert table["status"].tolist() == ["failed", "ok", "pending", "ok"]
    assert str(table.dtypes["pipeline.ranks"]) == "int64"
    assert str(table.dtypes["fits"]) == "boolean"
    assert str(table.dtypes["step_time_s"]) == "float64"
    assert table["pipeline.ranks"].tolist() == [2, 3, 4, 2]
    assert table.loc[3, "fits"] is pd.NA or table.loc[3, "fits"] == False  # noqa: E712
    assert table.groupby("schedule")["step_time_s"].mean().to_dict() == {
        "1f1b": 0.25,
        "gpipe": pytest.approx(float("nan"), nan_ok=True),
    }
    assert table.attrs == {"parameters": ["schedule", "pipeline.ranks"], "name": "x", "units": {}}
    assert "period_s" not in table  # nobody knows it
    pd.testing.assert_frame_equal(ppsim.read_sweep(small / "sweep.sqlite"), table)


def test_results_csv_is_sorted_by_id_and_says_nothing_of_the_clock(small: Path) -> None:
    with (small / "results.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == [
        "id",
        "status",
        "schedule",
        "pipeline.ranks",
        "engine",
        "fits",
        "ranks",
        "step_time_s",
        "error",
    ]
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    assert [row["fits"] for row in rows] == ["", "True", "", "False"]
    assert rows[0]["error"] == "deadlock: 2 of 2\nrank 0"


def test_parquet_is_the_same_table(small: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: no Parquet is written")
    read = pd.read_parquet(small / "results.parquet")
    table = ppsim.read_sweep(small)
    pd.testing.assert_frame_equal(read, table)  # values, their types, names
    assert read.attrs == table.attrs


def test_where_there_is_no_sweep(tmp_path: Path) -> None:
    with pytest.raises(ppsim.PpsimError, match=r"no sweep\.sqlite in it"):
        ppsim.read_sweep(tmp_path)
    with SweepFile(tmp_path / "sweep-1-of-2.sqlite", create=True):
        pass
    with pytest.raises(ppsim.PpsimError, match=r"1 of 2 shards.*ppsim collect"):
        ppsim.read_sweep(tmp_path)
    (tmp_path / "sweep.sqlite").write_text("not a database, but long enough to look like one" * 50, encoding="utf-8")
    with pytest.raises(ppsim.PpsimError, match="can't be used as a sweep's file"):
        ppsim.read_sweep(tmp_path)


@pytest.mark.slow
def test_a_hundred_thousand_rows_are_read(tmp_path: Path) -> None:
    """Of 2 parameters and 20 figures: 2 s of processor time."""
    count = 100_000
    with SweepFile(tmp_path / "sweep.sqlite", create=True) as file:
        listed(file, count, columns(schedule=["gpipe"], pipeline_0_ranks=[2]))
        names = [f"figure_{i}_s" for i in range(19)]
        for first in range(0, count, 10_000):
            file.save([
                Row(f"{i:064x}", 0.1, {**dict.fromkeys(names, i / 7), "fits": True}) for i in range(first, first + 10_000)
            ])  # fmt: skip
    table = ppsim.read_sweep(tmp_path)
    assert len(table) == count
    assert table["figure_3_s"].iloc[-1] == (count - 1) / 7


def test_a_file_that_is_refused_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 warns of a connection that is left open, wherever it is found."""
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def noting(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", noting)
    path = tmp_path / "sweep.sqlite"
    path.write_text("not a database, but long enough to look like one" * 50, encoding="utf-8")
    with pytest.raises(ppsim.PpsimError, match="can't be used as a sweep's file"):
        SweepFile(path)
    path.unlink()
    with SweepFile(path, create=True) as file:
        file._db.execute("UPDATE about SET value = '0' WHERE key = 'layout'")
    with pytest.raises(ppsim.PpsimError, match="written by another version of ppsim"):
        SweepFile(path)
    assert len(opened) == 3
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            connection.execute("SELECT 1")
