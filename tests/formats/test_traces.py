"""Traces of measured runs: what is read of each kind, what is said to be missing, what is refused and why."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ppsim
from ppsim.analysis.measured.lanes import lanes
from ppsim.analysis.measured.table import Measured
from ppsim.errors import FormatError, PpsimError
from ppsim.formats import that
from ppsim.formats.traces import is_trace, read_trace
from ppsim.ops import Kind

DATA = Path(__file__).parents[1] / "data" / "traces"


def copied(tmp_path: Path, name: str) -> Path:
    target = tmp_path / name
    if (DATA / name).is_dir():
        shutil.copytree(DATA / name, target)
    else:
        shutil.copyfile(DATA / name, target)
    return target


def edited(path: Path, change: Callable[[Any], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


class TestPrimus:
    def test_what_is_read(self) -> None:
        found = read_trace(DATA / "primus-pp8")
        assert (found.format, found.ranks, found.replicas, found.stages, found.microbatches) == ("primus", 8, 1, 8, 16)
        assert found.steps == (1, 2, 3, 5, 6, 7, 8, 9, 16, 18)
        assert len(found.rows) == 10 * 8 * 16 * 2
        assert found.span[3] == pytest.approx(3238.26e6, rel=1e-5)  # iteration 5, from its own times
        assert found.memory is not None
        assert found.memory[3, 0] / 2**30 == pytest.approx(104.33, abs=0.01)  # as published, GiB

    @pytest.mark.parametrize("name", ["config.json", "pp_rank_3.json"])
    def test_any_of_its_files_will_do(self, name: str) -> None:
        assert read_trace(DATA / "primus-pp8" / name).ranks == 8

    def test_a_missing_rank_is_said_and_the_rest_is_read(self, tmp_path: Path) -> None:
        folder = copied(tmp_path, "primus-pp8")
        (folder / "pp_rank_3.json").unlink()
        found = read_trace(folder)
        assert "rank 3 of 8: no pp_rank_3.json" in found.missing
        with pytest.raises(PpsimError, match="rank 3 of 8 isn't in the trace: what its ops take can't be known"):
            ppsim.fit(found)

    def test_a_step_that_is_cut_short_is_left_out(self, tmp_path: Path) -> None:
        folder = copied(tmp_path, "primus-pp8")
        edited(folder / "pp_rank_2.json", lambda ranks: ranks["6"]["fwd_end"].pop())
        found = read_trace(folder)
        assert 6 not in found.steps
        assert "iteration 6 was left out: rank 2 has 16 fwd_start and 15 fwd_end, 16 are due" in found.notes

    def test_interleaved_lists_are_in_megatrons_order(self, tmp_path: Path) -> None:
        """p = 2, v = 2, m = 4: chunk 0 of microbatches 0 and 1, chunk 1 of both, then the same of 2 and 3."""
        (tmp_path / "config.json").write_text(json.dumps({"pp_size": 2, "vpp_size": 2, "micro_batches": 4}))
        for rank in range(2):
            forward = list(range(8))
            step = {"total": 99, "fwd_start": forward, "fwd_end": [t + 0.5 for t in forward]}
            step |= {"bwd_start": [t + 20 for t in forward], "bwd_end": [t + 20.5 for t in forward]}
            (tmp_path / f"pp_rank_{rank}.json").write_text(json.dumps({"1": step}))
        rows = read_trace(tmp_path).rows
        mine = rows[(rows.rank == 1) & (rows.label == 0)]
        assert list(zip(mine.stage.tolist(), mine.microbatch.tolist(), strict=True)) == [
            (1, 0), (1, 1), (3, 0), (3, 1), (1, 2), (1, 3), (3, 2), (3, 3),
        ]  # fmt: skip
        backward = rows[(rows.rank == 1) & (rows.label == 1)]
        assert backward.stage.tolist() == [3, 3, 1, 1, 3, 3, 1, 1]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda f: (f / "config.json").unlink(), r"config\.json: missing; it holds pp_size"),
            (
                lambda f: (f / "config.json").write_text('{"pp_size": 8}'),
                r"num_mbs: must be a whole number from 1, not None",
            ),
            (lambda f: (f / "pp_rank_1.json").write_text('{"1": '), r"pp_rank_1\.json: not JSON"),
            (lambda f: (f / "pp_rank_1.json").write_text('{"one": {}}'), "'one' is not the number of an iteration"),
        ],
    )
    def test_what_is_wrong_is_said(self, tmp_path: Path, change: Callable[[Path], object], message: str) -> None:
        folder = copied(tmp_path, "primus-pp8")
        change(folder)
        with pytest.raises(FormatError, match=message):
            read_trace(folder)


class TestNDTimeline:
    pytest.importorskip("pyarrow")

    def test_what_is_read(self) -> None:
        found = read_trace(DATA / "trace-ST.parquet")
        assert (found.format, found.ranks, found.replicas, found.stages, found.microbatches) == (
            "ndtimeline",
            4,
            2,
            4,
            4,
        )
        assert len(found.steps) == 32
        assert len(found.rows) == 6784  # all of the table's
        assert found.names == (("rank 0", "rank 2", "rank 4", "rank 6"), ("rank 1", "rank 3", "rank 5", "rank 7"))

    def test_messages_belong_to_the_ops_that_use_or_make_them(self) -> None:
        found = read_trace(DATA / "trace-ST.parquet")
        rows, kind = found.rows, found.kind
        lane = (rows.replica == 0) & (rows.step == 0) & (rows.rank == 1)
        receive, forward = rows[lane & (kind == Kind.RECV_F)], rows[lane & (kind == Kind.F)]
        assert receive.microbatch.tolist() == forward.microbatch.tolist() == [0, 1, 2, 3]
        assert np.all(receive.end <= forward.start + 10_000)  # 10 us: float32 seconds

    def test_without_its_sizes_they_are_counted(self, tmp_path: Path) -> None:
        found = read_trace(copied(tmp_path, "trace-ST.parquet"))
        assert "sizes: there is no meta-ST.yaml beside the trace; they were counted instead" in found.missing
        assert (found.ranks, found.replicas) == (4, 2)

    def test_a_missing_stage_is_said(self, tmp_path: Path) -> None:
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        table = pq.read_table(DATA / "trace-ST.parquet")
        path = tmp_path / "trace-X.parquet"
        pq.write_table(table.filter(pc.not_equal(table["stage"], 2)), path)
        assert "rank 2 of 4 is not in the trace" in read_trace(path).missing

    def test_other_tables_are_refused_by_their_columns(self, tmp_path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = tmp_path / "x.parquet"
        pq.write_table(pa.table({"a": [1], "step": [2]}), path)
        with pytest.raises(FormatError, match=r"not an NDTimeline table: lacks optype, start_ts, .* has a, step"):
            read_trace(path)

    def test_a_file_that_is_cut_short_is_refused(self, tmp_path: Path) -> None:
        path = copied(tmp_path, "trace-ST.parquet")
        path.write_bytes(path.read_bytes()[:50_000])
        with pytest.raises(FormatError, match=r"trace-ST\.parquet: damaged Parquet"):
            read_trace(path)


@dataclass
class Rank:
    """A profiler's file of one rank, made by hand; times in µs."""

    rank: int | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    header: dict[str, Any] = field(default_factory=dict)

    def span(self, name: str, start: float, length: float, category: str = "user_annotation", **more: Any) -> None:
        event = {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": 7, "ts": start, "dur": length}
        self.events.append({**event, **more})

    def write(self, path: Path) -> Path:
        info = {} if self.rank is None else {"distributedInfo": {"backend": "gloo", "rank": self.rank}}
        content = {"schemaVersion": 1, **info, "traceEvents": self.events, "displayTimeUnit": "ms", **self.header}
        raw = json.dumps(content).encode()
        path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
        return path


def two_ranks(name: Callable[[int, str, int], str] = lambda s, k, m: f"PP:{s}{k}{m}") -> list[Rank]:
    """Two steps of two ranks, m = 2, by 1F1B: F takes 10 µs, B 20, no message any time; steps are 200 µs apart."""
    starts = {0: {"F0": 0, "F1": 10, "B0": 40, "B1": 70}, 1: {"F0": 10, "B0": 20, "F1": 40, "B1": 50}}
    ranks = [Rank(0), Rank(1)]
    for step in range(2):
        for r, ops in starts.items():
            for op, at in ops.items():
                ranks[r].span(name(r, op[0], int(op[1])), 1000 + 200 * step + at, 10 if op[0] == "F" else 20)
    return ranks


def written(ranks: list[Rank], folder: Path, suffix: str = ".json") -> Path:
    folder.mkdir(exist_ok=True)
    for number, rank in enumerate(ranks):
        rank.write(folder / f"trace_{number}{suffix}")
    return folder


pytest.importorskip("ijson")


class TestProfiler:
    @pytest.mark.parametrize("suffix", [".json", ".json.gz", ".pt.trace.json"])
    def test_a_folder_of_ranks(self, tmp_path: Path, suffix: str) -> None:
        found = read_trace(written(two_ranks(), tmp_path / "job", suffix))
        assert (found.format, found.ranks, found.replicas, found.stages, found.microbatches) == ("kineto", 2, 1, 2, 2)
        assert found.names == (("rank 0", "rank 1"),)
        assert len(found.rows) == 16
        assert found.span.tolist() == [90_000, 90_000]
        assert ppsim.fit(found).summary()["schedule"] == "1f1b"

    def test_the_profilers_own_steps_number_them(self, tmp_path: Path) -> None:
        ranks = two_ranks()
        for rank in ranks:
            for step in range(2):
                rank.span(f"ProfilerStep#{41 + step}", 990 + 200 * step, 200)
        assert read_trace(written(ranks, tmp_path / "job")).steps == (41, 42)

    def test_steps_that_only_some_ranks_saw_are_aligned_in_time(self, tmp_path: Path) -> None:
        ranks = two_ranks()
        ranks[1].events = [event for event in ranks[1].events if event["ts"] >= 1200]
        found = read_trace(written(ranks, tmp_path / "job"))
        assert any("different numbers of steps" in note for note in found.notes)
        assert lanes(found).span.tolist() == [90_000]

    def test_a_step_that_began_before_the_trace_is_left_out(self, tmp_path: Path) -> None:
        ranks = two_ranks()
        ranks[0].events.insert(0, {**ranks[0].events[3], "ts": 900})
        found = read_trace(written(ranks, tmp_path / "job"))
        assert "rank 0: 1 spans of a step that began before the trace were left out" in found.notes
        assert lanes(found).span.tolist() == [90_000, 90_000]

    def test_replicas_are_workers_with_the_same_stages(self, tmp_path: Path) -> None:
        ranks = two_ranks() + two_ranks()
        for number, rank in enumerate(ranks):
            rank.rank = number
        found = read_trace(written(ranks, tmp_path / "job"))
        assert (found.ranks, found.replicas) == (2, 2)
        assert found.names == (("rank 0", "rank 1"), ("rank 2", "rank 3"))

    def test_a_base_time_puts_files_on_one_clock(self, tmp_path: Path) -> None:
        ranks = two_ranks()
        ranks[0].header = {"baseTimeNanoseconds": 10**18}
        ranks[1].header = {"baseTimeNanoseconds": 10**18 - 400_000}
        for event in ranks[1].events:
            event["ts"] += 400
        assert read_trace(written(ranks, tmp_path / "job")).span.tolist() == [90_000, 90_000]

    def test_a_missing_stage_is_said(self, tmp_path: Path) -> None:
        found = read_trace(two_ranks()[1].write(tmp_path / "one.json"))
        assert "stage 0 of 2: no file has it" in found.missing

    def test_a_rank_without_a_pipeline_is_said(self, tmp_path: Path) -> None:
        other = Rank(2)
        other.span("aten::mm", 0, 5, "cpu_op")
        found = read_trace(written([*two_ranks(), other], tmp_path / "job"))
        assert "trace_2.json: no spans of a pipeline (3 of 3 files)" in found.missing

    def test_gzip_that_is_cut_short_is_read_as_far_as_it_goes(self, tmp_path: Path) -> None:
        folder = written(two_ranks(), tmp_path / "job", ".json.gz")
        path = folder / "trace_1.json.gz"
        path.write_bytes(path.read_bytes()[:-60])
        found = read_trace(folder)
        assert "trace_1.json.gz ends before its end" in found.notes[0]

    def test_the_wait_for_a_message_is_taken_off_where_its_receive_was_recorded(self, tmp_path: Path) -> None:
        """On a CPU the runtime waits inside the op's span: F of rank 1 'starts' at 12, and its message comes at 30."""
        first, second = Rank(0), Rank(1)
        first.span("PP:0F0", 0, 10)
        first.span("PP:0SEND_F0", 10, 1)
        second.span("PP:1RECV_F0", 5, 2)
        second.span("gloo:recv", 6, 24)
        second.span("PP:1F0", 12, 28)
        second.span("PP:1B0", 40, 20)
        first.span("PP:0B0", 60, 20)
        found = read_trace(written([first, second], tmp_path / "job"))
        rows = found.rows[(found.rows.rank == 1) & (found.kind == Kind.F)]
        assert (rows.start.tolist(), rows.end.tolist()) == ([30_000], [40_000])

    def test_the_devices_annotation_counts_not_the_hosts(self, tmp_path: Path) -> None:
        ranks = two_ranks()
        for rank in ranks:
            for event in [*rank.events]:
                host = {**event, "dur": 1, "args": {"External id": len(rank.events)}}
                rank.events[rank.events.index(event)] = host
                rank.events.append({**event, "cat": "gpu_user_annotation", "pid": 0, "args": host["args"]})
        found = read_trace(written(ranks, tmp_path / "job"))
        assert found.on_device is True
        assert found.span.tolist() == [90_000, 90_000]

    def test_else_the_kernels_that_the_host_launched(self, tmp_path: Path) -> None:
        ranks = two_ranks()
        for rank in ranks:
            for number, event in enumerate([*rank.events]):
                start, length = event["ts"], event["dur"]
                event.update(ts=start - 5, dur=3)
                rank.span("cudaLaunchKernel", start - 4, 1, "cuda_runtime", args={"correlation": number})
                rank.span("gemm", start, length, "kernel", pid=0, args={"correlation": number})
        found = read_trace(written(ranks, tmp_path / "job"))
        assert found.on_device is True
        assert found.span.tolist() == [90_000, 90_000]

    def test_else_times_are_not_the_devices_and_nothing_is_fitted(self, tmp_path: Path) -> None:
        ranks = two_ranks()
        for rank in ranks:
            rank.span("gemm", 5000, 1, "kernel", pid=0, args={"correlation": 99})
        found = read_trace(written(ranks, tmp_path / "job"))
        assert found.on_device is False
        assert any(text.startswith("device times:") for text in found.missing)
        with pytest.raises(PpsimError, match="its spans are those of the host, which only launches the work"):
            ppsim.fit(found)

    def test_single_stage_schedules_of_pytorch(self, tmp_path: Path) -> None:
        words = {"F": "Forward", "B": "Backward"}
        found = read_trace(written(two_ranks(lambda s, k, m: f"{words[k]} {m}"), tmp_path / "job"))
        assert (found.ranks, found.stages) == (2, 2)
        assert found.span.tolist() == [90_000, 90_000]

    def test_spans_by_a_pattern(self, tmp_path: Path) -> None:
        folder = written(
            two_ranks(lambda s, k, m: f"{'fwd' if k == 'F' else 'bwd'} stage={s} mb={m}"), tmp_path / "job"
        )
        found = read_trace(folder, r"(?P<kind>fwd|bwd) stage=(?P<stage>\d+) mb=(?P<microbatch>\d+)")
        assert found.span.tolist() == [90_000, 90_000]
        without_stage = read_trace(folder, r"(?P<kind>fwd|bwd) .* mb=(?P<microbatch>\d+)")
        assert without_stage.stages_of == ((0,), (1,))

    @pytest.mark.parametrize(
        ("pattern", "message"),
        [
            ("(", "--name: not a regular expression"),
            ("fwd", "--name: needs a group called kind"),
            ("(?P<kind>fwd)(?P<mb>x)", "unknown group 'mb'; the groups are kind, stage, microbatch"),
            ("(?P<kind>stage)", "its group kind finds 'stage' in 'fwd stage=0 mb=0'"),
            (r"(?P<kind>fwd|bwd)", "its group microbatch is missing"),
            ("(?P<kind>nothing)", "no span that --name finds"),
        ],
    )
    def test_a_pattern_that_cannot_work_is_refused(self, tmp_path: Path, pattern: str, message: str) -> None:
        folder = written(
            two_ranks(lambda s, k, m: f"{'fwd' if k == 'F' else 'bwd'} stage={s} mb={m}"), tmp_path / "job"
        )
        with pytest.raises(FormatError) as caught:
            read_trace(folder, pattern)
        assert message in str(caught.value)

    def test_a_trace_without_a_pipeline_says_what_there_is(self, tmp_path: Path) -> None:
        rank = Rank(3)
        rank.span("nccl:all_to_all", 0, 5)
        rank.span("ncclDevKernel_SendRecv(ncclDevComm*)", 1, 3, "kernel", args={"correlation": 1})
        with pytest.raises(FormatError) as caught:
            read_trace(rank.write(tmp_path / "x.json"))
        text = str(caught.value)
        assert "no pipeline in it: no span called as PyTorch's runtime calls them (PP:2F0)" in text
        assert "x.json: rank 3; 2 events (1 user_annotation, 1 kernel)" in text
        assert "1 SendRecv kernels beside all-to-alls: those are their sends and receives, not a pipeline's" in text

    @pytest.mark.parametrize("name", ["schedule", "interleaved"])
    def test_other_order_of_the_same_spans_is_read_the_same(self, tmp_path: Path, name: str) -> None:
        ranks = two_ranks()
        for rank in ranks:
            rank.events.reverse()
        assert read_trace(written(ranks, tmp_path / name)).span.tolist() == [90_000, 90_000]


RUN = """
schedule: {name: interleaved_1f1b, virtual_stages: 2}
pipeline: {ranks: 4, microbatches: 8, steps: 2}
costs: {forward: 10 ms, backward: 20 ms, message: 10 MB, activation: 1 GB}
cluster: {ranks_per_node: 2, intra_node: {bandwidth: 100 GB/s, latency: 2 us}, inter_node: {bandwidth: 5 GB/s, latency: 20 us}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Measured, Measured]:
    """A simulated run, and the same read back from its trace and from its tables."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "x.yaml").write_text(RUN)
    result = ppsim.simulate(ppsim.load(folder / "x.yaml"))
    with (folder / "trace.json").open("w") as stream:
        that("export")["chrome-trace"].run(result, stream)
    result.tasks.to_csv(folder / "tasks.csv", index=False)
    result.transfers.to_csv(folder / "transfers.csv", index=False)
    return result, read_trace(folder / "trace.json"), read_trace(folder / "tasks.csv")


class TestOwn:
    @pytest.mark.parametrize("which", [1, 2])
    def test_every_op_is_read_back(self, run: tuple[Any, Measured, Measured], which: int) -> None:
        result, found = run[0], run[which]
        assert isinstance(found, Measured)
        assert (found.ranks, found.stages, found.microbatches, found.steps) == (4, 8, 8, (0, 1))
        assert sorted(found.rows.start.tolist()) == sorted(result.timeline.start.tolist())
        assert sorted(found.rows.end.tolist()) == sorted(result.timeline.end.tolist())

    @pytest.mark.parametrize("which", [1, 2])
    def test_every_message_is_read_back(self, run: tuple[Any, Measured, Measured], which: int) -> None:
        result, found = run[0], run[which]
        assert isinstance(found, Measured)
        messages = found.messages
        assert messages is not None
        times = zip(messages.ready, messages.start, messages.left, messages.arrive, messages.bytes, strict=True)
        timeline, plan = result.timeline, result.plan
        size = plan.routes.bytes[plan.transfers.route]
        simulated = zip(timeline.ready, timeline.transfer_start, timeline.left, timeline.arrive, size, strict=True)
        assert sorted(tuple(map(int, each)) for each in times) == sorted(tuple(map(int, each)) for each in simulated)
        assert {messages.ports[i] for i in messages.egress.tolist()} == {
            plan.ports[i] for i in {*plan.routes.egress.tolist()}
        }

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("F,0F0", "X,0F0", r"tasks\.csv:2: kind: 'X' is none of F, B"),
            ("start_s", "begin", "no trace that ppsim knows"),
            ("0F0,0.0,", "0F0,soon,", "start_s: must hold numbers of seconds"),
            ("0F0,0.0,", "0F0,9.0,", r"tasks\.csv:2: end_s is before start_s"),
            ("\n0,0,0,0,", "\n-1,0,0,0,", "rank: must be whole numbers from 0"),
        ],
    )
    def test_a_table_that_is_wrong_is_refused(self, run: Any, tmp_path: Path, old: str, new: str, message: str) -> None:
        path = tmp_path / "tasks.csv"
        text = run[0].tasks.to_csv(index=False)
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(FormatError, match=message):
            read_trace(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no trace that ppsim knows: Primus' pp_rank_N.json"),
        (b"schedule: 1f1b", "no trace that ppsim knows"),
        (b'{"traceEvents": 5}', "not a trace: it has no traceEvents"),
        (b'{"traceEvents": [{"ph": "X"', "not a trace: parse error: premature EOF"),
        (b"\x1f\x8b\x08garbage", "no trace that ppsim knows"),
        (b"PAR1garbage", "damaged Parquet"),
    ],
)
def test_other_files_are_refused_in_a_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        read_trace(path)
    assert message in str(caught.value)


def test_a_missing_file_has_a_nearest() -> None:
    with pytest.raises(FormatError, match=r"no such file or folder; did you mean 'trace-ST\.parquet'\?"):
        read_trace(DATA / "trace-SX.parquet")


def test_a_pipe_is_never_opened(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "x.json")
    with pytest.raises(FormatError, match="not a regular file, but a pipe"):
        read_trace(tmp_path / "x.json")


def test_a_trace_is_told_from_an_experiment() -> None:
    assert is_trace(DATA / "trace-ST.parquet")
    assert is_trace(DATA / "primus-pp8")
    assert not is_trace(Path(__file__).parents[2] / "configs" / "quickstart.yaml")
    assert not is_trace(DATA / "nothing")
