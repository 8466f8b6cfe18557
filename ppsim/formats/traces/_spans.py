"""What one profiler's file holds: its pipeline's spans, on the host or on the device, and what else it says.

Spans are columns of numbers that grow, some forty bytes each, so that a file of many millions fits into memory.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppsim.engine.watch import Watch
from ppsim.errors import FormatError
from ppsim.formats.traces import _names
from ppsim.formats.traces._events import Events
from ppsim.formats.traces._files import label
from ppsim.ops import Ints, Longs, Op

_STEP = re.compile(r"ProfilerStep#(\d{1,9})", re.ASCII)
_DEVICE = "gpu_user_annotation"
_LAUNCHES = ("cuda_runtime", "cuda_driver", "hip_runtime", "privateuse1_runtime")
_RECEIVED = "gloo:recv"
_MOST_SPANS = 50_000_000
_NO_ID = -1
Times = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Spans:
    """Spans as columns; ``what`` numbers their ops, ``pid`` and ``tid`` processes and threads; times in µs, as read."""

    what: Ints
    pid: Ints
    tid: Ints
    start: Times
    end: Times
    external: Longs
    """What ties a device's span to the host's (-1: nothing)."""

    def __len__(self) -> int:
        return len(self.what)

    def __getitem__(self, key: NDArray[Any] | slice) -> Spans:
        what, pid, tid = self.what[key], self.pid[key], self.tid[key]
        return Spans(what, pid, tid, self.start[key], self.end[key], self.external[key])


@dataclass
class _Growing:
    """Spans while they are read."""

    whats: array[int] = field(default_factory=lambda: array("i"))
    pids: array[int] = field(default_factory=lambda: array("i"))
    tids: array[int] = field(default_factory=lambda: array("i"))
    starts: array[float] = field(default_factory=lambda: array("d"))
    ends: array[float] = field(default_factory=lambda: array("d"))
    externals: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.whats)

    def add(self, what: int, place: tuple[int, int], times: tuple[float, float], external: int = _NO_ID) -> None:
        """One more."""
        self.whats.append(what)
        self.pids.append(place[0])
        self.tids.append(place[1])
        self.starts.append(times[0])
        self.ends.append(times[1])
        self.externals.append(external)

    def done(self) -> Spans:
        """As they are."""
        what, pid, tid = (
            np.frombuffer(column, np.intc).astype(np.int32) for column in (self.whats, self.pids, self.tids)
        )
        start, end = (np.frombuffer(column, np.float64) for column in (self.starts, self.ends))
        return Spans(what, pid, tid, start, end, np.frombuffer(self.externals, np.int64))


@dataclass
class Profile:
    """One file: spans by where they were recorded, the profiler's own steps, and what tells device times."""

    path: Path
    header: dict[str, Any] = field(default_factory=dict)
    broken: str | None = None
    events: int = 0
    ops: list[tuple[Op, ...]] = field(default_factory=list)
    """By their numbers."""
    keys: dict[tuple[str, object], int] = field(default_factory=dict)
    """Numbers of processes and threads, as the file calls them."""
    host: _Growing = field(default_factory=_Growing)
    device: _Growing = field(default_factory=_Growing)
    single: _Growing = field(default_factory=_Growing)
    """Spans called 'Forward 3', of PyTorch's schedules with one stage per rank."""
    steps: _Growing = field(default_factory=_Growing)
    """The profiler's own; ``what`` is their number."""
    arrivals: _Growing = field(default_factory=_Growing)
    """What gloo itself recorded of its receives: from posted to arrived."""
    launches: _Growing = field(default_factory=_Growing)
    kernels: _Growing = field(default_factory=_Growing)
    """Both with their correlation as ``external``."""
    categories: Counter[str] = field(default_factory=Counter)
    send_recv_kernels: int = 0
    all_to_all: int = 0
    known: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """By the name of a span of the pipeline, the number of its ops and whether it is one of a single stage's."""
    places: dict[tuple[object, object], tuple[int, int]] = field(default_factory=dict)
    """By process and thread, as the file calls them, their numbers."""

    @property
    def rank(self) -> int | None:
        """The global rank that the file itself names."""
        info = self.header.get("distributedInfo")
        rank = info.get("rank") if isinstance(info, dict) else None
        return rank if type(rank) is int and 0 <= rank < 10**9 else None

    @property
    def base_ns(self) -> int:
        """What the file's times count from."""
        base = self.header.get("baseTimeNanoseconds")
        return base if type(base) is int and abs(base) < 2**62 else 0

    @property
    def has_device(self) -> bool:
        """Whether there was a device that did work."""
        return bool(len(self.kernels) or len(self.device))

    def named(self, name: str, own_name: _names.Namer | None) -> tuple[int, bool] | None:
        """The number of the ops that spans of a name stand for, and whether it is a single stage's; None: no op."""
        if (found := self.known.get(name)) is not None:
            return found
        ops = (own_name or _names.pytorch)(name)
        single = _names.single_stage(name) if ops is None and own_name is None else None
        if ops is None and single is None:
            return None
        self.ops.append(ops or single or ())
        self.known[name] = found = (len(self.ops) - 1, ops is None)
        return found

    def place(self, event: dict[str, Any]) -> tuple[int, int]:
        """The numbers of an event's process and thread."""
        pid, tid = _key(event.get("pid")), _key(event.get("tid"))
        if (found := self.places.get((pid, tid))) is None:
            a, b = (self.keys.setdefault(key, len(self.keys)) for key in (("pid", pid), ("tid", tid)))
            self.places[pid, tid] = found = (a, b)
        return found


