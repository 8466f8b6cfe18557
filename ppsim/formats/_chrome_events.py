"""The events of a Chrome trace as text: spans, messages at ports, flows and counters.

Each class holds the columns that it needs, and makes the text of many events at once. What goes into the text is
numbers and the names of ops and categories, none of which needs escaping.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from ppsim._texts import Texts, words
from ppsim.formats._chrome_order import Flow
from ppsim.formats._chrome_text import column, joined, us
from ppsim.formats._chrome_tracks import Tracks, side_by_side
from ppsim.metrics import Run, waits
from ppsim.metrics.memory import Curves
from ppsim.ops import COMMUNICATION, COMPUTE, NONE, Kind, Longs
from ppsim.plan.table import CATEGORIES

SORT = ["compute" if k in COMPUTE else "message" if k in COMMUNICATION else k.name.lower() for k in Kind]
"""By kind, what a span can be filtered by (its ``cat``)."""


class Spans:
    """Ops on their ranks, by row; an atomic fused pair is one span, by the row of its first."""

    def __init__(self, run: Run, tracks: Tracks) -> None:
        self._plan, self._timeline = run.plan, run.timeline
        names = run.plan.ops.names
        self._names = column(names)
        self._track, self._tracks = _tracks_by_sort(tracks.of_rank), len(tracks.of_rank)
        self._wait, self._cause, self._blocker = _waits(run)
        self._said_cause = column([*(f',"wait_cause":"{cause}"' for cause in waits.CAUSES), ""])
        self._said_blocker = column([*(f',"blocked_by":"{name}"}}}}' for name in names), "}}"])
        self._paired = np.append(run.plan.tail[1:], False)

    def texts(self, rows: Longs, at: Texts) -> list[str]:
        """A span each, with what its rank waited for before it."""
        ops, timeline = self._plan.ops, self._timeline
        title, number = self._names[rows], words(ops.microbatch[rows])
        stage = words(ops.stage[rows], '","stage":', ',"microbatch":')
        number[ops.microbatch[rows] == NONE] = "null"
        for i in np.flatnonzero(self._paired[rows]).tolist():
            row = int(rows[i])
            second, stages = self._names[row + 1], f"[{ops.stage[row]},{ops.stage[row + 1]}]"
            stage[i] = f'","ops":["{title[i]}","{second}"],"stage":{stages},"microbatch":'
            title[i], number[i] = f"({title[i]};{second})OVERLAP_F_B", f"[{number[i]},{ops.microbatch[row + 1]}]"
        track = self._track[ops.kind[rows].astype(np.int64) * self._tracks + ops.rank[rows]]
        return joined(
            '{"ph":"X","name":"PP:', title, track, at,
            us(timeline.end[rows] - timeline.start[rows], ',"dur":', ',"args":{"op":"'), title, stage, number,
            words(np.asarray(ops.step[rows]), ',"step":', ',"wait_us":'), us(self._wait[rows]),
            self._said_cause[self._cause[rows]], self._said_blocker[self._blocker[rows]],
        )  # fmt: skip


class Ports:
    """Transfers at the ports of their senders (or of their receivers), by number."""

    def __init__(self, run: Run, tracks: Tracks, sending: bool) -> None:
        plan, transfers, routes = run.plan, run.plan.transfers, run.plan.routes
        self._transfers, self._timeline = transfers, run.timeline
        port = (routes.egress if sending else routes.ingress)[transfers.route]
        place = side_by_side(run.timeline)[0 if sending else 1]
        threads = [*chain.from_iterable(tracks.of_port)]
        maker = plan.ops.kind[transfers.producer].astype(np.int64)
        self._track = _tracks_by_sort(threads, sends=True)
        self._at = maker * len(threads) + np.cumsum([0, *map(len, tracks.of_port)])[port] + place
        ways = zip(routes.src.tolist(), routes.dst.tolist(), routes.bytes.tolist(), strict=True)
        self._about = column([f'","src":{src},"dst":{dst},"bytes":{size},"wait_us":' for src, dst, size in ways])
        self._made = column(plan.ops.names)[transfers.producer]
        self._name = self._made.copy()
        # An op that makes a message sends it; a move or a sync is called what it is, at both ends.
        rows = transfers.producer if sending else transfers.consumer
        forward, backward = ("SEND_F", "SEND_B") if sending else ("RECV_F", "RECV_B")
        computes = np.flatnonzero(np.isin(maker, COMPUTE))
        by_maker = column([forward if kind == Kind.F else backward for kind in Kind])[maker[computes]]
        self._name[computes] = plan.ops.named(rows[computes], by_maker.tolist())

    def texts(self, some: Longs, at: Texts) -> list[str]:
        """The span of each from when it takes the port until it frees it."""
        start = self._timeline.transfer_start[some]
        return joined(
            '{"ph":"X","name":"PP:', self._name[some], self._track[self._at[some]], at,
            us(self._timeline.left[some] - start, ',"dur":', ',"args":{"op":"'), self._made[some],
            self._about[self._transfers.route[some]], us(start - self._timeline.ready[some], "", "}}"),
        )  # fmt: skip


class Ends:
    """The beginnings (or ends) of flows, by number."""

    def __init__(self, run: Run, tracks: Tracks, flow: Flow, begins: bool) -> None:
        self._rank = run.plan.ops.rank[flow.sender if begins else flow.taker]
        self._track = column([f',"name":"message","cat":"message",{track},"ts":' for track in tracks.of_rank])
        self._first = '{"ph":"s","id":' if begins else '{"ph":"f","bp":"e","id":'

    def texts(self, some: Longs, at: Texts) -> list[str]:
        """An end each, in the span that is open on its track."""
        return joined(self._first, [*map(str, some.tolist())], self._track[self._rank[some]], at, "}")


class Counters:
    """Memory of the ranks in bytes, by change; categories that no rank ever holds are left out."""

    def __init__(self, curves: Curves) -> None:
        self._curves = curves
        self._held = np.flatnonzero(np.any(curves.bytes > 0, axis=0)).tolist()

    def texts(self, some: Longs, at: Texts) -> list[str]:
        """What each change's rank holds from then on."""
        held, separators = self._curves.bytes[some], [',"args":{', *[","] * len(self._held)]
        values = [
            words(held[:, category], f'{separator}"{CATEGORIES[category]}":')
            for category, separator in zip(self._held, separators, strict=False)
        ]
        rank = words(self._curves.rank[some], '{"ph":"C","name":"memory_bytes","pid":', ',"ts":')
        return joined(rank, at, *values, "}}" if values else ',"args":{}}')


def _tracks_by_sort(tracks: Sequence[str], sends: bool = False) -> Texts:
    """By kind, and of each by track, what stands between the name and the time of a span."""
    sorts = ["message" if sends and kind in COMPUTE else SORT[kind] for kind in Kind]
    return column([f'","cat":"{sort}",{track},"ts":' for sort in sorts for track in tracks])


def _waits(run: Run) -> tuple[Longs, Longs, Longs]:
    """Per op the ns that its rank waited for it, the cause by number and the op that it waited for (-1: not known)."""
    if "dependencies" in run.knows:
        return run.once(waits.per_op)
    offsets = run.plan.ops.offsets
    free = np.append(0, run.timeline.end)
    free[offsets[:-1]] = 0
    unknown = np.full(len(run.plan.ops), NONE, np.int64)
    return np.maximum(run.timeline.start - free[:-1], 0), unknown, unknown
