"""The events of a Chrome trace as text: spans, messages at ports, flows and counters.

Each class holds the columns that it needs, and makes the text of many events at once. What goes into the text is
numbers and the names of ops and categories, none of which needs escaping.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppsim.formats._chrome_order import Flow
from ppsim.formats._chrome_tracks import Tracks, side_by_side
from ppsim.metrics import Run, waits
from ppsim.metrics.memory import Curves
from ppsim.ops import COMMUNICATION, COMPUTE, NONE, Kind, Longs
from ppsim.plan.table import CATEGORIES

SORT = ["compute" if k in COMPUTE else "message" if k in COMMUNICATION else k.name.lower() for k in Kind]
"""By kind, what a span can be filtered by (its ``cat``)."""
Texts = NDArray[np.object_]
US = "%d.%03d"
"""Nanoseconds as µs: the whole ones, and the three places."""


class Spans:
    """Ops on their ranks, by row; an atomic fused pair is one span, by the row of its first."""

    def __init__(self, run: Run, tracks: Tracks, names: list[str]) -> None:
        self._plan, self._timeline = run.plan, run.timeline
        self._names = _texts([*names, ""])
        self._track, self._sort = _texts(tracks.of_rank), _texts(SORT)
        self._wait, self._cause, self._blocker = _waits(run)
        self._said_cause = _texts([*(f',"wait_cause":"{cause}"' for cause in waits.CAUSES), ""])
        self._paired = np.append(run.plan.tail[1:], False)

    def texts(self, rows: Longs) -> list[str]:
        """A span each, with what its rank waited for before it."""
        ops, start = self._plan.ops, self._timeline.start[rows]
        name, blocker = self._names[rows], self._blocker[rows]
        title, stage, number, pair = name.copy(), _words(ops.stage[rows]), _words(ops.microbatch[rows]), name * 0
        number[ops.microbatch[rows] == NONE] = "null"
        for i in np.flatnonzero(self._paired[rows]).tolist():
            second, row = self._names[rows[i] + 1], int(rows[i]) + 1
            title[i], pair[i] = f"({name[i]};{second})OVERLAP_F_B", f',"ops":["{name[i]}","{second}"]'
            stage[i], number[i] = f"[{stage[i]},{ops.stage[row]}]", f"[{number[i]},{ops.microbatch[row]}]"
        blocked = np.where(blocker == NONE, "", ',"blocked_by":"').astype(object)
        quote = np.where(blocker == NONE, "", '"').astype(object)
        return _filled(
            f'{{"ph":"X","name":"PP:%s","cat":"%s",%s,"ts":{US},"dur":{US},"args":{{"op":"%s"%s,"stage":%s,'
            f'"microbatch":%s,"step":%d,"wait_us":{US}%s%s%s%s}}}}',
            title, self._sort[ops.kind[rows]], self._track[ops.rank[rows]], *_us(start),
            *_us(self._timeline.end[rows] - start), title, pair, stage, number, np.asarray(ops.step[rows]),
            *_us(self._wait[rows]), self._said_cause[self._cause[rows]], blocked, self._names[blocker], quote,
        )  # fmt: skip


class Ports:
    """Transfers at the ports of their senders (or of their receivers), by number."""

    def __init__(self, run: Run, tracks: Tracks, names: list[str], sending: bool) -> None:
        plan, transfers, routes = run.plan, run.plan.transfers, run.plan.routes
        self._transfers, self._timeline = transfers, run.timeline
        self._port = (routes.egress if sending else routes.ingress)[transfers.route]
        self._place = side_by_side(run.timeline)[0 if sending else 1]
        self._first = np.cumsum([0, *map(len, tracks.of_port)])
        self._track = _texts([*chain.from_iterable(tracks.of_port)])
        ways = zip(routes.src.tolist(), routes.dst.tolist(), routes.bytes.tolist(), strict=True)
        self._about = _texts([f'"src":{src},"dst":{dst},"bytes":{size}' for src, dst, size in ways])
        self._made = _texts(names)[transfers.producer]
        maker = plan.ops.kind[transfers.producer]
        self._sort = _texts(["message" if kind in COMPUTE else SORT[kind] for kind in Kind])[maker]
        self._name = self._made.copy()
        # An op that makes a message sends it; a move or a sync is called what it is, at both ends.
        rows = transfers.producer if sending else transfers.consumer
        forward, backward = ("SEND_F", "SEND_B") if sending else ("RECV_F", "RECV_B")
        ops, computes = plan.ops, np.flatnonzero(np.isin(maker, COMPUTE))
        of = rows[computes]
        by_maker = np.where(maker[computes] == Kind.F, forward, backward).astype(object)
        said = zip(_texts(names)[of], ops.kind[of].tolist(), by_maker, strict=True)
        kinds = [kind.name for kind in Kind]
        self._name[computes] = [name.replace(kinds[kind], end, 1) for name, kind, end in said]

    def texts(self, some: Longs) -> list[str]:
        """The span of each from when it takes the port until it frees it."""
        route, start = self._transfers.route[some], self._timeline.transfer_start[some]
        track = self._first[self._port[some]] + self._place[some]
        return _filled(
            f'{{"ph":"X","name":"PP:%s","cat":"%s",%s,"ts":{US},"dur":{US},"args":{{"op":"%s",%s,"wait_us":{US}}}}}',
            self._name[some], self._sort[some], self._track[track], *_us(start),
            *_us(self._timeline.left[some] - start), self._made[some], self._about[route],
            *_us(start - self._timeline.ready[some]),
        )  # fmt: skip


class Ends:
    """The beginnings (or ends) of flows, by number."""

    def __init__(self, run: Run, tracks: Tracks, flow: Flow, begins: bool) -> None:
        rows: Longs = flow.sender if begins else flow.taker
        self._track, self._rank = _texts(tracks.of_rank), run.plan.ops.rank[rows]
        self._time = flow.sent if begins else flow.taken
        self._form = '"ph":"s"' if begins else '"ph":"f","bp":"e"'

    def texts(self, some: Longs) -> list[str]:
        """An end each, in the span that is open on its track."""
        form = f'{{{self._form},"id":%d,"name":"message","cat":"message",%s,"ts":{US}}}'
        return _filled(form, some, self._track[self._rank[some]], *_us(self._time[some]))


class Counters:
    """Memory of the ranks in bytes, by change; categories that no rank ever holds are left out."""

    def __init__(self, curves: Curves) -> None:
        self._curves = curves
        self._held = np.flatnonzero(np.any(curves.bytes > 0, axis=0))

    def texts(self, some: Longs) -> list[str]:
        """What each change's rank holds from then on."""
        values = ",".join(f'"{CATEGORIES[category]}":%d' for category in self._held.tolist())
        form = f'{{"ph":"C","name":"memory_bytes","pid":%d,"ts":{US},"args":{{{values}}}}}'
        curves = self._curves
        return _filled(form, curves.rank[some], *_us(curves.time[some]), *curves.bytes[some][:, self._held].T)


