"""A run as a Chrome trace, for ui.perfetto.dev and chrome://tracing.

Every rank is a process (pid = rank), with a thread for what it computes and one for each port that is its alone; a NIC
that ranks share is a process of its own. Spans are named as PyTorch's profiler names them: ``PP:2F0``, and on the ports
``PP:2SEND_F0`` and ``PP:3RECV_F0``. A flow leads from the op that made a message to the op that uses it. A counter per
rank shows its memory by category. Times are in µs to three places, which is exact: two spans of one thread never
overlap by rounding. Events are sorted as columns of integers and written one by one.
Source: the Trace Event Format (Chromium project).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import TextIO

from ppsim.analysis.result import Result
from ppsim.formats._chrome_events import Counters, Ends, Ports, Spans
from ppsim.formats._chrome_order import Flow, What, ordered
from ppsim.formats._chrome_tracks import Tracks, side_by_side
from ppsim.formats.base import file_format
from ppsim.metrics import Run, memory


@file_format(
    "chrome-trace", does="export", what="timeline, messages and memory for ui.perfetto.dev or chrome://tracing"
)
def write(source: Run | Result, stream: TextIO) -> None:
    """Write a run, an event per line, in ASCII; the same run gives the same bytes."""
    run, name = (source, "run") if isinstance(source, Run) else (source.run, source.experiment.name)
    stream.write(f'{{"displayTimeUnit":"ms","otherData":{{"by":"ppsim","name":{json.dumps(name)}}},"traceEvents":[')
    before = "\n"
    for event in _events(run):
        stream.write(before + event)
        before = ",\n"
    stream.write("\n]}\n")


def text(source: Run | Result) -> str:
    """The trace as text."""
    stream = io.StringIO()
    write(source, stream)
    return stream.getvalue()


def _events(run: Run) -> Iterator[str]:
    """Names first, then everything in the order of time."""
    tracks, flow = Tracks.of(run.plan, side_by_side(run.timeline)[2]), Flow.of(run.timeline)
    curves = run.once(memory.curves) if "memory" in run.knows else None
    names = run.plan.ops.names
    text_of: dict[int, Callable[[int], str]] = {
        What.EGRESS: Ports(run, tracks, names, sending=True).text,
        What.INGRESS: Ports(run, tracks, names, sending=False).text,
        What.SPAN: Spans(run, tracks, names).text,
        What.TAKEN: Ends(run, tracks, flow, begins=False).text,
        What.SENT: Ends(run, tracks, flow, begins=True).text,
    }
    if curves is not None:
        text_of[What.MEMORY] = Counters(curves).text
    yield from tracks.events()
    what_, number = ordered(run.timeline, flow, curves)
    for what, i in zip(what_.tolist(), number.tolist(), strict=True):
        yield text_of[what](i)