def profile(path: Path, own_name: _names.Namer | None, watch: Watch | None = None) -> Profile:
    """Read one file. Raises FormatError where it isn't a trace at all."""
    events = Events(path, watch)
    found = Profile(path)
    for event in events:
        if event.get("ph") != "X":
            continue
        name, category = event.get("name"), event.get("cat")
        if not isinstance(name, str) or not isinstance(category, str):
            name, category = str(name), str(category)
        found.categories[category] += 1
        if category == "kernel" or category in _LAUNCHES:
            _launched(found, event, (name, category))
        else:
            _take(found, event, (name, category), own_name)
    found.header, found.broken, found.events = events.header, events.broken, events.count
    if not found.events and "traceEvents" not in found.header:
        raise FormatError(f"{label(path)}: not a trace: {found.broken or 'it has no traceEvents'}")
    return found


def _take(found: Profile, event: dict[str, Any], about: tuple[str, str], own_name: _names.Namer | None) -> None:
    """Keep of one event what is needed of it."""
    name, category = about
    named = found.named(name, own_name)
    if named is None:
        found.all_to_all += name == "nccl:all_to_all"
        step = _STEP.fullmatch(name) if name.startswith("ProfilerStep") and category != _DEVICE else None
        if (step is not None or name == _RECEIVED) and (times := _times(event)) is not None:
            into, what = (found.arrivals, 0) if step is None else (found.steps, int(step[1]))
            into.add(what, found.place(event), times)
        return
    times = _times(event)
    if times is None:
        return
    what, single = named
    where = found.single if single else found.device if category == _DEVICE else found.host
    if len(where) >= _MOST_SPANS:
        raise FormatError(f"{label(found.path)}: more than {_MOST_SPANS:,} spans of a pipeline")
    external = _NO_ID
    if category == _DEVICE and isinstance(args := event.get("args"), dict):
        external = _id(args.get("External id"))
    where.add(what, found.place(event), times, external)


def _launched(found: Profile, event: dict[str, Any], about: tuple[str, str]) -> None:
    """A kernel, or the call that launched one: what tells when the work of a host's span was done."""
    name, category = about
    args = event.get("args")
    correlation = _id(args.get("correlation")) if isinstance(args, dict) else _NO_ID
    times = _times(event)
    if correlation == _NO_ID or times is None:
        return
    if category == "kernel":
        found.send_recv_kernels += name.startswith("nccl") and "SendRecv" in name
        found.kernels.add(0, (0, 0), times, correlation)
    else:
        found.launches.add(0, found.place(event), times, correlation)


