"""``ppsim fit`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ppsim.cli.app import app

DATA = Path(__file__).parents[1] / "data" / "traces"
PRIMUS = str(DATA / "primus-pp8")
MEGATRON = """
torchrun --nproc-per-node 8 --nnodes 1 pretrain_gpt.py --num-layers 64 --hidden-size 4096 --num-attention-heads 32 \
  --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 16 --bf16 \
  --pipeline-model-parallel-size 8
"""


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["fit", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_one_screen() -> None:
    text = run(PRIMUS)
    assert "primus-pp8: primus; p = 8, m = 16; 8 steps" in text
    assert "order: 1f1b's, in 100% of all ranks, steps and replicas" in text
    assert "missing: bytes and times of messages" in text
    assert "interleave, 2 stages per rank" in text


def test_json_is_all_that_is_printed() -> None:
    assert json.loads(run(PRIMUS, "--json"))["orders_equal"] == 1.0


def test_the_experiment_and_the_changes_run(tmp_path: Path) -> None:
    text = run(PRIMUS, "-o", str(tmp_path / "fitted.yaml"))
    files = sorted(path.name for path in tmp_path.iterdir())
    assert "fitted.yaml" in files
    assert len(files) == 6
    assert all(name in text.replace("\n", "") for name in files)
    summary = CliRunner().invoke(app, ["run", str(tmp_path / "fitted-interleaved-2.yaml"), "--json", "--no-files"])
    row = next(row for row in json.loads(run(PRIMUS, "--json"))["changes"] if row["change"].startswith("interleave, 2"))
    assert json.loads(summary.stdout)["makespan_s"] == row["step_s"]


def test_a_launch_file_tells_the_sizes(tmp_path: Path) -> None:
    args = tmp_path / "pretrain.sh"
    args.write_text(MEGATRON)
    run(PRIMUS, "--megatron", str(args), "-o", str(tmp_path / "fitted.yaml"))
    assert "micro_batch_size: 1" in (tmp_path / "fitted.yaml").read_text()
    pytest.importorskip("pyarrow")
    # Four ranks, not eight: another run's script.
    result = CliRunner().invoke(app, ["fit", str(DATA / "trace-ST.parquet"), "--megatron", str(args)])
    assert "its pipeline has 8 ranks" in str(result.exception)
