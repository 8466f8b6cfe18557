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
from collections.abc import Iterator
from typing import TextIO

import numpy as np

from ppsim.formats import chrome_json
from ppsim.formats.chrome_order import Flow, What, ordered
from ppsim.formats.chrome_tracks import Tracks
from ppsim.metrics import Run, memory, waits
from ppsim.ops import COMMUNICATION, COMPUTE, NONE, Kind, Op, cell
from ppsim.plan.table import CATEGORIES
from ppsim.result import Result

PREFIX = "PP:"
"""What PyTorch's profiler puts before an action."""


def write(source: Run | Result, stream: TextIO) -> None:
    """Write a run, an event per line; the same run gives the same bytes."""
    run, name = (source, "run") if isinstance(source, Run) else (source.run, source.experiment.name)
    about = chrome_json.text_of({"experiment": name, "by": "ppsim"})
    stream.write(f'{{"displayTimeUnit":"ms","otherData":{about},"traceEvents":[')
    before = "\n"
    for event in _Trace(run).events():
        stream.write(before)
        stream.write(event)
        before = ",\n"
    stream.write("\n]}\n")


def text(source: Run | Result) -> str:
    """The trace as text."""
    stream = io.StringIO()
    write(source, stream)
    return stream.getvalue()


class _Trace:
    """One run and the text of each of its events."""

    def __init__(self, run: Run) -> None:
        self.plan, self.timeline = run.plan, run.timeline
        self.tracks = Tracks.of(run.plan)
        self.flows = Flow.of(run.timeline)
        self.curves = run.once(memory.curves) if "memory" in run.knows else None
        ever = np.zeros(len(CATEGORIES), bool) if self.curves is None else np.any(self.curves.bytes > 0, axis=0)
        self.waits = _waits(run)
        self.held = [(c, name) for c, name in enumerate(CATEGORIES) if ever[c]]

    def events(self) -> Iterator[str]:
        """Names first, then everything in the order of time."""
        yield from self.tracks.events()
        writers = {
            What.MEMORY: self.counter,
            What.EGRESS: self.leaving,
            What.INGRESS: self.coming,
            What.SPAN: self.span,
            What.TAKEN: self.taken,
            What.SENT: self.sent,
        }
        by_number = [writers[what] for what in What]
        what_, number = ordered(self.timeline, self.flows, self.curves)
        for what, i in zip(what_.tolist(), number.tolist(), strict=True):
            yield by_number[what](i)

    def span(self, row: int) -> str:
        """An op, or an atomic fused pair as one."""
        plan, timeline, rank = self.plan, self.timeline, int(self.plan.rank[row])
        paired = row + 1 < len(plan) and bool(plan.tail[row + 1])
        ops = [plan.op(row), plan.op(row + 1)] if paired else [plan.op(row)]
        start, end = int(timeline.start[row]), int(timeline.end[row])
        wait = self.waits[0][row]
        args: dict[str, object] = {"op": cell(ops)}
        if paired:
            args |= {"ops": [str(op) for op in ops], "stage": [op.stage for op in ops]}
            args |= {"microbatch": [op.microbatch for op in ops]}
        else:
            args |= {"stage": ops[0].stage, "microbatch": _or_none(ops[0].microbatch)}
        args["step"] = int(plan.step[row])
        if wait and self.waits[1][row] >= 0:
            args["wait_cause"] = waits.CAUSES[self.waits[1][row]]
        if wait and self.waits[2][row] >= 0:
            args["blocked_by"] = str(plan.op(self.waits[2][row]))
        track = self.tracks.of_rank[rank]
        return chrome_json.span(PREFIX + cell(ops), _sort(ops[0].kind), track, start, end, args, wait)

    def leaving(self, transfer: int) -> str:
        """A transfer at its sender's port."""
        port = self.plan.routes.egress[self.plan.transfers.route[transfer]]
        return self._at_port(transfer, int(port), sent=True)

    def coming(self, transfer: int) -> str:
        """A transfer at its receiver's port."""
        port = self.plan.routes.ingress[self.plan.transfers.route[transfer]]
        return self._at_port(transfer, int(port), sent=False)

    def _at_port(self, transfer: int, port: int, sent: bool) -> str:
        plan, timeline, transfers = self.plan, self.timeline, self.plan.transfers
        route = int(transfers.route[transfer])
        maker, taker = int(transfers.producer[transfer]), int(transfers.consumer[transfer])
        made = plan.op(maker)
        args: dict[str, object] = {
            "op": str(made),
            "src": int(plan.routes.src[route]),
            "dst": int(plan.routes.dst[route]),
            "bytes": int(plan.routes.bytes[route]),
        }
        start, left = int(timeline.transfer_start[transfer]), int(timeline.left[transfer])
        name = PREFIX + str(_message(made, plan.op(taker) if taker >= 0 else None, sent))
        wait = start - int(timeline.ready[transfer])
        return chrome_json.span(name, _sort(made.kind, moving=True), self.tracks.of_port[port], start, left, args, wait)

    def sent(self, i: int) -> str:
        """A message leaves the op that made it."""
        return self._flow_end(True, i, int(self.flows.sender[i]), int(self.flows.sent[i]))

    def taken(self, i: int) -> str:
        """A message gets to the op that uses it."""
        return self._flow_end(False, i, int(self.flows.taker[i]), int(self.flows.taken[i]))

    def _flow_end(self, begins: bool, i: int, row: int, time: int) -> str:
        track = self.tracks.of_rank[int(self.plan.rank[row])]
        return chrome_json.flow(begins, int(self.flows.transfer[i]), track, time)

    def counter(self, i: int) -> str:
        """A rank's memory from one change on, in bytes; categories that are never held are left out."""
        if self.curves is None:
            raise ValueError("no memory is known of this run")
        values = self.curves.bytes[i].tolist()
        shown = {name: values[c] for c, name in self.held}
        return chrome_json.counter("memory_bytes", int(self.curves.rank[i]), int(self.curves.time[i]), shown)


def _waits(run: Run) -> tuple[list[int], list[int], list[int]]:
    """Per op the ns that its rank waited for it, the cause by number and the op that it waited for (-1: not known)."""
    if "dependencies" in run.knows:
        wait, cause, blocker = run.once(waits.per_op)
        return wait.tolist(), cause.tolist(), blocker.tolist()
    free = np.append(0, run.timeline.end[:-1])
    free[run.plan.offsets[:-1][np.diff(run.plan.offsets) > 0]] = 0
    unknown = [NONE] * len(run.plan)
    return np.maximum(run.timeline.start - free, 0).tolist(), unknown, unknown


def _or_none(number: int) -> int | None:
    return None if number == NONE else number


def _sort(kind: Kind, moving: bool = False) -> str:
    """The category that a span can be filtered by."""
    if kind in COMPUTE or kind in COMMUNICATION:
        return "message" if moving or kind in COMMUNICATION else "compute"
    return kind.name.lower()


def _message(made: Op, taker: Op | None, sent: bool) -> Op:
    """What a transfer is called at either end: the SEND of what was made, the RECV of what takes it."""
    if made.kind not in COMPUTE or taker is None:
        return made
    forward = made.kind == Kind.F
    if sent:
        return made._replace(kind=Kind.SEND_F if forward else Kind.SEND_B)
    return taker._replace(kind=Kind.RECV_F if forward else Kind.RECV_B)
