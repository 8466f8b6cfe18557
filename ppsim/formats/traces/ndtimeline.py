"""NDTimeline's Parquet tables, as ByteDance published them for its straggler analysis.

One row per op: ``dp_rank, stage, rank, step, optype, start_ts, duration, seq_id, mc, mb_id, gmc``; times are float32
seconds that begin at zero in each step; steps are sampled. ``meta-X.yaml`` beside ``trace-X.parquet`` has the sizes.
Source: ByteDance-Seed/StragglerAnalysis, readme.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ppsim.analysis.measured.table import Label, Measured, Rows, Scope
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
COLUMNS = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "mc", "mb_id", "gmc")
_SIZES = ("dp_size", "pp_size", "tp_size", "vpp_size", "world_size")


@file_format("ndtimeline", does="trace", what="NDTimeline's Parquet table, with meta-X.yaml beside trace-X.parquet")
def read(path: Path) -> Measured:
    """A table as a Measured. Raises FormatError where it isn't one."""
    missing: list[str] = []
    notes: list[str] = []
    sizes = _meta(path, missing)
    column = _columns(path)
    where = label(path)
    known, of_label = _labels(column.pop("optype"), notes, where)
    numbers = {name: small(column[name], f"{where}: {name}", -1)[known] for name in ("mc", "mb_id", "gmc")}
    replica, ranks_of_replicas = numbered(small(column["dp_rank"], f"{where}: dp_rank"), "replica", sizes.get("dp_size"), missing)
    rank, ranks = numbered(small(column["stage"], f"{where}: stage"), "rank", sizes.get("pp_size"), missing)
    start = to_ns(column["start_ts"], 1e9, f"{where}: start_ts")
    length = to_ns(column["duration"], 1e9, f"{where}: duration")
    if len(length) and length.min() < 0:
        raise FormatError(f"{where}: duration: row {int(np.argmin(length)) + 1} is negative")
    steps, step = np.unique(column["step"], return_inverse=True)
    worker = _one_worker_each(column["rank"], replica, rank, notes)
    use = known & worker
    keep = worker[known]
    stage = np.where(numbers["gmc"] != NONE, numbers["gmc"], NONE)
    chunk_known = (stage == NONE) & (numbers["mc"] != NONE)
    stage = np.where(chunk_known, numbers["mc"] * ranks + rank[known], stage).astype(np.int32)
    rows = Rows(
        replica[use], step.reshape(-1)[use].astype(np.int32), rank[use], of_label[keep], stage[keep],
        numbers["mb_id"][keep], start[use], (start + length)[use], np.full(int(use.sum()), NONE, np.int32),
    ).sorted()  # fmt: skip
    compute = rows.label < 2
    if not np.any(compute):
        raise FormatError(f"{where}: has no forward-compute and no backward-compute: no pipeline to see")
    if np.any((rows.stage[compute] == NONE) | (rows.microbatch[compute] == NONE)):
        raise FormatError(f"{where}: a compute op lacks its gmc or its mb_id")
    rows.microbatch[rows.label == len(LABELS) - 1] = NONE
    stages = max(int(rows.stage[compute].max()) + 1, ranks * (sizes.get("vpp_size") or 1))
    rows, lost = matched(rows, LABELS, stages)
    names = _names(column["rank"][use], replica[use], rank[use], (ranks_of_replicas, ranks))
    return Measured(
        format="ndtimeline",
        source=str(path),
        labels=LABELS,
        rows=rows,
        ranks=ranks,
        replicas=ranks_of_replicas,
        stages=stages,
        microbatches=int(rows.microbatch[rows.label < 2].max()) + 1,
        steps=tuple(int(number) for number in steps),
        names=names,
        tensor_parallel=sizes.get("tp_size"),
        missing=(*missing, "bytes of messages", "memory"),
        notes=(*notes, *lost),
        clock_ns=float(np.spacing(np.float32(np.abs(column["start_ts"]).max(initial=0)))) * 1e9,
    )


