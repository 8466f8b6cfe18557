"""PyTorch's profiler (kineto): traces of ``torch.profiler``, one file per rank, a folder of them, or one of them all.

The spans are those of PyTorch's multi-stage runtime (``PP:2F0``, ``PP:1RECV_F0``, ``PP:0REDUCE_GRAD``; the names repeat
every step), of its single-stage schedules (``Forward 3``), or what ``--name`` finds. Where a device did the work, the
host's span is only the launch: the device's annotation counts, else the kernels that the span launched, else the
device's time isn't known. On a CPU an op's span includes the wait for its input, which is taken off where the receive
was recorded.
Source: torch/distributed/pipelining/schedules.py and torch/profiler (PyTorch 2.13); pytorch/kineto, output_json.cpp.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ppsim.analysis.measured.table import Label, Measured, Rows
from ppsim.engine.watch import Watch
from ppsim.errors import FormatError, printable
from ppsim.formats.base import file_format
from ppsim.formats.traces import _names
from ppsim.formats.traces._assemble import scope_of
from ppsim.formats.traces._files import label
from ppsim.formats.traces._spans import Profile, Span, on_device, profile
from ppsim.formats.traces._steps import aligned, by_profiler, by_repetition
from ppsim.ops import COMPUTE, NONE, Kind, Op

LABELS = tuple(Label(kind.name, kind, scope_of(kind)) for kind in Kind)
_RECEIVES = (Kind.RECV_F, Kind.RECV_B)
_OF_RECEIVE = {Kind.F: Kind.RECV_F, Kind.B: Kind.RECV_B, Kind.I: Kind.RECV_B}


@dataclass
class _Worker:
    """One rank's spans in the order of time, in ns since the epoch of its clock."""

    name: str
    spans: list[Span]
    rank: int | None
    stages: frozenset[int]
    base: int
    step: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    arrivals: list[tuple[float, float]] = field(default_factory=list)


@file_format(
    "kineto", does="trace", what="PyTorch profiler's traces, one or a folder with one per rank, .json or .json.gz"
)
def read(paths: Sequence[Path], name: str | None = None, watch: Watch | None = None) -> Measured:
    """The traces of a job's ranks as a Measured. Raises FormatError where no pipeline is in them."""
    own = _names.pattern(name) if name is not None else None
    missing: list[str] = ["bytes of messages", "memory"]
    notes: list[str] = []
    profiles = [profile(path, own, watch) for path in paths]
    notes += [
        f"{each.path.name} ends before its end ({each.broken}); its first {each.events:,} events were read"
        for each in profiles
        if each.broken
    ]
    workers, device = _workers(profiles, notes, missing)
    if not workers:
        raise FormatError("\n".join(_nothing(profiles, name is not None, notes)))
    _stages(workers, notes)
    _into_steps(workers, notes)
    places, ranks, replicas = _places(workers, notes)
    rows, steps = _rows(workers, places, inside=not device)
    compute = np.isin(rows.label, [int(kind) for kind in COMPUTE])
    if not np.any(compute):
        raise FormatError(f"{label(paths[0])}: has steps, but no forward and no backward in them")
    stages = int(rows.stage[compute].max()) + 1
    if absent := sorted({*range(stages)} - {*rows.stage[compute].tolist()}):
        missing.append(f"stage {', '.join(map(str, absent[:8]))} of {stages}: no file has it")
    source = paths[0] if len(paths) == 1 else paths[0].parent
    names = [["" for _ in range(ranks)] for _ in range(replicas)]
    for worker, (replica, rank) in zip(workers, places, strict=True):
        names[replica][rank] = worker.name
    return Measured(
        format="kineto",
        source=str(source),
        labels=LABELS,
        rows=rows,
        ranks=ranks,
        replicas=replicas,
        stages=stages,
        microbatches=int(rows.microbatch[compute].max()) + 1,
        steps=steps,
        names=tuple(map(tuple, names)),
        on_device=None if any(not each.has_device for each in profiles) and device else device or not _on_gpu(profiles),
        missing=tuple(missing),
        notes=tuple(notes),
        clock_ns=_clock(workers),
    )


def _on_gpu(profiles: Sequence[Profile]) -> bool:
    return any(each.has_device for each in profiles)


