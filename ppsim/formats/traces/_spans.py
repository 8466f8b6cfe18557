"""What one profiler's file holds: its pipeline's spans, on the host or on the device, and what else it says."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ppsim.engine.watch import Watch
from ppsim.errors import FormatError
from ppsim.formats.traces import _names
from ppsim.formats.traces._events import Events
from ppsim.formats.traces._files import label
from ppsim.ops import Op

_STEP = re.compile(r"ProfilerStep#(\d{1,9})", re.ASCII)
_HOST, _DEVICE = "user_annotation", "gpu_user_annotation"
_LAUNCHES = ("cuda_runtime", "cuda_driver", "hip_runtime", "privateuse1_runtime")
_MOST_SPANS = 50_000_000


@dataclass(frozen=True, slots=True)
class Span:
    """A span of a pipeline's op; times in µs, as in the file."""

    ops: tuple[Op, ...]
    pid: object
    tid: object
    start: float
    end: float
    external: object = None


@dataclass
class Profile:
    """One file: spans by where they were recorded, the profiler's own steps, and what tells device times."""

    path: Path
    header: dict[str, Any] = field(default_factory=dict)
    broken: str | None = None
    events: int = 0
    host: list[Span] = field(default_factory=list)
    device: list[Span] = field(default_factory=list)
    single: list[Span] = field(default_factory=list)
    """Spans called 'Forward 3', of PyTorch's schedules with one stage per rank."""
    steps: list[tuple[object, int, float, float]] = field(default_factory=list)
    """(pid, number, start, end)."""
    launch: tuple[array[float], array[int], list[object]] = field(default_factory=lambda: (array("d"), array("q"), []))
    kernel: tuple[array[int], array[float], array[float]] = field(
        default_factory=lambda: (array("q"), array("d"), array("d"))
    )
    arrivals: list[tuple[object, float, float]] = field(default_factory=list)
    """(pid, start, end) of what gloo itself recorded of its receives: from posted to arrived."""
    categories: Counter[str] = field(default_factory=Counter)
    send_recv_kernels: int = 0
    all_to_all: int = 0

    @property
    def rank(self) -> int | None:
        """The global rank that the file itself names."""
        info = self.header.get("distributedInfo")
        rank = info.get("rank") if isinstance(info, dict) else None
        return rank if type(rank) is int and rank >= 0 else None

    @property
    def base_ns(self) -> int:
        """What the file's times count from."""
        base = self.header.get("baseTimeNanoseconds")
        return base if type(base) is int and abs(base) < 2**62 else 0

    @property
    def has_device(self) -> bool:
        """Whether there was a device that did work."""
        return bool(len(self.kernel[0]) or self.device)


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
        _take(found, event, (name, category), own_name)
    found.header, found.broken, found.events = events.header, events.broken, events.count
    if not found.events and "traceEvents" not in found.header:
        raise FormatError(f"{label(path)}: not a trace: {found.broken or 'it has no traceEvents'}")
    return found


def _take(found: Profile, event: dict[str, Any], about: tuple[str, str], own_name: _names.Namer | None) -> None:
    """Keep of one event what is needed of it."""
    name, category = about
    if category in _LAUNCHES or category == "kernel":
        _launched(found, event, about)
        return
    ops = (own_name or _names.pytorch)(name)
    step = _STEP.fullmatch(name) if ops is None and name.startswith("ProfilerStep") else None
    single = _names.single_stage(name) if ops is None and own_name is None else None
    if ops is None and step is None and single is None and name != "gloo:recv":
        found.all_to_all += name == "nccl:all_to_all"
        return
    times = _times(event)
    if times is None:
        return
    pid, tid = _key(event.get("pid")), _key(event.get("tid"))
    if step is not None:
        if category != _DEVICE:
            found.steps.append((pid, int(step[1]), *times))
        return
    if ops is None and single is None:
        found.arrivals.append((pid, *times))
        return
    args = event.get("args")
    external = _key(args.get("External id")) if isinstance(args, dict) else None
    where = found.single if single is not None else found.device if category == _DEVICE else found.host
    if len(where) >= _MOST_SPANS:
        raise FormatError(f"{label(found.path)}: more than {_MOST_SPANS:,} spans of a pipeline")
    where.append(Span(single or ops or (), pid, tid, *times, external))


def _launched(found: Profile, event: dict[str, Any], about: tuple[str, str]) -> None:
    """A kernel, or the call that launched one: what tells when the work of a host's span was done."""
    name, category = about
    args = event.get("args")
    correlation = args.get("correlation") if isinstance(args, dict) else None
    times = _times(event)
    if type(correlation) is not int or abs(correlation) >= 2**62 or times is None:
        return
    if category == "kernel":
        found.send_recv_kernels += name.startswith("nccl") and "SendRecv" in name
        found.kernel[0].append(correlation)
        found.kernel[1].append(times[0])
        found.kernel[2].append(times[1])
    else:
        found.launch[0].append(times[0])
        found.launch[1].append(correlation)
        found.launch[2].append(_key(event.get("tid")))


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


def on_device(found: Profile) -> list[Span]:
    """The spans with the times of the device; empty where the file doesn't tell them.

    Annotations of the device where there are any (of one op on several streams, first start to last end), else the
    kernels that were launched within the host's span.
    """
    if found.device:
        merged: dict[object, Span] = {}
        nth: Counter[object] = Counter()
        for span in sorted(found.device, key=lambda each: each.start):
            key: object = (span.ops, span.external)
            if span.external is None:
                nth[span.ops, span.tid] += 1
                key = (span.ops, "nth", nth[span.ops, span.tid])
            one = merged.get(key)
            merged[key] = (
                span
                if one is None
                else Span(
                    span.ops, span.pid, "device", min(one.start, span.start), max(one.end, span.end), span.external
                )
            )
        return list(merged.values())
    if not len(found.kernel[0]):
        return []
    return _from_kernels(found)


def _from_kernels(found: Profile) -> list[Span]:
    """Host spans with the first start and the last end of the kernels that they launched."""
    of_kernel: dict[int, tuple[float, float]] = {}
    for correlation, start, end in zip(*found.kernel, strict=True):
        known = of_kernel.get(correlation)
        of_kernel[correlation] = (start, end) if known is None else (min(known[0], start), max(known[1], end))
    times, correlations = np.array(found.launch[0]), found.launch[1]
    order = np.argsort(times, kind="stable")
    times = times[order]
    out: list[Span] = []
    for span in found.host:
        first, last = np.searchsorted(times, [span.start, span.end])
        mine = [
            of_kernel[correlations[i]]
            for i in order[first:last].tolist()
            if found.launch[2][i] == span.tid and correlations[i] in of_kernel
        ]
        if mine:
            start, end = min(s for s, _ in mine), max(e for _, e in mine)
            out.append(Span(span.ops, span.pid, span.tid, start, end, span.external))
    return out
