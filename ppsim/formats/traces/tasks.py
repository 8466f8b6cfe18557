"""ppsim's own ``tasks.csv``, with ``transfers.csv`` and ``memory.csv`` beside it: times to the nanosecond."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppsim.analysis.measured.table import Measured, Messages
from ppsim.errors import FormatError, printable
from ppsim.formats.base import file_format
from ppsim.formats.traces import _own
from ppsim.formats.traces._assemble import small, to_ns
from ppsim.formats.traces._files import label, whole
from ppsim.ops import NONE, Ints, Kind, Longs, Op

if TYPE_CHECKING:
    import pandas as pd

_TASKS = ("rank", "step", "stage", "microbatch", "kind", "start_s", "end_s")
_TRANSFERS = ("op", "src", "dst", "bytes", "ready_s", "start_s", "left_s", "arrive_s", "egress", "ingress")


@file_format("tasks", does="trace", what="ppsim's own tasks.csv, with transfers.csv beside it, or a results folder")
def read(path: Path) -> Measured:
    """A table of tasks as a Measured. Raises FormatError where it isn't one."""
    where = label(path)
    found = _table(path, _TASKS)
    kind = _kinds(found["kind"].tolist(), where)
    rank, step, stage = (_small(found, name, where) for name in ("rank", "step", "stage"))
    microbatch = _small(found, "microbatch", where, NONE)
    start, end = (_ns(found, name, where) for name in ("start_s", "end_s"))
    if np.any(end < start):
        raise FormatError(f"{where}:{int(np.argmax(end < start)) + 2}: end_s is before start_s")
    messages = _transfers(path.with_name("transfers.csv"))
    missing = () if messages is not None else ("messages: there is no transfers.csv beside it",)
    rows = _own.table((rank, step, kind, stage, microbatch), start, end)
    memory = _memory(path.with_name("memory.csv"))
    return _own.measured("ppsim-tasks", path, _own.Contents(rows, messages, memory, missing))


def _table(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    raw = io.BytesIO(whole(path, "a table"))
    try:
        found = pd.read_csv(raw, keep_default_na=False)
    except (ValueError, pd.errors.ParserError, UnicodeDecodeError, OverflowError) as error:
        why = printable(str(error))[:160]
        raise FormatError(f"{label(path)}: not a table of comma-separated values: {why}") from None
    if absent := [name for name in columns if name not in found.columns]:
        raise FormatError(f"{label(path)}: lacks the column{'s' if len(absent) > 1 else ''} {', '.join(absent)}")
    if not len(found):
        raise FormatError(f"{label(path)}: has no rows")
    return found


def _kinds(names: list[Any], where: str) -> Ints:
    known = {kind.name: int(kind) for kind in Kind}
    kinds = np.array([known.get(str(name), NONE) for name in names], np.int32)
    if np.any(kinds == NONE):
        row = int(np.argmax(kinds == NONE))
        raise FormatError(f"{where}:{row + 2}: kind: '{printable(str(names[row])[:40])}' is none of {', '.join(known)}")
    return kinds


def _small(found: pd.DataFrame, name: str, where: str, least: int = 0) -> Ints:
    return small(np.asarray(found[name]), f"{where}: {name}", least)


def _ns(found: pd.DataFrame, name: str, where: str) -> Longs:
    values = np.asarray(found[name])
    if values.dtype.kind not in "fiu":
        raise FormatError(f"{where}: {name}: must hold numbers of seconds")
    return to_ns(values, 1e9, f"{where}: {name}")


def _transfers(path: Path) -> Messages | None:
    """The messages, where there is a table of them with rows in it."""
    if not path.is_file():
        return None
    where = label(path)
    try:
        found = _table(path, _TRANSFERS)
    except FormatError as error:
        if str(error).endswith("has no rows"):
            return None
        raise
    ops = [_op(text, f"{where}:{row + 2}") for row, text in enumerate(found["op"].tolist())]
    about = np.array([(op.step, int(op.kind), op.stage, op.microbatch) for op in ops], np.int32).reshape(-1, 4)
    size = np.asarray(found["bytes"])
    if size.dtype.kind not in "iu" or size.min() < 0:
        raise FormatError(f"{where}: bytes: must be whole numbers")
    ready, start, left, arrive = (_ns(found, f"{name}_s", where) for name in ("ready", "start", "left", "arrive"))
    names = sorted({str(name) for end in ("egress", "ingress") for name in found[end].tolist()} - {""})
    number = {name: i for i, name in enumerate(names)}
    egress, ingress = (
        np.array([number.get(str(name), NONE) for name in found[end].tolist()], np.int32)
        for end in ("egress", "ingress")
    )
    return Messages(
        step=about[:, 0], kind=about[:, 1], stage=about[:, 2], microbatch=about[:, 3],
        src=_small(found, "src", where), dst=_small(found, "dst", where), bytes=size.astype(np.int64),
        ready=ready, start=start, left=left, arrive=arrive, egress=egress, ingress=ingress, ports=tuple(names),
    )  # fmt: skip


def _op(text: object, where: str) -> Op:
    try:
        return Op.parse(str(text))
    except FormatError as error:
        raise FormatError(f"{where}: {error}") from None


def _memory(path: Path) -> Longs | None:
    """Peak bytes by rank, from the table of memory beside the tasks."""
    if not path.is_file():
        return None
    found = _table(path, ("rank", "total_bytes"))
    rank, total = _small(found, "rank", label(path)), np.asarray(found["total_bytes"])
    if total.dtype.kind not in "iu":
        raise FormatError(f"{label(path)}: total_bytes: must be whole numbers")
    peak = np.zeros(int(rank.max()) + 1, np.int64)
    np.maximum.at(peak, rank, total.astype(np.int64))
    return peak
