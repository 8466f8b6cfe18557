"""The command line as a user meets it: real processes, real files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

import ppsim
from ppsim.ops.placement import Placement
from tests.marks import rest_slow

CONFIGS = Path(__file__).parents[2] / "configs"
BASE = "name: x\nschedule: 1f1b\npipeline: {ranks: 4, microbatches: 8}\ncosts: {forward: 10 ms, backward: 20 ms}\n"


def call(*arguments: str, cwd: Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ppsim.cli", *arguments], cwd=cwd, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL, timeout=120, **options,
    )  # type: ignore[call-overload, no-any-return]  # fmt: skip


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "x.yaml"
    path.write_text(BASE, encoding="utf-8")
    return path


def test_run_prints_one_screen(config: Path) -> None:
    """(m+p-1)(F+B) = 330 ms, bubble 3/11 of all and 3/8 of busy time; each rank works 8·30 = 240 ms."""
    done = call("run", "x.yaml", cwd=config.parent)
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("1f1b, p = 4, m = 8", "330 ms", "27.3 %", "37.5 %", "240 ms", "limit: ", "results/x/{"):
        assert words in done.stdout
    assert len(done.stdout.splitlines()) < 25


def test_json_alone_on_stdout(config: Path) -> None:
    done = call("run", "x.yaml", "--json", "--no-files", cwd=config.parent)
    summary = json.loads(done.stdout)
    assert summary["makespan_s"] == 0.33
    assert not (config.parent / "results").exists()


CONTRACT = {
    "schema_version", "name", "config_id", "version", "engine", "schedule", "ranks", "microbatches", "virtual_stages",
    "steps", "makespan_s", "step_time_s", "period_s", "steady_bubble_ratio", "microbatches_per_s", "samples_per_s", "mfu",
    "bubble_ratio", "bubble_overhead", "step_bound_s", "busy_bound_s", "max_speedup", "max_speedup_stream",
    "peak_memory_bytes", "fits", "theory", "max_span_s", "per_rank", "per_stage", "links", "pairs", "critical_path",
    "warnings",
}  # fmt: skip
PER_RANK = {
    "rank", "busy_s", "recompute_s", "idle_s", "span_s", "bubble_ratio", "waits_s", "peak_memory_bytes",
    "peak_by_category", "peak_in_flight", "weight_versions", "staleness",
}  # fmt: skip


def test_summary_keeps_the_contract(config: Path) -> None:
    summary = ppsim.simulate(ppsim.load(config)).summary
    assert set(summary) >= CONTRACT
    assert set(summary["per_rank"][0]) >= PER_RANK
    assert set(summary["per_stage"][0]) >= {"stage", "rank", "forward_s", "backward_s", "peak_activation_bytes"}
    assert set(summary["critical_path"]) >= {"by_kind_s", "flights"}
    assert set(summary["per_rank"][0]["waits_s"]) == {
        "fill", "drain", "upstream", "transfer", "queue", "blocked", "memory", "sync",
    }  # fmt: skip


def test_set_changes_a_setting(config: Path) -> None:
    done = call("run", "x.yaml", "--set", "pipeline.microbatches=4", "--json", "--no-files", cwd=config.parent)
    assert json.loads(done.stdout)["makespan_s"] == 0.21  # (4+3)·30 ms


def test_wrong_input_is_exit_2_and_no_traceback(config: Path) -> None:
    done = call("run", "x.yaml", "--set", "pipeline.ranks=0", "--set", "costs.forward=3", cwd=config.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "--set 'pipeline.ranks=0': pipeline.ranks: 0 is too small; at least 1",
        "--set 'costs.forward=3': costs.forward: 3 is a bare number; write the unit, e.g. '3 ms'",
    ]
    assert not (config.parent / "results").exists()


def test_deadlock_is_exit_1_and_names_the_cycle(config: Path) -> None:
    """1F1B's first backward can't come before the last forward that a batch-wide normalisation waits for."""
    done = call("run", "x.yaml", "--set", "pipeline.batch_sync=all", cwd=config.parent)
    assert (done.returncode, done.stdout) == (1, "")
    assert "rank 0 at 0B0 waits for 1B0" in done.stderr
    assert "the cycle: " in done.stderr
    assert "pipeline.batch_sync" in done.stderr
    assert not (config.parent / "results").exists()


def test_check_reads_an_order_as_run_does(config: Path) -> None:
    (config.parent / "order.csv").write_text("0F0,0B0\n1F0\n", encoding="utf-8")
    config.write_text(
        "schedule: {name: file, path: order.csv}\npipeline: {ranks: 2, microbatches: 1}\n"
        "costs: {forward: 1 ms, backward: 2 ms}\n",
        encoding="utf-8",
    )
    done = call("check", "x.yaml", cwd=config.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "order.csv: 1B0 is missing (there is neither B nor I)\n"


def test_more_ops_than_memory_holds_is_a_line(config: Path) -> None:
    """Slips of the keyboard: 8e13 ops of hundreds of bytes need petabytes."""
    slips = ("--set", "pipeline.microbatches=1e8", "--set", "pipeline.steps=1e5")
    done = call("run", "x.yaml", *slips, cwd=config.parent)
    estimate, refusal = done.stderr.splitlines()
    assert done.returncode == 2
    assert estimate.startswith("about 80,000,000,000,000 ops: ")
    assert refusal.startswith("x.yaml: about 80,000,000,000,000 ops need some ")
    assert [path.name for path in config.parent.iterdir()] == ["x.yaml"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk_is_a_line(config: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ppsim.cli", "run", "x.yaml", "--json", "--no-files"],
            cwd=config.parent, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "the output can't be written: No space left on device\n"


def test_what_does_not_fit_is_said_in_the_summary(config: Path) -> None:
    """Rank 0 holds 4 activations of 1F1B, rank 1 three: 120 and 90 GB against 80; the fourth F begins after 3 · 10 ms."""
    done = call(
        "run", "x.yaml", "--json", "--no-files", "--set", "costs.activation=30 GB", "--set",
        "cluster.device.memory=80 GB", cwd=config.parent,
    )  # fmt: skip
    summary = json.loads(done.stdout)
    assert (done.returncode, summary["fits"]) == (0, False)
    (warning,) = summary["warnings"]
    assert (warning["code"], warning["key"]) == ("does_not_fit", "cluster.device.memory")
    assert warning["message"].startswith(
        "rank 0 needs 120 GB at 30 ms, 40 GB more than the device's 80 GB; 1 more rank"
    )


@pytest.mark.parametrize("what", rest_slow(["schedules", "devices", "links", "models", "metrics", "formats"]))
def test_list(what: str, tmp_path: Path) -> None:
    known = {
        "schedules": "interleaved_1f1b", "devices": "a100-80gb", "links": "ib-hdr", "models": "gpt3",
        "metrics": "bubble_ratio", "formats": "chrome-trace",
    }  # fmt: skip
    done = call("list", what, cwd=tmp_path)
    assert done.returncode == 0
    assert known[what] in done.stdout


@pytest.mark.slow
def test_check_shows_every_default_and_reads_back(config: Path) -> None:
    done = call("check", "x.yaml", "--set", "cluster.inter_node={bandwidth: 109 Gbit/s}", cwd=config.parent)
    assert done.returncode == 0
    assert "109 Gbit/s = 13.625 GB/s" in done.stdout
    assert "op_overhead: 0 s" in done.stdout
    again = config.parent / "again.yaml"
    again.write_text(done.stdout, encoding="utf-8")
    assert call("check", "again.yaml", cwd=config.parent).stdout == done.stdout


@pytest.mark.slow  # importing jsonschema takes seconds where its formats' grammars are installed
def test_schema_accepts_the_shipped_configs(tmp_path: Path) -> None:
    """Shorthands included, and it refuses a misspelt key."""
    import jsonschema

    schema = json.loads(call("schema", cwd=tmp_path).stdout)
    validator = jsonschema.Draft202012Validator(schema)
    yaml = YAML(typ="safe", pure=True)
    for path in sorted(CONFIGS.glob("*.yaml")):
        assert list(validator.iter_errors(yaml.load(path.read_text(encoding="utf-8")))) == [], path
    assert list(validator.iter_errors(yaml.load(BASE.replace("ranks", "rankz"))))


@pytest.mark.slow
def test_hostile_text_is_plain_text(config: Path) -> None:
    """Console markup, plot mathematics and escape sequences in a file's name and in values."""
    hostile = config.parent / "[bold]$x_{$.yaml"
    hostile.write_text(BASE.replace("name: x\n", ""), encoding="utf-8")
    done = call("run", hostile.name, cwd=config.parent)
    assert done.returncode == 0, done.stderr
    bad = call("run", "x.yaml", "--set", "schedule='[/red]\x1b[31m'", cwd=config.parent)
    assert bad.returncode == 2
    assert "[/red]\\x1b[31m" in bad.stderr
    assert "\x1b" not in bad.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    rest_slow(
        [
            ("missing.yaml", "missing.yaml: there is no such file"),
            ("folder", "folder: a directory"),
            ("pipe", "pipe: not a regular file"),
        ],
        1,
        several=True,
    ),
)
def test_not_a_file(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    done = call("run", name, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(message.split(":")[0] + ": ")


def test_interrupt_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C in a run of four million ops, as soon as it has said so: exit 130, one line, no results."""
    (tmp_path / "x.yaml").write_text(
        BASE.replace("ranks: 4", "ranks: 64").replace("microbatches: 8", "microbatches: 32768"), encoding="utf-8"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "ppsim.cli", "run", "x.yaml", "--engine", "simpy"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        assert run.stderr is not None
        assert run.stderr.readline().startswith("about 4,194,304 ops: ")
        run.send_signal(signal.SIGINT)
        out, err = run.communicate()
    assert run.returncode == 130
    assert (out, err.splitlines()[-1]) == ("", "interrupted; nothing is half-written")
    assert not (tmp_path / "results" / "x").exists()


def test_interrupt_is_no_bug_of_whoever_makes_an_error_of_it() -> None:
    """As pydantic does, while it asks us how something is written: its error is none that we report."""
    script = """
import os, signal
from pydantic import BaseModel, field_serializer
from ppsim.cli import app

class Written(BaseModel):
    x: int
    @field_serializer("x")
    def write(self, x):
        os.kill(os.getpid(), signal.SIGINT)
        return x

app.app = lambda: Written(x=1).model_dump_json()
app.main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (130, "interrupted; nothing is half-written\n")


def test_python_says_what_is_wrong_with_an_argument(config: Path) -> None:
    experiment = ppsim.load(config)
    for wrong, message in (
        ({"engine": "fast"}, "engine: 'fast' is none; known: auto, simpy, compiled"),
        ({"schedule": "gpipe"}, "schedule takes an object of a Schedule's class, not 'gpipe'"),
        ({"schedule": _Elsewhere()}, "schedule: stage 1 is on no rank, and the last stage is 7"),
    ):
        with pytest.raises(ppsim.ConfigError) as error:
            ppsim.simulate(experiment, **wrong)
        assert str(error.value).startswith(message)
    with pytest.raises(ppsim.ConfigError, match=r"takes an Experiment, not 'x\.yaml'"):
        ppsim.simulate("x.yaml")  # type: ignore[arg-type]


class _Elsewhere(ppsim.Schedule):
    name: str = "elsewhere"

    def placement(self, ranks: int) -> Placement:
        return Placement("elsewhere", tuple((stage,) for stage in (0, 7, 5, 6)[:ranks]))


def test_numpy_integers_are_whole_numbers(config: Path) -> None:
    """A notebook's loop over np.arange gives them."""
    assert ppsim.load(config, {"pipeline.ranks": np.int64(8)}).pipeline.ranks == 8


def test_python_equals_yaml(config: Path) -> None:
    built = ppsim.Experiment(
        name="x",
        schedule="1f1b",
        pipeline={"ranks": 4, "microbatches": 8},
        costs={"forward": "10 ms", "backward": "20 ms"},
    )
    assert ppsim.simulate(built).summary == ppsim.simulate(ppsim.load(config)).summary


def test_help_needs_no_heavy_import(tmp_path: Path) -> None:
    """`ppsim --help` and `check` load neither pandas nor matplotlib nor simpy."""
    code = (
        "import sys; from ppsim import cli; sys.argv = ['ppsim', *sys.argv[1:]]\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'pandas', 'matplotlib', 'numba'} & set(sys.modules)), file=sys.stderr)"
    )
    (tmp_path / "x.yaml").write_text(BASE, encoding="utf-8")
    for arguments in (["--help"], ["check", "x.yaml"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stderr.splitlines()[-1] == "[]"


def test_compare_names_the_schedule_that_it_does_not_know(config: Path) -> None:
    done = call("compare", "x.yaml", "--schedules", "1f1b,interleaved", cwd=config.parent)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "--schedules: unknown schedule 'interleaved'; did you mean 'interleaved_1f1b'? known: "
    )
