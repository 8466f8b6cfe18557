"""NDTimeline's Parquet tables, as ByteDance published them for its straggler analysis.

One row per op: ``dp_rank, stage, rank, step, optype, start_ts, duration, seq_id, mc, mb_id, gmc``; times are float32
seconds that begin at zero in each step; steps are sampled. ``meta-X.yaml`` beside ``trace-X.parquet`` has the sizes.
Source: ByteDance-Seed/StragglerAnalysis, readme.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppsim.analysis.measured.table import Flags, Label, Measured, Rows, Scope
from ppsim.errors import FormatError, printable
from ppsim.formats.base import file_format
from ppsim.formats.traces._assemble import matched, numbered, small, to_ns
from ppsim.formats.traces._files import label, whole
from ppsim.ops import NONE, Kind

LABELS = (
    Label("forward-compute", Kind.F),
    Label("backward-compute", Kind.B),
    Label("forward-recv", Kind.RECV_F, Scope.PAIR, "forward-pp-comm"),
    Label("forward-send", Kind.SEND_F, Scope.PAIR, "forward-pp-comm"),
    Label("backward-recv", Kind.RECV_B, Scope.PAIR, "backward-pp-comm"),
    Label("backward-send", Kind.SEND_B, Scope.PAIR, "backward-pp-comm"),
    Label("params-all-gather", Kind.UNSHARD, Scope.REPLICAS),
    Label("grads-reduce-scatter", Kind.REDUCE_GRAD, Scope.REPLICAS),
    Label("separate-grads-all-reduce", Kind.REDUCE_GRAD, Scope.REPLICAS),
    Label("layernorm-grads-all-reduce", Kind.REDUCE_GRAD, Scope.ALONE),
    Label("embedding-grads-all-reduce", Kind.REDUCE_GRAD, Scope.ENDS),
    Label("optimizer-clip-main-grad", Kind.OPTIM, Scope.ALL),
    Label("optimizer", Kind.OPTIM, Scope.ALONE),
    Label("gc", None, Scope.ALONE),
)
_COMPUTES = 2
"""The first labels are the compute ops."""
_TIMES = ("start_ts", "duration")
_NUMBERS = ("dp_rank", "stage", "rank", "step", "mc", "mb_id", "gmc")
_SIZES = ("dp_size", "pp_size", "tp_size", "vpp_size", "world_size")
Columns = dict[str, NDArray[Any]]


@file_format("ndtimeline", does="trace", what="NDTimeline's Parquet table, with meta-X.yaml beside trace-X.parquet")
def read(path: Path) -> Measured:
    """A table as a Measured. Raises FormatError where it isn't one."""
    where = label(path)
    missing, notes = ["bytes of messages", "memory"], list[str]()
    sizes = _meta(path, missing)
    column = _columns(path)
    clock = float(np.spacing(np.abs(column["start_ts"]).max(initial=0)))
    column = _one_worker_each(_known(column, notes), notes)
    replicas = numbered(small(column["dp_rank"], f"{where}: dp_rank"), "replica", sizes.get("dp_size"), missing)
    ranks = numbered(small(column["stage"], f"{where}: stage"), "rank", sizes.get("pp_size"), missing)
    rows, steps = _rows(column, ranks, where)
    compute = rows.label < _COMPUTES
    if not np.any(compute):
        raise FormatError(f"{where}: has no forward-compute and no backward-compute: no pipeline to see")
    if np.any((rows.stage[compute] == NONE) | (rows.microbatch[compute] == NONE)):
        raise FormatError(f"{where}: a compute op lacks its gmc or its mb_id")
    stages = max(int(rows.stage[compute].max()) + 1, ranks * sizes.get("vpp_size", 1))
    microbatches = int(rows.microbatch[compute].max()) + 1
    rows, lost = matched(rows, LABELS, stages)
    return Measured(
        format="ndtimeline",
        source=str(path),
        labels=LABELS,
        rows=rows,
        ranks=ranks,
        replicas=replicas,
        stages=stages,
        microbatches=microbatches,
        steps=steps,
        names=_names(column, (replicas, ranks)),
        tensor_parallel=sizes.get("tp_size"),
        missing=tuple(missing),
        notes=(*notes, *lost),
        clock_ns=clock * 1e9,
    )


