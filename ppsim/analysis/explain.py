"""Why an op started when it did, down to time 0; and what ranks wait for most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ppsim.analysis.result import Result
from ppsim.engine.timeline import PER_SECOND
from ppsim.errors import ConfigError, FormatError
from ppsim.metrics.critical_path import Path, chain, walk
from ppsim.metrics.last_need import freed_by
from ppsim.metrics.limits import limits
from ppsim.ops import NONE, Op


@dataclass(frozen=True)
class Link:
    """One link of the chain, ns; it starts when the one before it ends.

    ``slack``: were this link's end earlier by that much, the op would start earlier by as much; beyond that another
    input holds it. None behind a wait for a port, where others may take what is won.
    """

    what: str
    start: int
    end: int
    slack: int | None

    @property
    def start_s(self) -> float:
        """Its start in seconds."""
        return self.start / PER_SECOND

    @property
    def end_s(self) -> float:
        """Its end in seconds."""
        return self.end / PER_SECOND

    @property
    def slack_s(self) -> float | None:
        """Its slack in seconds."""
        return None if self.slack is None else self.slack / PER_SECOND


def find(result: Result, rank: int | None, op: str | None, at: int | None) -> int:
    """The row of an op given by its text, or by a rank and an instant in ns (the op that runs then, or the next).

    Raises ConfigError where there is none.
    """
    plan, timeline = result.plan, result.timeline
    if op is not None:
        try:
            wanted = Op.parse(op)
        except FormatError as error:
            raise ConfigError(f"--op: {error}") from None
        for row in range(len(plan.ops)):
            if plan.ops[row] == wanted and (rank is None or plan.ops.rank[row] == rank):
                return row
        where = "" if rank is None else f" on rank {rank}"
        first = f"{plan.ops[0]}, {plan.ops[min(1, len(plan.ops) - 1)]}, …"
        raise ConfigError(f"--op: there is no {op}{where}; rank 0 runs {first}")
    if rank is None or at is None:
        raise ConfigError("--rank: say which op: --op 2B3, or --rank 2 --at 41ms")
    if not 0 <= rank < plan.ops.ranks:
        raise ConfigError(f"--rank: {rank} is unknown; the ranks are 0 to {plan.ops.ranks - 1}")
    rows = plan.ops.rows(rank)
    later = np.flatnonzero(timeline.end[rows.start : rows.stop] > at)
    if not len(later):
        raise ConfigError(f"--at: rank {rank} has no op after {at / 1e6:g} ms; its last ends earlier")
    return rows.start + int(later[0])


def explain(result: Result, op: int | str) -> list[Link]:
    """The chain that made an op start when it did, latest first: each starts when the next one in the list ends.

    ``op``: its text, as in '2B3', or its row in the plan. Raises ConfigError where there is none.
    """
    row = find(result, None, op, None) if isinstance(op, str) else op
    path = walk(result.run, int(result.plan.events.begin(row - int(result.plan.tail[row]))))
    return list(_links(result, path, _slacks(result, path)))[::-1]


def _links(result: Result, path: Path, slacks: list[int | None]) -> Iterator[Link]:
    plan = result.plan
    for i in range(len(path)):
        row, transfer = int(path.row[i]), int(path.transfer[i])
        if row >= 0:
            what = f"{plan.ops[row]} on rank {plan.ops.rank[row]}"
        else:
            route = int(plan.transfers.route[transfer])
            src, dst = int(plan.routes.src[route]), int(plan.routes.dst[route])
            producer = plan.ops[int(plan.transfers.producer[transfer])]
            what = f"output of {producer}, rank {src} to {dst}" if src != dst else f"gradient sync of rank {src}"
            if path.queue[i]:
                what += " (held a port)"
        yield Link(what, int(path.start[i]), int(path.end[i]), slacks[i])


def _slacks(result: Result, path: Path) -> list[int | None]:
    """For each link of the path the least by which, from there on, the path's inputs come after all others."""
    run, plan, times = result.run, result.plan, result.timeline.times
    n, t = len(plan.ops), max(len(plan.transfers), 1)
    behind = run.once(freed_by)[0] >= 0
    events = [*chain(run, path.last).tolist(), NONE]
    found: list[int | None] = []
    spare, known = result.timeline.makespan, True
    for event, before in pairwise(events):
        if event < n:
            inputs = [*plan.start_needs.of(event), *([n + event - 1] if _follows(result, event) else [])]
        elif event < 2 * n:
            row = event - n - int(plan.tail[event - n])
            if len(found) < len(path) and path.row[-1 - len(found)] == row:
                found.append(spare if known else None)
            inputs = plan.end_needs.of(row)
        else:
            transfer = (event - 2 * n) % t
            found.append(spare if known else None)
            known = known and not behind[transfer]
            inputs = plan.transfers.needs.of(transfer)
        others = [int(times[i]) for i in inputs if i != before]
        if before >= 0:
            spare = min(spare, int(times[before]) - max(others, default=0))
    return found[::-1]


def _follows(result: Result, row: int) -> bool:
    return row > int(result.plan.ops.offsets[result.plan.ops.rank[row]])


def waiting(result: Result) -> str:
    """What ranks wait for most: the largest sum of waits for one cause at one place, and its share of all."""
    found = limits(result.run)
    total = sum(ns for _, _, ns in found)
    if not total:
        return "nothing is idle"
    cause, place, ns = found[0]
    return f"{100 * ns / total:.0f} % of the idle time is {CAUSE_WORDS[cause].format(place)}"


CAUSE_WORDS = {
    "fill": "filling the pipeline ({})",
    "drain": "draining the pipeline ({})",
    "upstream": "waiting for {} to finish its work",
    "transfer": "waiting for {}",
    "queue": "queueing for {}",
    "blocked": "blocked by its own sends ({})",
    "memory": "waiting for evicted activations ({})",
    "sync": "waiting for gradient sync ({})",
}
