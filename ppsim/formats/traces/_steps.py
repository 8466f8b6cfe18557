"""Which step each of a worker's spans belongs to: by the profiler's own steps, or by what repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ppsim.formats.traces._spans import Span
from ppsim.ops import COMPUTE, Kind, Op

_BEFORE_ITS_COMPUTE = (Kind.RECV_F, Kind.RECV_B, Kind.UNSHARD)


def by_profiler(spans: Sequence[Span], steps: Sequence[tuple[object, int, float, float]]) -> list[int] | None:
    """The number of the profiler's step that each span starts in (-1: none); None where that tells nothing.

    It tells nothing where there are no steps, or where one of them holds an op twice.
    """
    marks = sorted({(start, end, number) for _, number, start, end in steps})
    if not marks:
        return None
    starts = np.array([start for start, *_ in marks])
    found: list[int] = []
    for span in spans:
        place = int(np.searchsorted(starts, span.start, side="right")) - 1
        found.append(marks[place][2] if place >= 0 and span.start < marks[place][1] else -1)
    twice = Counter((number, op) for number, span in zip(found, spans, strict=True) for op in span.ops if number >= 0)
    computes = [count for (_, op), count in twice.items() if op.kind in COMPUTE]
    return found if computes and max(computes) == 1 else None


def by_repetition(spans: Sequence[Span]) -> list[int]:
    """The step of each span, from 0: a new one starts where the first forward of the first stage comes again.

    What stands before the first such forward is of a step that the trace shows only in part: -1.
    """
    computes = [number for number, span in enumerate(spans) if span.ops[0].kind in COMPUTE]
    forwards = [spans[number].ops[0] for number in computes if spans[number].ops[0].kind == Kind.F]
    first = min(forwards, key=lambda op: (op.microbatch, op.stage), default=None)
    step, of_compute = -1, {}
    seen: set[Op] = set()
    for number in computes:
        ops = spans[number].ops
        if first in ops or (first is None and not seen.isdisjoint(ops)) or (first is None and step < 0):
            step += 1
            seen = set()
        seen.update(ops)
        of_compute[number] = step
    out: list[int] = []
    last = -1
    following = _next(computes, len(spans))
    for number, span in enumerate(spans):
        last = of_compute.get(number, last)
        after = following[number]
        early = span.ops[0].kind in _BEFORE_ITS_COMPUTE and after is not None
        out.append(of_compute[after] if early and after is not None else last)
    return out


def _next(places: Sequence[int], length: int) -> list[int | None]:
    """For each number the first of ``places`` that isn't before it."""
    out: list[int | None] = [None] * length
    later: int | None = None
    mine = set(places)
    for number in range(length - 1, -1, -1):
        later = number if number in mine else later
        out[number] = later
    return out


def aligned(starts: Sequence[Sequence[float]]) -> list[int]:
    """How many steps each worker has before those that all share, from the starts of each one's steps.

    Where all have as many, they are the same ones; else they are those that lie nearest in time to the shortest list's.
    """
    fewest = min(starts, key=len)
    out: list[int] = []
    for mine in starts:
        spare = len(mine) - len(fewest)
        distance = [
            float(np.median(np.abs(np.array(mine[skip : skip + len(fewest)]) - np.array(fewest))))
            for skip in range(spare + 1)
        ]
        out.append(int(np.argmin(distance)) if distance else 0)
    return out
