"""ppsim's own ``trace.json``, which keeps every time to the nanosecond.

It doesn't hold a message's flight: that is what is left between its leaving the ports and the start of an op that
waited for it, the least of all between two ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ppsim.analysis.measured.table import Measured, Messages, Rows
from ppsim.engine.watch import Watch
from ppsim.errors import FormatError, printable
from ppsim.formats.base import file_format
from ppsim.formats.traces import _own
from ppsim.formats.traces._events import Events
from ppsim.formats.traces._files import label
from ppsim.ops import NONE, Ints, Kind, Longs, Op, parse_cell

_UNKNOWN = np.iinfo(np.int64).max


@file_format("trace", does="trace", what="ppsim's own trace.json (export --format chrome-trace)")
def read(path: Path, watch: Watch | None = None) -> Measured:
    """A Chrome trace that ppsim wrote as a Measured. Raises FormatError where it isn't one."""
    found = _Found()
    events = Events(path, watch)
    for event in events:
        found.take(event, label(path))
    notes: tuple[str, ...] = ()
    if events.broken:
        notes = (f"ends before its end ({events.broken}); its first {events.count:,} events were read",)
    if not found.rows:
        raise FormatError("; ".join([f"{label(path)}: has no ops in it", *notes]))
    columns = np.array(found.rows, np.int64)
    rows = _own.table([columns[:, i].astype(np.int32) for i in range(5)], columns[:, 5].copy(), columns[:, 6].copy())
    messages = found.messages(rows) if found.sent else None
    missing = () if messages is not None else ("bytes and times of messages",)
    ranks = int(rows.rank.max()) + 1
    memory = np.array([found.most.get(rank, 0) for rank in range(ranks)], np.int64) if found.most else None
    return _own.measured("ppsim-trace", path, _own.Contents(rows, messages, memory, missing, notes))


class _Sent(NamedTuple):
    """What makes a message, and between whom."""

    op: Op
    src: int
    dst: int


@dataclass
class _Way:
    """A message's spans at its two ports."""

    bytes: int = 0
    ready: int = 0
    start: int = 0
    left: int = 0
    egress: object = None
    ingress: object = None


@dataclass
class _Found:
    """What the events say, one at a time."""

    rows: list[tuple[int, ...]] = field(default_factory=list)
    """(rank, step, kind, stage, microbatch, start, end)."""
    sent: dict[_Sent, _Way] = field(default_factory=dict)
    threads: dict[object, str] = field(default_factory=dict)
    most: dict[int, int] = field(default_factory=dict)

    def take(self, event: dict[str, Any], where: str) -> None:
        """One event. Raises FormatError for one that ppsim wouldn't write."""
        sort, args, name = event.get("ph"), event.get("args"), event.get("name")
        if not isinstance(args, dict):
            return
        if sort == "M" and name == "thread_name":
            self.threads[_plain(event.get("tid"))] = str(args.get("name"))
        elif sort == "C" and type(event.get("pid")) is int:
            total = sum(value for value in args.values() if type(value) is int)
            self.most[event["pid"]] = max(self.most.get(event["pid"], 0), min(total, 2**62))
        elif sort == "X" and isinstance(name, str) and name.startswith("PP:"):
            try:
                self._span(event, args, parse_cell(name[3:]))
            except (FormatError, ValueError) as error:
                raise FormatError(f"{where}: span '{printable(name[:60])}': {error}") from None

    def _span(self, event: dict[str, Any], args: dict[str, Any], ops: tuple[Op, ...]) -> None:
        start, length = _us(event.get("ts")), _us(event.get("dur"))
        if "src" not in args:
            rank = _small(event.get("pid"))
            self.rows += [(rank, op.step, int(op.kind), op.stage, op.microbatch, start, start + length) for op in ops]
            return
        key = _Sent(Op.parse(str(args.get("op"))), _small(args.get("src")), _small(args.get("dst")))
        way = self.sent.setdefault(key, _Way())
        way.bytes, way.ready = _small(args.get("bytes"), 2**61), start - _us(args.get("wait_us"))
        way.start, way.left = start, start + length
        if ops[0].kind in (Kind.SEND_F, Kind.SEND_B):
            way.egress = _plain(event.get("tid"))
        else:
            way.ingress = _plain(event.get("tid"))

    def messages(self, rows: Rows) -> Messages:
        """The transfers, with the flight that the ops that waited for them tell."""
        ways = self.sent.values()
        tids = sorted({end for way in ways for end in (way.egress, way.ingress) if end is not None}, key=str)
        number = {tid: i for i, tid in enumerate(tids)}
        about = np.array(
            [(op.step, op.kind, op.stage, op.microbatch, src, dst) for op, src, dst in self.sent], np.int32
        )
        egress, ingress = (
            np.array([number.get(getattr(way, end), NONE) for way in ways], np.int32) for end in ("egress", "ingress")
        )
        step, kind, stage, microbatch, src, dst = about.T
        times = np.array([(way.bytes, way.ready, way.start, way.left) for way in ways], np.int64)
        size, ready, start, left = times.T
        gap = _gaps((step, kind, stage, microbatch), left, rows)
        return Messages(
            step=step, kind=kind, stage=stage, microbatch=microbatch, src=src, dst=dst, bytes=size, ready=ready,
            start=start, left=left, arrive=left + _flight((src, dst), gap), egress=egress, ingress=ingress,
            ports=tuple(self.threads.get(tid, str(tid)) for tid in tids),
        )  # fmt: skip


def _gaps(about: tuple[Ints, ...], left: Longs, rows: Rows) -> Longs:
    """By message, ns from its leaving the ports to the start of the op that uses it."""
    columns = (rows.step.tolist(), rows.label.tolist(), rows.stage.tolist(), rows.microbatch.tolist())
    users = dict(zip(zip(*columns, strict=True), rows.start.tolist(), strict=True))
    gap = np.full(len(left), _UNKNOWN)
    for i, (step, kind, stage, microbatch) in enumerate(zip(*(column.tolist() for column in about), strict=True)):
        takers = (Kind.F,) if kind == Kind.F else (Kind.B, Kind.I)
        next_stage = stage + 1 if kind == Kind.F else stage - 1
        starts = [users[key] for taker in takers if (key := (step, int(taker), next_stage, microbatch)) in users]
        if starts:
            gap[i] = max(min(starts) - int(left[i]), 0)
    return gap


def _flight(ends: tuple[Ints, Ints], gap: Longs) -> Longs:
    """By message, the least gap between its two ranks; 0 where no op tells."""
    pair = np.unique(np.stack(ends), axis=1, return_inverse=True)[1].reshape(-1)
    least = np.full(int(pair.max(initial=-1)) + 1, _UNKNOWN)
    np.minimum.at(least, pair, gap)
    flight: Longs = np.where(least == _UNKNOWN, 0, least)[pair]
    return flight


def _us(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**51:
        raise ValueError("its times must be numbers of µs")
    return round(value * 1000)


def _small(value: object, most: int = 10**6) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError("its pid, src, dst and bytes must be whole numbers")
    return value


def _plain(value: object) -> object:
    return value if isinstance(value, int | str) else str(value)