def _rows(column: Columns, ranks: int, where: str) -> tuple[Rows, tuple[int, ...]]:
    """The table's rows, without the messages' stages, and the numbers of its steps."""
    chunk, microbatch, stage = (small(column[name], f"{where}: {name}", NONE) for name in ("mc", "mb_id", "gmc"))
    start, length = (to_ns(column[name], 1e9, f"{where}: {name}") for name in _TIMES)
    if len(length) and int(length.min()) < 0:
        raise FormatError(f"{where}: duration: the {int(np.argmin(length)) + 1}th is negative")
    steps, step = np.unique(column["step"], return_inverse=True)
    rank = column["stage"].astype(np.int32)
    of_chunk = (stage == NONE) & (chunk != NONE)
    stage = np.where(of_chunk, chunk * ranks + rank, stage).astype(np.int32)
    of_compute = column["label"] < _COMPUTES  # others have numbers there that mean nothing
    rows = Rows(
        column["dp_rank"].astype(np.int32), step.reshape(-1).astype(np.int32), rank, column["label"], stage,
        np.where(of_compute, microbatch, NONE).astype(np.int32), start, start + length,
        np.full(len(start), NONE, np.int32),
    )  # fmt: skip
    return rows.sorted(), tuple(int(number) for number in steps)


def _columns(path: Path) -> Columns:
    """The table, column by column. Raises FormatError where it can't be read or lacks some."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        how = "pip install 'ppsim[parquet]'"
        raise FormatError(f"{label(path)}: a Parquet file; reading it needs pyarrow: {how}") from None
    wanted = ("optype", *_TIMES, *_NUMBERS)
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        if absent := [name for name in wanted if name not in names]:
            has = printable(", ".join(map(str, names))[:200])
            raise FormatError(f"{label(path)}: not an NDTimeline table: lacks {', '.join(absent)}; has {has}")
        table = file.read(columns=list(wanted))
        if not table.num_rows:
            raise FormatError(f"{label(path)}: has no rows")
        out: Columns = {}
        for name in wanted:
            array = table.column(name).combine_chunks()
            if array.null_count:
                raise FormatError(f"{label(path)}: {name}: {array.null_count} empty values")
            out[name] = np.asarray(array.to_pylist(), object) if name == "optype" else array.to_numpy(False)
            if name != "optype" and out[name].dtype.kind not in ("f" if name in _TIMES else "iu"):
                raise FormatError(f"{label(path)}: {name}: must hold numbers, not {array.type}")
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise FormatError(f"{label(path)}: damaged Parquet: {printable(str(error))[:200]}") from None
    return out


def _known(column: Columns, notes: list[str]) -> Columns:
    """Rows of a known kind, with its label's number as a column of their own."""
    number = {each.name: i for i, each in enumerate(LABELS)}
    of = np.array([number.get(name, NONE) for name in column["optype"].tolist()], np.int32)
    known = of != NONE
    if not np.all(known):
        others = printable(", ".join(sorted({str(name) for name in column["optype"][~known].tolist()}))[:120])
        notes.append(f"{int((~known).sum())} rows of unknown optype were left out: {others}")
    rest = {name: values[known] for name, values in column.items() if name != "optype"}
    return {**rest, "label": of[known]}


def _one_worker_each(column: Columns, notes: list[str]) -> Columns:
    """Rows of the first worker of each replica and rank: tensor-parallel ranks do the same at the same time."""
    place = np.stack([column["dp_rank"], column["stage"]]).astype(np.int64)
    _, where = np.unique(place, axis=1, return_inverse=True)
    where = where.reshape(-1)
    first = np.full(int(where.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, where, column["rank"].astype(np.int64))
    mine: Flags = column["rank"] == first[where]
    if np.all(mine):
        return column
    notes.append("of several tensor-parallel workers per stage and replica the first one was taken")
    return {name: values[mine] for name, values in column.items()}


def _names(column: Columns, shape: tuple[int, int]) -> tuple[tuple[str, ...], ...]:
    names = [["" for _ in range(shape[1])] for _ in range(shape[0])]
    workers = np.unique(np.stack([column[name].astype(np.int64) for name in ("dp_rank", "stage", "rank")]), axis=1)
    for replica, rank, worker in workers.T.tolist():
        names[replica][rank] = f"rank {worker}"
    return tuple(map(tuple, names))


def _meta(path: Path, missing: list[str]) -> dict[str, int]:
    """The sizes in the file beside it, where there is one."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    beside = path.with_name(f"{path.stem.replace('trace', 'meta', 1)}.yaml")
    if beside == path or not beside.is_file():
        missing.append(f"sizes: there is no {printable(beside.name)} beside the trace; they were counted instead")
        return {}
    try:
        found: Any = YAML(typ="safe").load(whole(beside, "sizes", 1 << 20))
    except (YAMLError, ValueError, RecursionError) as error:
        raise FormatError(f"{label(beside)}: {printable(str(error).splitlines()[0])[:200]}") from None
    if not isinstance(found, dict):
        raise FormatError(f"{label(beside)}: must be a mapping with pp_size, dp_size, …")
    sizes: dict[str, int] = {}
    for key in _SIZES:
        value = found.get(key)
        if value is None:
            continue
        if type(value) is not int or not 1 <= value <= 10**6:
            raise FormatError(f"{label(beside)}: {key}: must be a whole number from 1, not {_text(value)}")
        sizes[key] = value
    return sizes


def _text(value: object) -> str:
    return printable(str(value)[:40])