def _workers(profiles: Sequence[Profile], notes: list[str], missing: list[str]) -> tuple[list[_Worker], bool]:
    """Every rank that has spans of a pipeline, and whether the times are a device's."""
    chosen = [(each, on_device(each)) for each in profiles]
    device = any(spans for _, spans in chosen)
    if _on_gpu(profiles) and not device and any(each.host for each in profiles):
        missing.append("device times: the spans are those of the host, which only launches the work")
    lost = 0
    workers: list[_Worker] = []
    for number, (each, spans) in enumerate(chosen):
        host = each.host or each.single
        if each.host == [] and each.single:
            notes.append(f"{each.path.name}: spans called 'Forward N' and 'Backward N' are taken, one stage per rank")
        if device and not spans and host:
            lost += len(host)
            continue
        by_process: dict[object, list[Span]] = defaultdict(list)
        for span in spans if device else host:
            by_process["device" if device else span.pid].append(span)
        for pid, mine in by_process.items():
            if not any(op.kind in COMPUTE for span in mine for op in span.ops):
                continue
            several = f", process {printable(str(pid))[:20]}" if len(by_process) > 1 else ""
            rank = each.rank if len(by_process) == 1 else None
            called = f"rank {rank}" if rank is not None else f"{each.path.name}{several}"
            workers.append(
                _Worker(called, sorted(mine, key=lambda s: (s.start, s.end)), rank, frozenset(), each.base_ns)
            )
            workers[-1].arrivals = sorted((s, e) for p, s, e in each.arrivals if len(by_process) == 1 or p == pid)
            workers[-1].numbers = by_profiler(workers[-1].spans, each.steps) or []
        if not by_process and len(profiles) > 1:
            missing.append(f"{each.path.name}: no spans of a pipeline ({number + 1} of {len(profiles)} files)")
    if lost:
        notes.append(f"{lost} spans of the host without a device's time were left out")
    return workers, device


def _nothing(profiles: Sequence[Profile], named: bool, notes: list[str]) -> list[str]:
    """What there is where no pipeline is."""
    lines = [
        f"{label(profiles[0].path if len(profiles) == 1 else profiles[0].path.parent)}: no pipeline in it: "
        + (
            "no span that --name finds"
            if named
            else "no span called as PyTorch's runtime calls them (PP:2F0), and no --name given"
        )
    ]
    for each in profiles[:4]:
        rank = f"rank {each.rank}" if each.rank is not None else "no rank in it"
        kinds = ", ".join(f"{count} {printable(kind)[:30]}" for kind, count in each.categories.most_common(5))
        lines.append(f"  {each.path.name}: {rank}; {each.events:,} events ({kinds or 'no spans'})")
        if each.send_recv_kernels:
            what = (
                " beside all-to-alls: those are their sends and receives, not a pipeline's" if each.all_to_all else ""
            )
            lines.append(f"  {each.path.name}: {each.send_recv_kernels} SendRecv kernels{what}")
    return [*lines, *(f"  {note}" for note in notes)]


def _stages(workers: list[_Worker], notes: list[str]) -> None:
    """Give spans that name no stage their worker's: one stage per rank, in the order of ranks."""
    if not all(
        op.stage != NONE for worker in workers for span in worker.spans for op in span.ops if op.kind in COMPUTE
    ):
        if any(worker.rank is None for worker in workers) and len(workers) > 1:
            notes.append("files that name no rank are taken in the order of their names, one stage each")
        workers.sort(key=lambda worker: (worker.rank is None, worker.rank or 0, _natural(worker.name)))
        for stage, worker in enumerate(workers):
            worker.spans = [_with_stage(span, stage) for span in worker.spans]
    if any(
        op.microbatch == NONE for worker in workers for span in worker.spans for op in span.ops if op.kind in COMPUTE
    ):
        raise FormatError(
            "--name: its group microbatch is missing or empty: without it, ops of one stage can't be told apart"
        )
    for worker in workers:
        worker.stages = frozenset(op.stage for span in worker.spans for op in span.ops if op.kind in COMPUTE)


def _with_stage(span: Span, stage: int) -> Span:
    return replace(span, ops=tuple(op._replace(stage=stage) if op.kind != Kind.OPTIM else op for op in span.ops))


def _natural(text: str) -> list[object]:
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d{1,9})", text)]


