"""The events of a Chrome trace as text: spans, messages at ports, flows and counters.

Each class holds the columns that it needs, and makes the text of many events at once. What goes into the text is
numbers and the names of ops and categories, none of which needs escaping.
"""

from __future__ import annotations

from itertools import chain

import numpy as np

from ppsim.formats._chrome_order import Flow
from ppsim.formats._chrome_text import column, filled, us, words
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
        self._plan, self._timeline = run.plan, run.timeline
        self._names = column([*names, ""])
        self._track, self._sort = column(tracks.of_rank), column(SORT)
        self._wait, self._cause, self._blocker = _waits(run)
        self._said_cause = column([*(f',"wait_cause":"{cause}"' for cause in waits.CAUSES), ""])
        self._paired = np.append(run.plan.tail[1:], False)

    def texts(self, rows: Longs) -> list[str]:
        """A span each, with what its rank waited for before it."""
        ops, start = self._plan.ops, self._timeline.start[rows]
        name, blocker = self._names[rows], self._blocker[rows]
        title, stage, number, pair = name.copy(), words(ops.stage[rows]), words(ops.microbatch[rows]), name * 0
        number[ops.microbatch[rows] == NONE] = "null"
        for i in np.flatnonzero(self._paired[rows]).tolist():
            second, row = self._names[rows[i] + 1], int(rows[i]) + 1
            title[i], pair[i] = f"({name[i]};{second})OVERLAP_F_B", f',"ops":["{name[i]}","{second}"]'
            stage[i], number[i] = f"[{stage[i]},{ops.stage[row]}]", f"[{number[i]},{ops.microbatch[row]}]"
        blocked = np.where(blocker == NONE, "", ',"blocked_by":"').astype(object)
        quote = np.where(blocker == NONE, "", '"').astype(object)
        return filled(
            '{"ph":"X","name":"PP:%s","cat":"%s",%s,"ts":%s,"dur":%s,"args":{"op":"%s"%s,"stage":%s,'
            '"microbatch":%s,"step":%s,"wait_us":%s%s%s%s%s}}',
            title, self._sort[ops.kind[rows]], self._track[ops.rank[rows]], us(start),
            us(self._timeline.end[rows] - start), title, pair, stage, number, words(np.asarray(ops.step[rows])),
            us(self._wait[rows]), self._said_cause[self._cause[rows]], blocked, self._names[blocker], quote,
        )  # fmt: skip


class Ports:
    """Transfers at the ports of their senders (or of their receivers), by number."""

    def __init__(self, run: Run, tracks: Tracks, names: list[str], sending: bool) -> None:
        plan, transfers, routes = run.plan, run.plan.transfers, run.plan.routes
        self._transfers, self._timeline = transfers, run.timeline
        self._port = (routes.egress if sending else routes.ingress)[transfers.route]
        self._place = side_by_side(run.timeline)[0 if sending else 1]
        self._first = np.cumsum([0, *map(len, tracks.of_port)])
        self._track = column([*chain.from_iterable(tracks.of_port)])
        ways = zip(routes.src.tolist(), routes.dst.tolist(), routes.bytes.tolist(), strict=True)
        self._about = column([f'"src":{src},"dst":{dst},"bytes":{size}' for src, dst, size in ways])
        self._made = column(names)[transfers.producer]
        maker = plan.ops.kind[transfers.producer]
        self._sort = column(["message" if kind in COMPUTE else SORT[kind] for kind in Kind])[maker]
        self._name = self._made.copy()
        # An op that makes a message sends it; a move or a sync is called what it is, at both ends.
        rows = transfers.producer if sending else transfers.consumer
        forward, backward = ("SEND_F", "SEND_B") if sending else ("RECV_F", "RECV_B")
        ops, computes = plan.ops, np.flatnonzero(np.isin(maker, COMPUTE))
        of = rows[computes]
        by_maker = np.where(maker[computes] == Kind.F, forward, backward).astype(object)
        said = zip(column(names)[of], ops.kind[of].tolist(), by_maker, strict=True)
        kinds = [kind.name for kind in Kind]
        self._name[computes] = [name.replace(kinds[kind], end, 1) for name, kind, end in said]

    def texts(self, some: Longs) -> list[str]:
        """The span of each from when it takes the port until it frees it."""
        route, start = self._transfers.route[some], self._timeline.transfer_start[some]
        track = self._first[self._port[some]] + self._place[some]
        return filled(
            '{"ph":"X","name":"PP:%s","cat":"%s",%s,"ts":%s,"dur":%s,"args":{"op":"%s",%s,"wait_us":%s}}',
            self._name[some], self._sort[some], self._track[track], us(start),
            us(self._timeline.left[some] - start), self._made[some], self._about[route],
            us(start - self._timeline.ready[some]),
        )  # fmt: skip


class Ends:
    """The beginnings (or ends) of flows, by number."""

    def __init__(self, run: Run, tracks: Tracks, flow: Flow, begins: bool) -> None:
        rows: Longs = flow.sender if begins else flow.taker
        self._track, self._rank = column(tracks.of_rank), run.plan.ops.rank[rows]
        self._time = flow.sent if begins else flow.taken
        self._form = '"ph":"s"' if begins else '"ph":"f","bp":"e"'

    def texts(self, some: Longs) -> list[str]:
        """An end each, in the span that is open on its track."""
        form = f'{{{self._form},"id":%s,"name":"message","cat":"message",%s,"ts":%s}}'
        return filled(form, words(some), self._track[self._rank[some]], us(self._time[some]))


class Counters:
    """Memory of the ranks in bytes, by change; categories that no rank ever holds are left out."""

    def __init__(self, curves: Curves) -> None:
        self._curves = curves
        self._held = np.flatnonzero(np.any(curves.bytes > 0, axis=0))

    def texts(self, some: Longs) -> list[str]:
        """What each change's rank holds from then on."""
        values = ",".join(f'"{CATEGORIES[category]}":%s' for category in self._held.tolist())
        form = f'{{"ph":"C","name":"memory_bytes","pid":%s,"ts":%s,"args":{{{values}}}}}'
        curves = self._curves
        held = map(words, curves.bytes[some][:, self._held].T)
        return filled(form, words(curves.rank[some]), us(curves.time[some]), *held)


def _waits(run: Run) -> tuple[Longs, Longs, Longs]:
    """Per op the ns that its rank waited for it, the cause by number and the op that it waited for (-1: not known)."""
    if "dependencies" in run.knows:
        return run.once(waits.per_op)
    offsets = run.plan.ops.offsets
    free = np.append(0, run.timeline.end)
    free[offsets[:-1]] = 0
    unknown = np.full(len(run.plan.ops), NONE, np.int64)
    return np.maximum(run.timeline.start - free[:-1], 0), unknown, unknown
