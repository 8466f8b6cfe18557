"""What ppsim wrote itself: ``tasks.csv`` with ``transfers.csv`` beside it, or ``trace.json``.

Both keep every time to the nanosecond. A trace doesn't hold a message's flight: it is what is left between its leaving the
ports and the start of an op that waited for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppsim.analysis.measured.table import Label, Measured, Messages, Rows
from ppsim.engine.watch import Watch
from ppsim.errors import FormatError, printable
from ppsim.formats.base import file_format
from ppsim.formats.traces._assemble import numbered, scope_of, small, to_ns
from ppsim.formats.traces._events import Events
from ppsim.formats.traces._files import label, whole
from ppsim.ops import COMPUTE, NONE, Kind, Op, parse_cell

if TYPE_CHECKING:
    import pandas as pd

LABELS = tuple(Label(kind.name, kind, scope_of(kind)) for kind in Kind)
TASKS = ("rank", "step", "stage", "microbatch", "kind", "op", "start_s", "end_s")
_TRANSFERS = ("op", "src", "dst", "bytes", "ready_s", "start_s", "left_s", "arrive_s", "egress", "ingress")


@file_format("tasks", does="trace", what="ppsim's own tasks.csv, with transfers.csv beside it, or a results folder")
def read_tasks(path: Path) -> Measured:
    """A table of tasks as a Measured. Raises FormatError where it isn't one."""
    where = label(path)
    table = _table(path, TASKS)
    kinds = {kind.name: int(kind) for kind in Kind}
    kind = np.array([kinds.get(str(name), NONE) for name in table["kind"].tolist()], np.int32)
    if np.any(kind == NONE):
        row = int(np.argmax(kind == NONE))
        raise FormatError(f"{where}:{row + 2}: kind: '{printable(str(table['kind'][row])[:40])}' is none of {', '.join(kinds)}")
    column = {name: small(table[name], f"{where}: {name}", NONE if name == "microbatch" else 0) for name in ("rank", "step", "stage", "microbatch")}
    start, end = (to_ns(_numbers(table[name], f"{where}: {name}"), 1e9, f"{where}: {name}") for name in ("start_s", "end_s"))
    if np.any(end < start):
        raise FormatError(f"{where}:{int(np.argmax(end < start)) + 2}: end_s is before start_s")
    group = _pairs(kind, start, end)
    rows = Rows(np.zeros(len(kind), np.int32), column["step"], column["rank"], kind, column["stage"], column["microbatch"], start, end, group)
    missing: list[str] = []
    beside = path.with_name("transfers.csv")
    messages = _transfers(beside) if beside.is_file() else None
    if messages is None:
        missing.append("messages: there is no transfers.csv beside it")
    return _measured("ppsim-tasks", path, (rows, messages), missing, _memory(path.with_name("memory.csv"), missing))


@file_format("trace", does="trace", what="ppsim's own trace.json (export --format chrome-trace)")
def read_trace(path: Path, watch: Watch | None = None) -> Measured:
    """A Chrome trace that ppsim wrote as a Measured. Raises FormatError where it isn't one."""
    found = _Found()
    events = Events(path, watch)
    for event in events:
        found.take(event, label(path))
    notes = []
    if events.broken:
        notes.append(f"ends before its end ({events.broken}); its first {events.count:,} events were read")
    if not found.rows:
        raise FormatError("; ".join([f"{label(path)}: has no ops in it", *notes]))
    table = np.array(found.rows, np.int64)
    narrow = [table[:, i].astype(np.int32) for i in range(5)]
    start, end = table[:, 5].copy(), table[:, 6].copy()
    group = _pairs(narrow[2], start, end)
    rows = Rows(np.zeros(len(table), np.int32), narrow[1], narrow[0], narrow[2], narrow[3], narrow[4], start, end, group)
    messages = found.messages(rows) if found.sent else None
    missing: list[str] = [] if messages is not None else ["bytes of messages"]
    peak = {pid: most for pid, most in found.most.items() if 0 <= pid <= int(rows.rank.max())}
    memory = np.array([peak.get(rank, 0) for rank in range(int(rows.rank.max()) + 1)], np.int64) if peak else None
    return _measured("ppsim-trace", path, (rows, messages), missing, memory, notes)