def _into_steps(workers: list[_Worker], notes: list[str]) -> None:
    """Number the steps of every worker alike."""
    if all(worker.numbers for worker in workers):
        for worker in workers:
            worker.step = worker.numbers
        return
    for worker in workers:
        worker.step = by_repetition(worker.spans)
        partial = sum(step < 0 for step in worker.step)
        if partial:
            notes.append(f"{worker.name}: {partial} spans of a step that began before the trace were left out")
    starts = [
        [worker.base / 1e3 + min(s.start for s, n in zip(worker.spans, worker.step, strict=True) if n == step)
         for step in range(max(worker.step, default=-1) + 1)]
        for worker in workers
    ]  # fmt: skip
    if len({len(each) for each in starts}) > 1:
        notes.append(
            "the ranks' traces hold different numbers of steps; those that lie nearest in time are taken together"
        )
        for worker, skip in zip(workers, aligned(starts), strict=True):
            worker.step = [step - skip if step >= skip else -1 for step in worker.step]


def _places(workers: list[_Worker], notes: list[str]) -> tuple[list[tuple[int, int]], int, int]:
    """(replica, rank in the pipeline) of every worker: by its stages; those with the same stages are replicas."""
    kinds = sorted({worker.stages for worker in workers}, key=lambda held: (min(held), sorted(held)))
    rank_of = {held: rank for rank, held in enumerate(kinds)}
    nth: dict[int, int] = defaultdict(int)
    out: dict[int, tuple[int, int]] = {}
    for number in sorted(range(len(workers)), key=lambda i: (workers[i].rank is None, workers[i].rank or 0, i)):
        rank = rank_of[workers[number].stages]
        out[number] = (nth[rank], rank)
        nth[rank] += 1
    replicas = max(nth.values())
    if replicas > 1:
        notes.append(f"{replicas} workers run the same stages: taken as data-parallel replicas")
    return [out[number] for number in range(len(workers))], len(kinds), replicas


def _rows(workers: list[_Worker], places: list[tuple[int, int]], inside: bool) -> tuple[Rows, tuple[int, ...]]:
    """All spans as rows, and the numbers of the steps; ``inside``: an op's span includes the wait for its input."""
    origin = min(worker.base + round(worker.spans[0].start * 1000) for worker in workers)
    table: list[tuple[int, ...]] = []
    fused = 0
    for worker, (replica, rank) in zip(workers, places, strict=True):
        arrived = _arrivals(worker) if inside else {}
        for span, step in zip(worker.spans, worker.step, strict=True):
            if step < 0:
                continue
            start, end = (worker.base - origin + round(time * 1000) for time in (span.start, span.end))
            group = NONE
            if len(span.ops) > 1:
                group, fused = fused, fused + 1
            for op in span.ops:
                came = arrived.get((step, op.kind, op.stage, op.microbatch))
                began, ended = start, end
                if came is not None:
                    at = worker.base - origin + round(came * 1000)
                    began, ended = (start, max(at, start)) if op.kind in _RECEIVES else (min(max(start, at), end), end)
                table.append((replica, step, rank, int(op.kind), op.stage, op.microbatch, began, ended, group))
    columns = np.array(table, np.int64).reshape(-1, 9)
    numbers, places_of = np.unique(columns[:, 1], return_inverse=True)
    columns[:, 1] = places_of.reshape(-1)
    replicas, steps, ranks, labels, stages, microbatches, groups = columns[:, [0, 1, 2, 3, 4, 5, 8]].T.astype(np.int32)
    times = columns[:, 6].copy(), columns[:, 7].copy()
    rows = Rows(replicas, steps, ranks, labels, stages, microbatches, *times, groups)
    return rows.sorted(), tuple(numbers.tolist())


def _arrivals(worker: _Worker) -> dict[tuple[int, int, int, int], float]:
    """When the message of each receive, and so of the op that uses it, had arrived, where gloo recorded that."""
    starts = np.array([start for start, _ in worker.arrivals])
    out: dict[tuple[int, int, int, int], float] = {}
    if not len(starts):
        return out
    for span, step in zip(worker.spans, worker.step, strict=True):
        op: Op = span.ops[0]
        if op.kind not in _RECEIVES:
            continue
        first, last = np.searchsorted(starts, [span.start, span.end])
        if last > first:
            came = max(end for _, end in worker.arrivals[first:last])
            users = [kind for kind, receive in _OF_RECEIVE.items() if receive == op.kind]
            for kind in (op.kind, *users):
                out[step, int(kind), op.stage, op.microbatch] = came
    return out


def _clock(workers: Sequence[_Worker]) -> float:
    """The step in which the times are counted: 1 µs where none has a fraction."""
    whole = all(span.start.is_integer() and span.end.is_integer() for worker in workers for span in worker.spans)
    return 1000.0 if whole else 1.0
