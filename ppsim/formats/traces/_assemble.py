"""From what a reader found to a Measured: which message a send or a receive belongs to, which steps are whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ppsim.analysis.measured.table import Flags, Label, Longs, Rows, Scope
from ppsim.errors import FormatError
from ppsim.ops import NONE, Kind

LIMIT_NS = 2**61
_LARGEST = 10**6
_UP = {Kind.RECV_F: Kind.F, Kind.SEND_F: Kind.F, Kind.RECV_B: Kind.B, Kind.SEND_B: Kind.B}


def to_ns(values: np.ndarray, per_unit: float, where: str) -> Longs:
    """Times as whole nanoseconds. Raises FormatError for what is no time."""
    ns = np.asarray(values, np.float64) * per_unit
    if not np.all(np.isfinite(ns)) or np.any(np.abs(ns) > LIMIT_NS):
        raise FormatError(f"{where}: has times that aren't finite, or are beyond 2^61 ns")
    rounded: Longs = np.rint(ns).astype(np.int64)
    return rounded


def small(values: np.ndarray, where: str, least: int = 0) -> np.ndarray:
    """A column of small whole numbers. Raises FormatError for anything else."""
    found = np.asarray(values)
    if found.dtype.kind not in "iu" or (len(found) and (found.min() < least or found.max() > _LARGEST)):
        raise FormatError(f"{where}: must be whole numbers from {least} to {_LARGEST:,}")
    return found.astype(np.int32)


def matched(rows: Rows, labels: Sequence[Label], stages: int) -> tuple[Rows, list[str]]:
    """Sends and receives with the stage and microbatch that they belong to, where those aren't given.

    The n-th receive of a worker's step is for its n-th compute op that has an input from another stage, the n-th send
    for its n-th that has an output to another one; or, where as many are recorded as there are compute ops, for all of
    them, the ones that carry nothing being dropped. Returns the rows and what could not be matched.
    """
    kinds = np.array([NONE if label.kind is None else label.kind for label in labels], np.int32)[rows.label]
    keep = np.ones(len(rows), bool)
    stage, microbatch = rows.stage.copy(), rows.microbatch.copy()
    lanes = np.unique(np.stack([rows.replica, rows.step, rows.rank]), axis=1, return_inverse=True)[1].reshape(-1)
    unmatched = 0
    for label in sorted({*rows.label.tolist()}):
        kind = labels[label].kind
        if kind not in _UP:
            continue
        mine, computes = rows.label == label, kinds == _UP[kind]
        if np.all(rows.microbatch[mine] != NONE):
            continue
        order = np.lexsort((rows.end, rows.start, lanes))
        ends, works = order[mine[order]], order[computes[order]]
        bounds = np.arange(lanes.max(initial=-1) + 2)
        of_ends, of_works = np.searchsorted(lanes[ends], bounds), np.searchsorted(lanes[works], bounds)
        for lane in range(len(bounds) - 1):
            messages = ends[of_ends[lane] : of_ends[lane + 1]]
            if not len(messages):
                continue
            works_here = works[of_works[lane] : of_works[lane + 1]]
            carries = _carries(kind, rows.stage[works_here], stages)
            target, used = _pairing(rows, kind, messages, works_here, carries)
            if target is None:
                unmatched += len(messages)
                keep[messages] = False
                continue
            keep[np.setdiff1d(messages, used)] = False
            stage[used], microbatch[used] = rows.stage[target], rows.microbatch[target]
    found = Rows(
        rows.replica, rows.step, rows.rank, rows.label, stage, microbatch, rows.start, rows.end, rows.group
    )[keep]  # fmt: skip
    lost = f"{unmatched} sends and receives belong to no compute op that could be told; they were left out"
    return found, [lost] if unmatched else []


def _carries(kind: Kind, stage: np.ndarray, stages: int) -> Flags:
    """Whether a compute op on such a stage has that message at all."""
    carries: Flags = stage > 0 if kind in (Kind.RECV_F, Kind.SEND_B) else stage < stages - 1
    return carries


def _pairing(
    rows: Rows, kind: Kind, messages: np.ndarray, works: np.ndarray, carries: Flags
) -> tuple[np.ndarray | None, np.ndarray]:
    """The compute op of each message that is one, and those messages; None where the counts don't tell."""
    for attempt in (messages, _inside(rows, kind, messages, works)):
        if len(attempt) == int(carries.sum()):
            return works[carries], attempt
        if len(attempt) == len(works):
            return works[carries], attempt[carries]
    return None, messages


def _inside(rows: Rows, kind: Kind, messages: np.ndarray, works: np.ndarray) -> np.ndarray:
    """Without receives that begin after the last compute op began, and sends that end before the first one ended."""
    if not len(works):
        return messages[:0]
    if kind in (Kind.RECV_F, Kind.RECV_B):
        return messages[rows.start[messages] <= rows.start[works].max()]
    return messages[rows.end[messages] >= rows.end[works].min()]


def scope_of(kind: Kind) -> Scope:
    """Who takes part in an op of that kind, by default."""
    if kind in _UP:
        return Scope.PAIR
    return Scope.REPLICAS if kind in (Kind.REDUCE_GRAD, Kind.UNSHARD) else Scope.ALONE


def numbered(values: np.ndarray, what: str, size: int | None, missing: list[str]) -> tuple[np.ndarray, int]:
    """A column that should count from 0 (or to ``size``): as it is, and how many there are; gaps are said."""
    present = np.unique(values)
    count = max(int(present[-1]) + 1, size or 0) if len(present) else size or 0
    if gaps := sorted({*range(min(count, 10_000))} - {*present.tolist()}):
        are = "are" if len(gaps) > 1 else "is"
        some = ", ".join(map(str, gaps[:8])) + (", …" if len(gaps) > 8 else "")
        missing.append(f"{what}{'s' if len(gaps) > 1 else ''} {some} of {count} {are} not in the trace")
    return values, count
