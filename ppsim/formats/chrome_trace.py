"""A run as a Chrome trace, for ui.perfetto.dev and chrome://tracing.

Every rank is a process (pid = rank), with a thread for what it computes and one for each port that is its alone; a NIC
that ranks share is a process of its own. Spans are named as PyTorch's profiler names them: ``PP:2F0``, and on the ports
``PP:2SEND_F0`` and ``PP:3RECV_F0``. A flow leads from the op that made a message to the op that uses it. A counter per
rank shows its memory by category. Times are in µs to three places, which is exact: two spans of one thread never
overlap by rounding. Events are sorted as columns of integers; their text is made in bulk.
Source: the Trace Event Format (Chromium project).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import TextIO

import numpy as np

from ppsim._texts import Texts
from ppsim.analysis.result import Result
from ppsim.formats._chrome_events import Counters, Ends, Ports, Spans
from ppsim.formats._chrome_order import Flow, What, ordered
from ppsim.formats._chrome_text import us
from ppsim.formats._chrome_tracks import Tracks, side_by_side
from ppsim.formats.base import file_format
from ppsim.metrics import Run, memory
from ppsim.ops import Longs

AT_ONCE = 50_000
"""Events that are made at once: many, so that Python goes through none of them, and not all, for the memory's sake."""
SEPARATOR = ",\n"


@file_format(
    "chrome-trace", does="export", what="timeline, messages and memory for ui.perfetto.dev or chrome://tracing"
)
def write(source: Run | Result, stream: TextIO) -> None:
    """Write a run, an event per line, in ASCII; the same run gives the same bytes."""
    run, name = (source, "run") if isinstance(source, Run) else (source.run, source.experiment.name)
    stream.write(f'{{"displayTimeUnit":"ms","otherData":{{"by":"ppsim","name":{json.dumps(name)}}},"traceEvents":[')
    before = "\n"
    for events in _events(run):
        stream.write(before + events)
        before = SEPARATOR
    stream.write("\n]}\n")


def text(source: Run | Result) -> str:
    """The trace as text."""
    stream = io.StringIO()
    write(source, stream)
    return stream.getvalue()


def _events(run: Run) -> Iterator[str]:
    """Names first, then everything in the order of time, so many events at once."""
    tracks, flow = Tracks.of(run.plan, side_by_side(run.timeline)[2]), Flow.of(run.timeline)
    curves = run.once(memory.curves) if "memory" in run.knows else None
    texts_of: dict[int, Callable[[Longs, Texts], list[str]]] = {
        What.EGRESS: Ports(run, tracks, sending=True).texts,
        What.INGRESS: Ports(run, tracks, sending=False).texts,
        What.SPAN: Spans(run, tracks).texts,
        What.TAKEN: Ends(run, tracks, flow, begins=False).texts,
        What.SENT: Ends(run, tracks, flow, begins=True).texts,
    }
    if curves is not None:
        texts_of[What.MEMORY] = Counters(curves).texts
    yield from tracks.events()
    columns = ordered(run.timeline, flow, curves)
    for first in range(0, len(columns[0]), AT_ONCE):
        what, some, time = (column[first : first + AT_ONCE] for column in columns)
        at = us(time)
        out = np.empty(len(what), object)
        for one, texts in texts_of.items():
            places = np.flatnonzero(what == one)
            if len(places):
                out[places] = texts(some[places], at[places])
        yield SEPARATOR.join(out.tolist())