def _waits(run: Run) -> tuple[Longs, Longs, Longs]:
    """Per op the ns that its rank waited for it, the cause by number and the op that it waited for (-1: not known)."""
    if "dependencies" in run.knows:
        return run.once(waits.per_op)
    offsets = run.plan.ops.offsets
    free = np.append(0, run.timeline.end)
    free[offsets[:-1]] = 0
    unknown = np.full(len(run.plan.ops), NONE, np.int64)
    return np.maximum(run.timeline.start - free[:-1], 0), unknown, unknown


def _texts(values: Sequence[str]) -> Texts:
    return np.array(values, dtype=object)


def _words(values: NDArray[np.signedinteger]) -> Texts:
    """Numbers as text, each different one made once."""
    low = int(values.min(initial=0))
    words: Texts = _texts([str(number) for number in range(low, int(values.max(initial=0)) + 1)])[values - low]
    return words


def _us(ns: Longs) -> tuple[Longs, Longs]:
    """Nanoseconds as what ``US`` takes."""
    whole = ns // 1000
    return whole, ns - 1000 * whole


def _filled(form: str, *columns: NDArray[Any]) -> list[str]:
    """The form with its places filled from the columns, row by row, in one call: a fifth of the time of one by one."""
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return ("\n".join([form] * len(columns[0])) % tuple(chain.from_iterable(rows))).split("\n")
