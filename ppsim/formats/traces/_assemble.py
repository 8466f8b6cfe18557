"""From what a reader found to a Measured: columns of numbers, and which message a send or a receive belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ppsim.analysis.measured.table import Flags, Label, Rows, Scope
from ppsim.errors import FormatError
from ppsim.ops import NONE, Ints, Kind, Longs

LIMIT_NS = 2**61
_LARGEST = 10**6
_WORK_OF = {Kind.RECV_F: Kind.F, Kind.SEND_F: Kind.F, Kind.RECV_B: Kind.B, Kind.SEND_B: Kind.B}
Places = NDArray[np.int64]


def to_ns(values: NDArray[np.generic], per_unit: float, where: str) -> Longs:
    """Times as whole nanoseconds. Raises FormatError for what is no time."""
    ns = np.asarray(values, np.float64) * per_unit
    if not np.all(np.isfinite(ns)) or np.any(np.abs(ns) > LIMIT_NS):
        raise FormatError(f"{where}: has times that aren't finite, or are beyond 2^61 ns")
    return np.rint(ns).astype(np.int64)


def small(values: NDArray[np.generic], where: str, least: int = 0) -> Ints:
    """A column of small whole numbers. Raises FormatError for anything else."""
    if values.dtype.kind not in "iu" or (
        len(values) and not least <= int(values.min()) <= int(values.max()) <= _LARGEST
    ):
        raise FormatError(f"{where}: must be whole numbers from {least} to {_LARGEST:,}")
    return values.astype(np.int32)


def numbered(values: Ints, what: str, size: int | None, missing: list[str]) -> int:
    """How many there are of what a column numbers from 0 (at least ``size``); what isn't there is said."""
    present = np.unique(values)
    count = max(int(present.max(initial=-1)) + 1, size or 0)
    if gaps := sorted({*range(min(count, 10_000))} - {*present.tolist()}):
        some = ", ".join(map(str, gaps[:8])) + (", …" if len(gaps) > 8 else "")
        several = len(gaps) > 1
        missing.append(f"{what}{'s' * several} {some} of {count} {'are' if several else 'is'} not in the trace")
    return count


def scope_of(kind: Kind) -> Scope:
    """Who takes part in an op of that kind, by default."""
    if kind in _WORK_OF:
        return Scope.PAIR
    return Scope.REPLICAS if kind in (Kind.REDUCE_GRAD, Kind.UNSHARD) else Scope.ALONE


def matched(rows: Rows, labels: Sequence[Label], stages: int) -> tuple[Rows, list[str]]:
    """Sends and receives with the stage and microbatch that they belong to, where those aren't given.

    The n-th receive of a worker's step is for its n-th compute op that has an input from another stage, the n-th send
    for its n-th that has an output to another one; or, where as many are recorded as there are compute ops, for all of
    them, the ones that carry nothing being dropped. Returns the rows and what could not be matched.
    """
    kinds = np.array([NONE if label.kind is None else label.kind for label in labels], np.int32)[rows.label]
    lanes = np.unique(np.stack([rows.replica, rows.step, rows.rank]), axis=1, return_inverse=True)[1].reshape(-1)
    order = np.lexsort((rows.end, rows.start, lanes))
    keep = np.ones(len(rows), bool)
    stage, microbatch = rows.stage.copy(), rows.microbatch.copy()
    unmatched = 0
    for kind, work in _WORK_OF.items():
        mine = (kinds == kind) & (rows.microbatch == NONE)
        for messages, works in _by_lane(lanes, order, mine, kinds == work):
            found = _pairing(rows, kind, (messages, works), stages)
            keep[messages] = False
            if found is None:
                unmatched += len(messages)
                continue
            used, target = found
            keep[used] = True
            stage[used], microbatch[used] = rows.stage[target], rows.microbatch[target]
    lost = f"{unmatched} sends and receives belong to no compute op that could be told; they were left out"
    return replace(rows, stage=stage, microbatch=microbatch)[keep], [lost] if unmatched else []


def _by_lane(lanes: Places, order: Places, mine: Flags, works: Flags) -> list[tuple[Places, Places]]:
    """The rows of both kinds of each worker and step that has some of the first, in the order of time."""
    first, second = order[mine[order]], order[works[order]]
    bounds = np.unique(lanes[first])
    sides = [
        (np.searchsorted(lanes[rows], bounds), np.searchsorted(lanes[rows], bounds, "right"))
        for rows in (first, second)
    ]
    (a, b), (c, d) = sides
    return [(first[a[i] : b[i]], second[c[i] : d[i]]) for i in range(len(bounds))]


def _pairing(rows: Rows, kind: Kind, of: tuple[Places, Places], stages: int) -> tuple[Places, Places] | None:
    """The messages that carry something, and the compute op of each; None where the counts don't tell."""
    messages, works = of
    at = rows.stage[works]
    carries: Flags = at > 0 if kind in (Kind.RECV_F, Kind.SEND_B) else at < stages - 1
    for tried in (messages, _inside(rows, kind, messages, works)):
        if len(tried) == int(carries.sum()):
            return tried, works[carries]
        # As many as compute ops, or one less: the first one's is never posted where it carries nothing.
        for skipped in (0, 1):
            if len(tried) == len(works) - skipped and not np.any(carries[:skipped]):
                return tried[carries[skipped:]], works[carries]
    return None


def _inside(rows: Rows, kind: Kind, messages: Places, works: Places) -> Places:
    """Without receives that begin after the last compute op began, and sends that end before the first one ended."""
    if not len(works):
        return messages[:0]
    if kind in (Kind.RECV_F, Kind.RECV_B):
        inside = rows.start[messages] <= rows.start[works].max()
    else:
        inside = rows.end[messages] >= rows.end[works].min()
    kept: Places = messages[inside]
    return kept
