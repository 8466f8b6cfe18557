"""What the two readers of ppsim's own files share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ppsim.analysis.measured.table import Label, Measured, Messages, Rows
from ppsim.errors import FormatError
from ppsim.formats.traces._assemble import numbered, scope_of
from ppsim.formats.traces._files import label
from ppsim.ops import COMPUTE, NONE, Ints, Kind, Longs

LABELS = tuple(Label(kind.name, kind, scope_of(kind)) for kind in Kind)


@dataclass(frozen=True)
class Contents:
    """What a file holds; ``rows.step`` counts as the file does."""

    rows: Rows
    messages: Messages | None
    memory: Longs | None
    """Peak bytes by rank."""
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def measured(kind: str, path: Path, found: Contents) -> Measured:
    """A Measured of one of ppsim's own files. Raises FormatError where there is no pipeline in it."""
    rows = found.rows
    compute = np.isin(rows.label, [int(k) for k in COMPUTE])
    if not np.any(compute):
        raise FormatError(f"{label(path)}: has no forward and no backward in it")
    if np.any(rows.microbatch[compute] < 0):
        raise FormatError(f"{label(path)}: a forward or a backward lacks its microbatch")
    missing = list(found.missing)
    ranks = numbered(rows.rank, "rank", None, missing)
    numbers, step = np.unique(rows.step, return_inverse=True)
    held = found.memory
    if held is None or len(numbers) > 1 or len(held) != ranks:
        held = None
        missing.append("memory" if len(numbers) == 1 else "memory by step")
    return Measured(
        format=kind,
        source=str(path),
        labels=LABELS,
        rows=replace(rows, step=step.reshape(-1).astype(np.int32)).sorted(),
        ranks=ranks,
        replicas=1,
        stages=int(rows.stage[compute].max()) + 1,
        microbatches=int(rows.microbatch[compute].max()) + 1,
        steps=tuple(numbers.tolist()),
        memory=None if held is None else held[None, :],
        messages=None if found.messages is None else found.messages.of_steps(numbers),
        missing=tuple(missing),
        notes=found.notes,
    )


def table(columns: Sequence[Ints], start: Longs, end: Longs) -> Rows:
    """Rows of one replica from (rank, step, kind, stage, microbatch) and times; neighbours with one span are a pair."""
    rank, step, kind, stage, microbatch = columns
    nothing = np.zeros(len(rank), np.int32)
    return Rows(nothing, step, rank, kind, stage, microbatch, start, end, _pairs(rank, kind, (start, end)))


def _pairs(rank: Ints, kind: Ints, span: tuple[Longs, Longs]) -> Ints:
    """The groups of fused pairs: neighbours, a forward and a backward, with one and the same span that takes time."""
    start, end = span
    group: NDArray[np.int32] = np.full(len(kind), NONE, np.int32)
    same = (rank[1:] == rank[:-1]) & (start[1:] == start[:-1]) & (end[1:] == end[:-1]) & (end[1:] > start[1:])
    same &= (kind[:-1] == Kind.F) & np.isin(kind[1:], [int(Kind.B), int(Kind.I)])
    first = np.flatnonzero(same)
    group[first] = group[first + 1] = np.arange(len(first))
    return group
