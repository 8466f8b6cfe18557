"""Which step each of a worker's spans belongs to: by the profiler's own steps, or by what repeats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ppsim.formats.traces._spans import Spans
from ppsim.ops import COMPUTE, NONE, Kind, Longs, Op

_BEFORE_ITS_COMPUTE = (Kind.RECV_F, Kind.RECV_B, Kind.UNSHARD)
Ops = Sequence[tuple[Op, ...]]


def kinds(ops: Ops) -> NDArray[np.int64]:
    """By number, the kind of the first op."""
    return np.array([one[0].kind for one in ops], np.int64)


def computing(ops: Ops) -> NDArray[np.bool_]:
    """By number, whether it is a stage's work."""
    return np.isin(kinds(ops), [int(kind) for kind in COMPUTE])


def by_profiler(spans: Spans, ops: Ops, steps: Spans) -> Longs | None:
    """The number of the profiler's step that each span starts in (-1: none); None where that tells nothing.

    It tells nothing where there are no steps, or where one of them holds an op twice.
    """
    if not len(steps):
        return None
    steps = steps[np.lexsort((steps.end, steps.start))]
    place = np.searchsorted(steps.start, spans.start, side="right") - 1
    inside = (place >= 0) & (spans.start < steps.end[np.maximum(place, 0)])
    number: Longs = np.where(inside, steps.what[np.maximum(place, 0)], NONE).astype(np.int64)
    work = inside & computing(ops)[spans.what]
    if not np.any(work):
        return None
    _, times = np.unique(np.stack([number[work], spans.what[work]]), axis=1, return_counts=True)
    return number if int(times.max()) == 1 else None


def by_repetition(spans: Spans, ops: Ops) -> Longs:
    """The step of each span, from 0: a new one starts where the first forward of the first stage comes again.

    What stands before the first such forward is of a step that the trace shows only in part: -1.
    """
    forwards = [one for one in ops if one[0].kind == Kind.F]
    work = computing(ops)[spans.what]
    places = np.flatnonzero(work)
    if forwards:
        first = min(
            (op for one in forwards for op in one if op.kind == Kind.F), key=lambda op: (op.microbatch, op.stage)
        )
        begins = np.array([first in one for one in ops])[spans.what[places]]
        of_work = np.cumsum(begins) - 1
    else:
        of_work = _until_repeated(spans.what[places].tolist())
    count = np.cumsum(work)
    before = np.append(NONE, of_work)[count]  # of the last compute op up to here
    following = np.append(of_work, NONE)[np.minimum(count, len(of_work))]
    early = np.isin(kinds(ops), [int(kind) for kind in _BEFORE_ITS_COMPUTE])[spans.what] & (count < len(places))
    step: Longs = np.where(early, following, before).astype(np.int64)
    return step


def _until_repeated(whats: Sequence[int]) -> Longs:
    """A new step wherever an op comes again."""
    step, seen, out = 0, set[int](), []
    for what in whats:
        if what in seen:
            step, seen = step + 1, set()
        seen.add(what)
        out.append(step)
    return np.array(out, np.int64)


def aligned(starts: Sequence[NDArray[np.float64]]) -> list[int]:
    """How many steps each worker has before those that all share, from the starts of each one's steps.

    Where all have as many, they are the same ones; else they are those that lie nearest in time to the shortest list's.
    """
    fewest = min(starts, key=len)
    if not len(fewest):
        return [0] * len(starts)
    out: list[int] = []
    for mine in starts:
        spare = len(mine) - len(fewest)
        distance = [float(np.median(np.abs(mine[skip : skip + len(fewest)] - fewest))) for skip in range(spare + 1)]
        out.append(int(np.argmin(distance)))
    return out