def _measured(
    kind: str, path: Path, found: tuple[Rows, Messages | None], missing: list[str], memory: Any, notes: Sequence[str] = ()
) -> Measured:
    rows, messages = found
    compute = np.isin(rows.label, [int(k) for k in COMPUTE])
    if not np.any(compute):
        raise FormatError(f"{label(path)}: has no forward and no backward in it")
    if np.any(rows.microbatch[compute] < 0):
        raise FormatError(f"{label(path)}: a forward or a backward lacks its microbatch")
    _, ranks = numbered(rows.rank, "rank", None, missing)
    numbers, step = np.unique(rows.step, return_inverse=True)
    rows.step[:] = step.reshape(-1)
    if messages is not None:
        messages.step[:] = np.searchsorted(numbers, messages.step)
    held = None if memory is None or len(numbers) > 1 or len(memory) != ranks else memory[None, :]
    if held is None:
        missing.append("memory")
    return Measured(
        format=kind,
        source=str(path),
        labels=LABELS,
        rows=rows.sorted(),
        ranks=ranks,
        replicas=1,
        stages=int(rows.stage[compute].max()) + 1,
        microbatches=int(rows.microbatch[compute].max()) + 1,
        steps=tuple(numbers.tolist()),
        memory=held,
        messages=messages,
        missing=tuple(missing),
        notes=tuple(notes),
    )


