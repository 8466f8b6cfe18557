"""The events of a Chrome trace as text: spans, messages at ports, flows and counters.

Each class holds the columns that it needs as lists, and makes the text of one event at a time. What goes into the text
is numbers and the names of ops and categories, none of which needs escaping.
"""

from __future__ import annotations

import numpy as np

from ppsim.formats._chrome_order import Flow
from ppsim.formats._chrome_tracks import Tracks, side_by_side
from ppsim.metrics import Run, waits
from ppsim.metrics.memory import Curves
from ppsim.ops import COMMUNICATION, COMPUTE, NONE, Kind, Longs
from ppsim.plan.table import CATEGORIES

SORT = ["compute" if k in COMPUTE else "message" if k in COMMUNICATION else k.name.lower() for k in Kind]
"""By kind, what a span can be filtered by (its ``cat``)."""


class Spans:
    """Ops on their ranks, by row; an atomic fused pair is one span, by the row of its first."""

    def __init__(self, run: Run, tracks: Tracks, names: list[str]) -> None:
        plan = run.plan
        self.names = names
        self.track = [tracks.of_rank[rank] for rank in plan.ops.rank.tolist()]
        self.sort = [SORT[kind] for kind in plan.ops.kind.tolist()]
        self.stage, self.step = plan.ops.stage.tolist(), plan.ops.step.tolist()
        self.microbatch = ["null" if k == NONE else str(k) for k in plan.ops.microbatch.tolist()]
        self.start, self.end = run.timeline.start.tolist(), run.timeline.end.tolist()
        self.paired = [*plan.tail.tolist()[1:], False]
        self.wait, self.cause, self.blocker = _waits(run)

    def text(self, row: int) -> str:
        """One span, with what its rank waited for before it."""
        name, stage, microbatch = self.names[row], str(self.stage[row]), self.microbatch[row]
        ops = ""
        if self.paired[row]:
            first, second = name, self.names[row + 1]
            name, ops = f"({first};{second})OVERLAP_F_B", f',"ops":["{first}","{second}"]'
            stage = f"[{stage},{self.stage[row + 1]}]"
            microbatch = f"[{microbatch},{self.microbatch[row + 1]}]"
        args = (
            f'"op":"{name}"{ops},"stage":{stage},"microbatch":{microbatch},"step":{self.step[row]},'
            f'"wait_us":{_us(self.wait[row])}'
        )
        if self.cause[row] != NONE:
            args += f',"wait_cause":"{waits.CAUSES[self.cause[row]]}"'
        if self.blocker[row] != NONE:
            args += f',"blocked_by":"{self.names[self.blocker[row]]}"'
        return _span(name, f'"cat":"{self.sort[row]}",{self.track[row]}', (self.start[row], self.end[row]), args)


class Ports:
    """Transfers at the ports of their senders (or of their receivers), by number."""

    def __init__(self, run: Run, tracks: Tracks, names: list[str], sending: bool) -> None:
        plan, timeline, transfers, routes = run.plan, run.timeline, run.plan.transfers, run.plan.routes
        self.made = [names[row] for row in transfers.producer.tolist()]
        self.route = transfers.route.tolist()
        port = (routes.egress if sending else routes.ingress).tolist()
        egress, ingress, _ = side_by_side(timeline)
        places = (egress if sending else ingress).tolist()
        self.track = [
            tracks.of_port[port[route]][place] if port[route] != NONE else ""
            for route, place in zip(self.route, places, strict=True)
        ]
        self.about = [
            f'"src":{src},"dst":{dst},"bytes":{size}'
            for src, dst, size in zip(routes.src.tolist(), routes.dst.tolist(), routes.bytes.tolist(), strict=True)
        ]
        kinds = plan.ops.kind[transfers.producer].tolist()
        self.sort = ["message" if kind in COMPUTE else SORT[kind] for kind in kinds]
        rows = transfers.producer if sending else transfers.consumer
        own = plan.ops.kind[rows].tolist()
        forward, backward = ("SEND_F", "SEND_B") if sending else ("RECV_F", "RECV_B")
        # An op that makes a message sends it; a move or a sync is called what it is, at both ends.
        self.name = [
            names[row].replace(Kind(kind).name, forward if maker == Kind.F else backward, 1)
            if maker in COMPUTE
            else made
            for row, kind, maker, made in zip(rows.tolist(), own, kinds, self.made, strict=True)
        ]
        self.ready, self.start = timeline.ready.tolist(), timeline.transfer_start.tolist()
        self.left = timeline.left.tolist()

    def text(self, transfer: int) -> str:
        """The span from when the transfer takes the port until it frees it."""
        route, start = self.route[transfer], self.start[transfer]
        wait = _us(start - self.ready[transfer])
        args = f'"op":"{self.made[transfer]}",{self.about[route]},"wait_us":{wait}'
        place = f'"cat":"{self.sort[transfer]}",{self.track[transfer]}'
        return _span(self.name[transfer], place, (start, self.left[transfer]), args)


class Ends:
    """The beginnings (or ends) of flows, by number."""

    def __init__(self, run: Run, tracks: Tracks, flow: Flow, begins: bool) -> None:
        rows: Longs = flow.sender if begins else flow.taker
        self.track = [tracks.of_rank[rank] for rank in run.plan.ops.rank[rows].tolist()]
        self.time = (flow.sent if begins else flow.taken).tolist()
        self.form = '"ph":"s"' if begins else '"ph":"f","bp":"e"'

    def text(self, number: int) -> str:
        """One end, in the span that is open on its track."""
        about = f'{self.form},"id":{number},"name":"message","cat":"message"'
        return f'{{{about},{self.track[number]},"ts":{_us(self.time[number])}}}'


class Counters:
    """Memory of the ranks in bytes, by change; categories that no rank ever holds are left out."""

    def __init__(self, curves: Curves) -> None:
        held = np.flatnonzero(np.any(curves.bytes > 0, axis=0)).tolist()
        self.keys = [f'"{CATEGORIES[category]}":' for category in held]
        self.rank, self.time, self.bytes = curves.rank.tolist(), curves.time.tolist(), curves.bytes[:, held]

    def text(self, change: int) -> str:
        """What the change's rank holds from then on."""
        values = ",".join(map("".join, zip(self.keys, map(str, self.bytes[change].tolist()), strict=True)))
        place = f'"pid":{self.rank[change]},"ts":{_us(self.time[change])}'
        return f'{{"ph":"C","name":"memory_bytes",{place},"args":{{{values}}}}}'


def _waits(run: Run) -> tuple[list[int], list[int], list[int]]:
    """Per op the ns that its rank waited for it, the cause by number and the op that it waited for (-1: not known)."""
    if "dependencies" in run.knows:
        wait, cause, blocker = run.once(waits.per_op)
        return wait.tolist(), cause.tolist(), blocker.tolist()
    offsets = run.plan.ops.offsets
    free = np.append(0, run.timeline.end)
    free[offsets[:-1]] = 0
    unknown = [NONE] * len(run.plan.ops)
    return np.maximum(run.timeline.start - free[:-1], 0).tolist(), unknown, unknown


def _us(ns: int) -> str:
    """Nanoseconds as µs."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def _span(name: str, place: str, time: tuple[int, int], args: str) -> str:
    start, end = time
    times = f'"ts":{_us(start)},"dur":{_us(end - start)}'
    return f'{{"ph":"X","name":"PP:{name}",{place},{times},"args":{{{args}}}}}'