def _id(value: object) -> int:
    return value if type(value) is int and 0 <= value < 2**62 else _NO_ID


def _key(value: object) -> object:
    return value if isinstance(value, int | float | str | None) else str(value)


def _times(event: dict[str, Any]) -> tuple[float, float] | None:
    """Start and end in µs; None for what is no time."""
    start, length = event.get("ts"), event.get("dur")
    if not isinstance(start, int | float) or not isinstance(length, int | float) or isinstance(start, bool):
        return None
    if not (abs(start) < 1e18 and 0 <= length < 1e18):
        return None
    return float(start), float(start + length)


def on_device(found: Profile) -> Spans:
    """The spans with the times of the device; none where the file doesn't tell them.

    Annotations of the device where there are any (of one op on several streams, first start to last end), else the
    kernels that were launched within the host's span.
    """
    if len(found.device):
        return _merged(found.device.done())
    host = found.host.done()
    return _from_kernels(found, host) if len(found.kernels) else host[:0]


def _merged(spans: Spans) -> Spans:
    """One span for each op and external id, or each op and its turn on its stream."""
    turn = np.zeros(len(spans), np.int64)
    order = np.lexsort((spans.start, spans.tid, spans.what))
    change = (np.diff(spans.what[order]) != 0) | (np.diff(spans.tid[order]) != 0)
    heads = np.concatenate([[0], np.flatnonzero(change) + 1])
    turn[order] = np.arange(len(spans)) - np.repeat(heads, np.diff([*heads, len(spans)]))
    named = spans.external != _NO_ID
    key = np.stack([spans.what, named, np.where(named, spans.external, turn)])
    _, first, group = np.unique(key, axis=1, return_index=True, return_inverse=True)
    start, end = np.full(len(first), np.inf), np.full(len(first), -np.inf)
    np.minimum.at(start, group.reshape(-1), spans.start)
    np.maximum.at(end, group.reshape(-1), spans.end)
    one = spans[first]
    return Spans(one.what, np.zeros_like(one.pid), one.tid, start, end, one.external)


def _from_kernels(found: Profile, host: Spans) -> Spans:
    """Host spans with the first start and the last end of the kernels that they launched."""
    kernels, launches = found.kernels.done(), found.launches.done()
    ids, of = np.unique(kernels.external, return_inverse=True)
    first, last = np.full(len(ids) + 1, np.inf), np.full(len(ids) + 1, -np.inf)
    np.minimum.at(first, of, kernels.start)
    np.maximum.at(last, of, kernels.end)
    place = np.searchsorted(ids, launches.external)
    launched = np.where(ids[np.minimum(place, len(ids) - 1)] == launches.external, place, len(ids))
    start, end = np.full(len(host), np.inf), np.full(len(host), -np.inf)
    for tid in np.unique(host.tid).tolist():
        mine = np.flatnonzero(launches.tid == tid)
        mine = mine[np.argsort(launches.start[mine], kind="stable")]
        spans = np.flatnonzero(host.tid == tid)
        a, b = (np.searchsorted(launches.start[mine], moment[spans]) for moment in (host.start, host.end))
        start[spans] = reduced(np.minimum, first[launched[mine]], (a, b), np.inf)
        end[spans] = reduced(np.maximum, last[launched[mine]], (a, b), -np.inf)
    some = np.isfinite(start)
    return Spans(host.what, host.pid, host.tid, start, end, host.external)[some]


def reduced(by: np.ufunc, values: Times, ranges: tuple[Longs, Longs], nothing: float) -> Times:
    """The minimum or maximum of ``values[a:b]`` for each of many ranges; ``nothing`` of an empty one."""
    a, b = ranges
    out = np.full(len(a), nothing)
    some = np.flatnonzero(b > a)
    if len(some):
        pairs = np.stack([a[some], b[some]], axis=1).ravel()
        out[some] = by.reduceat(np.append(values, nothing), pairs)[::2]
    return out