def _pairs(kind: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The groups of fused pairs: neighbours, a forward and a backward, with one and the same span that takes time."""
    group = np.full(len(kind), NONE, np.int32)
    same = (start[1:] == start[:-1]) & (end[1:] == end[:-1]) & (end[1:] > start[1:])
    same &= (kind[:-1] == Kind.F) & np.isin(kind[1:], [int(Kind.B), int(Kind.I)])
    first = np.flatnonzero(same)
    group[first] = group[first + 1] = np.arange(len(first))
    return group


@dataclass
class _Found:
    """What a trace's events say, one at a time."""

    rows: list[tuple[int, ...]] = field(default_factory=list)
    """(rank, step, kind, stage, microbatch, start, end)."""
    sent: dict[tuple[object, ...], dict[str, Any]] = field(default_factory=dict)
    threads: dict[object, str] = field(default_factory=dict)
    most: dict[int, int] = field(default_factory=dict)

    def take(self, event: dict[str, Any], where: str) -> None:
        """One event. Raises FormatError for one that ppsim wouldn't write."""
        sort, args = event.get("ph"), event.get("args")
        if not isinstance(args, dict):
            return
        if sort == "M" and event.get("name") == "thread_name":
            self.threads[_plain(event.get("tid"))] = str(args.get("name"))
        elif sort == "C" and type(event.get("pid")) is int:
            total = sum(value for value in args.values() if type(value) is int)
            pid = event["pid"]
            self.most[pid] = max(self.most.get(pid, 0), min(total, 2**62))
        elif sort == "X" and isinstance(event.get("name"), str) and event["name"].startswith("PP:"):
            self._span(event, args, where)

    def _span(self, event: dict[str, Any], args: dict[str, Any], where: str) -> None:
        try:
            start, length = _us(event.get("ts")), _us(event.get("dur"))
            ops = parse_cell(event["name"][3:])
            if "src" not in args:
                rank = _small(event.get("pid"))
                for op in ops:
                    self.rows.append((rank, op.step, int(op.kind), op.stage, op.microbatch, start, start + length))
                return
            made = Op.parse(str(args.get("op")))
            key = (made, _small(args.get("src")), _small(args.get("dst")))
            end = "egress" if ops[0].kind in (Kind.SEND_F, Kind.SEND_B) else "ingress"
            one = self.sent.setdefault(key, {"bytes": 0, "egress": None, "ingress": None})
            one.update({end: _plain(event.get("tid")), "bytes": _small(args.get("bytes"), 2**61), "start": start,
                        "left": start + length, "ready": start - _us(args.get("wait_us"))})  # fmt: skip
        except (FormatError, ValueError) as error:
            raise FormatError(f"{where}: span '{printable(event['name'][:60])}': {error}") from None

    def messages(self, rows: Rows) -> Messages:
        """The transfers, with the flight that the ops that waited for them tell."""
        made = [(op, src, dst, one) for (op, src, dst), one in self.sent.items()]  # type: ignore[misc]
        tids = sorted({one[end] for *_, one in made for end in ("egress", "ingress") if one[end] is not None}, key=str)
        number = {tid: i for i, tid in enumerate(tids)}
        columns = np.array(
            [
                (op.step, int(op.kind), op.stage, op.microbatch, src, dst, one["bytes"], one["ready"], one["start"],
                 one["left"], *(number.get(one[end], NONE) for end in ("egress", "ingress")))
                for op, src, dst, one in made
            ],
            np.int64,
        ).reshape(-1, 12)  # fmt: skip
        narrow = [columns[:, i].astype(np.int32) for i in (0, 1, 2, 3, 4, 5)]
        ready, start, left = columns[:, 7].copy(), columns[:, 8].copy(), columns[:, 9].copy()
        ports = [columns[:, i].astype(np.int32) for i in (10, 11)]
        arrive = left + _flight(narrow, left, rows)
        names = tuple(self.threads.get(tid, str(tid)) for tid in tids)
        return Messages(*narrow, columns[:, 6].copy(), ready, start, left, arrive, *ports, names)


def _flight(about: list[np.ndarray], left: np.ndarray, rows: Rows) -> np.ndarray:
    """By message, the least time between leaving its ports and the start of its user, over all of its two ranks."""
    step, kind, stage, microbatch, src, dst = about
    users = {
        key: start
        for *key, start in zip(
            rows.step.tolist(), rows.label.tolist(), rows.stage.tolist(), rows.microbatch.tolist(), rows.start.tolist(), strict=True
        )
        for key in [tuple(key)]
    }
    gap = np.full(len(left), np.iinfo(np.int64).max)
    for i, (s, k, at, m) in enumerate(zip(step.tolist(), kind.tolist(), stage.tolist(), microbatch.tolist(), strict=True)):
        wanted = [(s, k, at + 1, m)] if k == Kind.F else [(s, int(Kind.B), at - 1, m), (s, int(Kind.I), at - 1, m)]
        starts = [users[key] for key in wanted if key in users]
        if starts:
            gap[i] = max(min(starts) - int(left[i]), 0)
    pair = np.unique(np.stack([src, dst]), axis=1, return_inverse=True)[1].reshape(-1)
    least = np.full(int(pair.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, pair, gap)
    flight: np.ndarray = np.where(least == np.iinfo(np.int64).max, 0, least)[pair]
    return flight


def _us(value: object) -> int:
    if type(value) not in (int, float) or not abs(value) < 2**51:  # type: ignore[arg-type]
        raise ValueError("its times must be numbers of µs")
    return round(value * 1000)  # type: ignore[operator]


def _small(value: object, most: int = 10**6) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError("its pid, src, dst and bytes must be whole numbers")
    return value


def _plain(value: object) -> object:
    return value if isinstance(value, int | str) else str(value)


def _table(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    import io

    import pandas as pd

    try:
        table = pd.read_csv(io.BytesIO(whole(path, "a table")), keep_default_na=False, na_values={c: [""] for c in columns if c.endswith("_s")})
    except (ValueError, pd.errors.ParserError, UnicodeDecodeError, OverflowError) as error:
        raise FormatError(f"{label(path)}: not a table of comma-separated values: {printable(str(error))[:160]}") from None
    if absent := [name for name in columns if name not in table.columns]:
        raise FormatError(f"{label(path)}: lacks the column{'s' if len(absent) > 1 else ''} {', '.join(absent)}")
    if not len(table):
        raise FormatError(f"{label(path)}: has no rows")
    return table


def _numbers(column: Any, where: str) -> np.ndarray:
    values = np.asarray(column)
    if values.dtype.kind not in "fiu":
        raise FormatError(f"{where}: must hold numbers")
    return values


def _transfers(path: Path) -> Messages | None:
    where = label(path)
    try:
        table = _table(path, _TRANSFERS)
    except FormatError as error:
        if str(error).endswith("has no rows"):
            return None
        raise
    ops = [_op(text, f"{where}:{row + 2}") for row, text in enumerate(table["op"].tolist())]
    about = np.array([(op.step, int(op.kind), op.stage, op.microbatch) for op in ops], np.int32).reshape(-1, 4)
    ends = [small(table[name], f"{where}: {name}") for name in ("src", "dst")]
    sizes = np.asarray(table["bytes"])
    if sizes.dtype.kind not in "iu" or sizes.min() < 0:
        raise FormatError(f"{where}: bytes: must be whole numbers")
    times = [to_ns(_numbers(table[f"{name}_s"], f"{where}: {name}_s"), 1e9, f"{where}: {name}_s") for name in ("ready", "start", "left", "arrive")]
    names = sorted({str(name) for end in ("egress", "ingress") for name in table[end].tolist()} - {""})
    number = {name: i for i, name in enumerate(names)}
    ports = [np.array([number.get(str(name), NONE) for name in table[end].tolist()], np.int32) for end in ("egress", "ingress")]
    columns = [about[:, i].copy() for i in range(4)]
    return Messages(*columns, *ends, sizes.astype(np.int64), *times, *ports, tuple(names))


def _op(text: object, where: str) -> Op:
    try:
        return Op.parse(str(text))
    except FormatError as error:
        raise FormatError(f"{where}: {error}") from None


def _memory(path: Path, missing: list[str]) -> np.ndarray | None:
    """Peak bytes by rank, from the table of memory beside the tasks."""
    if not path.is_file():
        return None
    table = _table(path, ("rank", "total_bytes"))
    rank, total = small(table["rank"], f"{label(path)}: rank"), np.asarray(table["total_bytes"])
    if total.dtype.kind not in "iu":
        missing.append("memory: memory.csv holds no whole numbers")
        return None
    peak = np.zeros(int(rank.max()) + 1, np.int64)
    np.maximum.at(peak, rank, total)
    return peak