def _columns(path: Path) -> dict[str, np.ndarray]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise FormatError(f"{label(path)}: a Parquet file; reading it needs pyarrow: pip install 'ppsim[parquet]'") from None
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        if absent := [name for name in COLUMNS if name not in names]:
            raise FormatError(
                f"{label(path)}: not an NDTimeline table: lacks the column{'s' if len(absent) > 1 else ''} "
                f"{', '.join(absent)}; has {printable(', '.join(map(str, names))[:200])}"
            )
        table = file.read(columns=list(COLUMNS))
        found = {name: table.column(name).combine_chunks() for name in COLUMNS}
    except (pa.ArrowException, OSError, ValueError, UnicodeDecodeError) as error:
        raise FormatError(f"{label(path)}: damaged Parquet: {printable(str(error))[:200]}") from None
    if not table.num_rows:
        raise FormatError(f"{label(path)}: has no rows")
    out: dict[str, np.ndarray] = {}
    for name, array in found.items():
        if array.null_count:
            raise FormatError(f"{label(path)}: {name}: {array.null_count} empty values")
        try:
            out[name] = np.asarray(array.to_pylist(), object) if name == "optype" else array.to_numpy(zero_copy_only=False)
        except (pa.ArrowException, ValueError, UnicodeDecodeError) as error:
            raise FormatError(f"{label(path)}: {name}: {printable(str(error))[:200]}") from None
        if name != "optype" and out[name].dtype.kind not in ("f" if name in ("start_ts", "duration") else "iu"):
            raise FormatError(f"{label(path)}: {name}: must hold numbers, not {array.type}")
    return out


def _labels(optype: np.ndarray, notes: list[str], where: str) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are of a known kind, and the number of its label for those."""
    number = {each.name: i for i, each in enumerate(LABELS)}
    of = np.array([number.get(name, NONE) for name in optype.tolist()], np.int32)
    known = of != NONE
    if not np.all(known):
        others = sorted({str(name) for name in optype[~known].tolist()})
        notes.append(f"{int((~known).sum())} rows of unknown optype were left out: {printable(', '.join(others)[:120])}")
    return known, of[known]


def _one_worker_each(worker: np.ndarray, replica: np.ndarray, rank: np.ndarray, notes: list[str]) -> np.ndarray:
    """Rows of the first worker of each replica and rank: tensor-parallel ranks do the same at the same time."""
    place = replica.astype(np.int64) * (int(rank.max(initial=0)) + 1) + rank
    order = np.lexsort((worker, place))
    first = np.zeros(int(place.max(initial=0)) + 1, np.int64)
    heads = np.unique(place[order], return_index=True)
    first[heads[0]] = worker[order][heads[1]]
    mine = worker == first[place]
    if not np.all(mine):
        notes.append("of several tensor-parallel workers per stage and replica the first one was taken")
    kept: np.ndarray = mine
    return kept


def _names(worker: np.ndarray, replica: np.ndarray, rank: np.ndarray, shape: tuple[int, int]) -> tuple[tuple[str, ...], ...]:
    names = [["" for _ in range(shape[1])] for _ in range(shape[0])]
    for d, r, w in np.unique(np.stack([replica, rank, worker]), axis=1).T.tolist():
        names[d][r] = f"rank {w}"
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
    except (YAMLError, ValueError) as error:
        raise FormatError(f"{label(beside)}: {printable(str(error).splitlines()[0])}") from None
    if not isinstance(found, dict):
        raise FormatError(f"{label(beside)}: must be a mapping with pp_size, dp_size, …")
    sizes: dict[str, int] = {}
    for key in _SIZES:
        if (value := found.get(key)) is None:
            continue
        if type(value) is not int or not 1 <= value <= 10**6:
            raise FormatError(f"{label(beside)}: {key}: must be a whole number from 1, not {printable(str(value)[:40])}")
        sizes[key] = value
    return sizes
