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
from pathlib import Path

import numpy as np

from ppsim.analysis.measured.table import Measured
from ppsim.engine.watch import Watch
from ppsim.errors import FormatError, printable
from ppsim.formats.base import file_format
from ppsim.formats.traces import _names
from ppsim.formats.traces._files import label
from ppsim.formats.traces._spans import Profile, Spans, on_device, profile
from ppsim.formats.traces._steps import aligned, by_profiler, by_repetition, computing
from ppsim.formats.traces._workers import LABELS, Worker, rows_of
from ppsim.ops import COMPUTE, NONE, Kind, Op


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
    worlds = [each.header.get("distributedInfo") for each in profiles]
    world = max(
        (d["world_size"] for d in worlds if isinstance(d, dict) and type(d.get("world_size")) is int), default=0
    )
    if world > len(profiles):
        missing.append(f"{world - len(profiles)} of the job's {world} ranks: no file has them")
    workers, device = _workers(profiles, notes, missing)
    if not workers:
        raise FormatError("\n".join(_nothing(profiles, name is not None, notes)))
    _stages(workers, notes)
    _into_steps(workers, notes)
    places, ranks, replicas = _places(workers, notes)
    rows, steps = rows_of(workers, places, inside=not device)
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


def _workers(profiles: Sequence[Profile], notes: list[str], missing: list[str]) -> tuple[list[Worker], bool]:
    """Every rank that has spans of a pipeline, and whether the times are a device's."""
    chosen = [(each, on_device(each)) for each in profiles]
    device = any(len(_pipeline(each, spans)) for each, spans in chosen)
    if _on_gpu(profiles) and not device and any(len(each.host) for each in profiles):
        missing.append("device times: the spans are those of the host, which only launches the work")
    lost = 0
    workers: list[Worker] = []
    for number, (each, on) in enumerate(chosen):
        host = (each.host if len(_pipeline(each, each.host.done())) else each.single).done()
        if len(each.single) and not len(each.host):
            notes.append(f"{each.path.name}: spans called 'Forward N' and 'Backward N' are taken, one stage per rank")
        spans = on if device else host
        if device and not len(on) and len(host):
            lost += len(host)
        found = _processes(each, spans)
        workers += found
        if not found and len(profiles) > 1:
            missing.append(f"{each.path.name}: no spans of a pipeline ({number + 1} of {len(profiles)} files)")
    if lost:
        notes.append(f"{lost} spans of the host without a device's time were left out")
    return workers, device


def _pipeline(each: Profile, spans: Spans) -> Spans:
    """Those that are a stage's work."""
    return spans[computing(each.ops)[spans.what]] if len(spans) else spans


def _processes(each: Profile, spans: Spans) -> list[Worker]:
    """A worker for each process of a file that ran some of a pipeline."""
    pids = np.unique(_pipeline(each, spans).pid).tolist()
    called = {number: key for (sort, key), number in each.keys.items() if sort == "pid"}
    alone = len(pids) == 1
    steps, arrivals = each.steps.done(), each.arrivals.done()
    out: list[Worker] = []
    for pid in pids:
        mine = spans[np.flatnonzero(spans.pid == pid)]
        mine = mine[np.lexsort((mine.end, mine.start))]
        came = arrivals if alone else arrivals[np.flatnonzero(arrivals.pid == pid)]
        several = "" if alone else f", process {printable(str(called.get(pid)))[:20]}"
        rank = each.rank if alone else None
        name = f"rank {rank}" if rank is not None else f"{each.path.name}{several}"
        came = came[np.argsort(came.start, kind="stable")]
        numbers = by_profiler(mine, each.ops, steps)
        out.append(Worker(name, mine, each.ops, rank, each.base_ns, came, numbers))
    return out


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


def _stages(workers: list[Worker], notes: list[str]) -> None:
    """Give spans that name no stage their worker's: one stage per rank, in the order of ranks."""
    if any(worker.lacks("stage") for worker in workers):
        if any(worker.rank is None for worker in workers) and len(workers) > 1:
            notes.append("files that name no rank are taken in the order of their names, one stage each")
        workers.sort(key=lambda worker: (worker.rank is None, worker.rank or 0, _natural(worker.name)))
        for stage, worker in enumerate(workers):
            worker.ops = [tuple(_on_stage(op, stage) for op in one) for one in worker.ops]
    if any(worker.lacks("microbatch") for worker in workers):
        raise FormatError(
            "--name: its group microbatch is missing or empty: without it, ops of one stage can't be told apart"
        )


def _on_stage(op: Op, stage: int) -> Op:
    return op if op.kind == Kind.OPTIM else op._replace(stage=stage)


def _natural(text: str) -> list[object]:
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d{1,9})", text)]


def _into_steps(workers: list[Worker], notes: list[str]) -> None:
    """Number the steps of every worker alike."""
    if all(worker.numbers is not None for worker in workers):
        for worker in workers:
            worker.step = worker.numbers if worker.numbers is not None else worker.step
        return
    starts: list[np.ndarray] = []
    for worker in workers:
        worker.step = by_repetition(worker.spans, worker.ops)
        if partial := int((worker.step < 0).sum()):
            notes.append(f"{worker.name}: {partial} spans of a step that began before the trace were left out")
        first = np.searchsorted(worker.step, np.arange(int(worker.step.max(initial=-1)) + 1))
        starts.append(worker.base / 1e3 + worker.spans.start[np.minimum(first, len(worker.step) - 1)])
    if len({len(each) for each in starts}) > 1:
        notes.append(
            "the ranks' traces hold different numbers of steps; those that lie nearest in time are taken together"
        )
        for worker, skip in zip(workers, aligned(starts), strict=True):
            worker.step = np.where(worker.step >= skip, worker.step - skip, NONE)


def _places(workers: list[Worker], notes: list[str]) -> tuple[list[tuple[int, int]], int, int]:
    """(replica, rank in the pipeline) of every worker: by its stages; those with the same stages are replicas."""
    held = [worker.stages for worker in workers]
    rank_of = {stages: rank for rank, stages in enumerate(sorted({*held}, key=lambda each: (min(each), sorted(each))))}
    nth: dict[int, int] = defaultdict(int)
    out: dict[int, tuple[int, int]] = {}
    for number in sorted(range(len(workers)), key=lambda i: (workers[i].rank is None, workers[i].rank or 0, i)):
        rank = rank_of[held[number]]
        out[number] = (nth[rank], rank)
        nth[rank] += 1
    replicas = max(nth.values())
    if replicas > 1:
        notes.append(f"{replicas} workers run the same stages: taken as data-parallel replicas")
    return [out[number] for number in range(len(workers))], len(rank_of), replicas


def _clock(workers: Sequence[Worker]) -> float:
    """The step in which the times are counted: 1 µs where none has a fraction."""
    times = (column for worker in workers for column in (worker.spans.start, worker.spans.end))
    return 1000.0 if all(np.all(column == np.rint(column)) for column in times) else 1.0
