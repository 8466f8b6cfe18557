"""A measured run as a matrix: the ops of one step of one replica down, replicas and steps across.

Every replica and step of a run does the same ops, so that what is computed per op is computed for all of them at once.
Ops are told apart by rank, label and their occurrence; a step in which some op is missing is left out, and said.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ppsim.analysis.measured.table import Flags, Ints, Longs, Measured
from ppsim.errors import PpsimError
from ppsim.ops import COMMUNICATION, COMPUTE, NONE, Kind


@dataclass(frozen=True, eq=False)
class Lanes:
    """``start`` and ``end`` have shape (ops, replicas, steps); the other columns (ops,). Ops stand by rank and time."""

    measured: Measured
    rank: Ints
    label: Ints
    kind: Ints
    stage: Ints
    microbatch: Ints
    start: Longs
    end: Longs
    steps: tuple[int, ...]
    """The numbers of the steps that are whole."""
    left_out: tuple[str, ...]
    """Why some steps aren't here."""

    def __len__(self) -> int:
        return len(self.rank)

    @cached_property
    def computes(self) -> Flags:
        """Ops that are a stage's work on a microbatch."""
        return np.isin(self.kind, [int(kind) for kind in COMPUTE])

    @cached_property
    def messages(self) -> Flags:
        """Ops that are one end of a message."""
        found: Flags = np.isin(self.kind, [int(kind) for kind in COMMUNICATION])
        return found

    @cached_property
    def partner(self) -> Ints:
        """Of an op in a fused pair the other one; -1 for all else."""
        out = np.full(len(self), NONE, np.int32)
        rows, kind, where = self.measured.rows, self.measured.kind, self.where()
        told = np.flatnonzero(
            (rows.group != NONE) & (rows.step == rows.step.min()) & (rows.replica == rows.replica.min())
        )
        waiting: dict[int, int] = {}
        for i in told.tolist():
            node = where.get((int(kind[i]), int(rows.stage[i]), int(rows.microbatch[i])))
            if node is None:
                continue
            other = waiting.setdefault(int(rows.group[i]), node)
            if other != node:
                out[node], out[other] = other, node
        return out

    @cached_property
    def seconds(self) -> Flags:
        """The second op of each fused pair: it has the span of both."""
        found: Flags = (self.partner != NONE) & (self.partner < np.arange(len(self)))
        return found

    @cached_property
    def duration(self) -> Longs:
        """Ns from start to end."""
        return self.end - self.start

    @cached_property
    def span(self) -> Longs:
        """By step, ns from the first compute op's start to the last one's end, over all replicas."""
        first = self.start[self.computes].min(axis=(0, 1))
        last: Longs = self.end[self.computes].max(axis=(0, 1))
        span: Longs = last - first
        return span

    def where(self) -> dict[tuple[int, int, int], int]:
        """The number of each compute or message op by (kind, stage, microbatch), where it has them."""
        told = np.flatnonzero((self.computes | self.messages) & (self.microbatch != NONE))
        keys = zip(self.kind[told].tolist(), self.stage[told].tolist(), self.microbatch[told].tolist(), strict=True)
        return dict(zip(keys, told.tolist(), strict=True))

    def of_rank(self, rank: int, which: Flags) -> Ints:
        """The numbers of a rank's ops among those, in the order in which they ran in the first lane."""
        mine: Ints = np.flatnonzero((self.rank == rank) & which).astype(np.int32)
        return mine


def lanes(measured: Measured) -> Lanes:
    """The matrix of a run. Raises PpsimError where no step is whole, or a rank is missing altogether."""
    rows = measured.rows
    ids = _identities(measured)
    _, first, op = np.unique(ids, return_index=True, return_inverse=True)
    op = op.reshape(-1)
    shape = (len(first), measured.replicas, len(measured.steps))
    start = np.full(shape, np.iinfo(np.int64).min)
    end = start.copy()
    start[op, rows.replica, rows.step] = rows.start
    end[op, rows.replica, rows.step] = rows.end
    there = start != np.iinfo(np.int64).min
    # An op that most lanes don't have is a stray; one that most have is due in all.
    due = there.mean(axis=(1, 2)) >= 0.5
    ok = np.all(there[due], axis=(0, 1))
    seen = {*rows.rank[measured.computes].tolist()}
    if absent := [rank for rank in range(measured.ranks) if rank not in seen]:
        raise PpsimError(
            f"{measured.source}: rank {', '.join(map(str, absent))} of {measured.ranks} isn't in the trace: what its "
            "ops take can't be known"
        )
    _stages_there(measured)
    if not np.any(ok):
        raise PpsimError(f"{measured.source}: no step is whole on all ranks and replicas")
    lost = [number for number, good in zip(measured.steps, ok.tolist(), strict=True) if not good]
    said = _sampled(measured.steps)
    said += (f"step{'s' if len(lost) > 1 else ''} {_few(lost)}: not whole, left out",) if lost else ()
    start, end, first = start[due][:, :, ok], end[due][:, :, ok], first[due]
    typical = np.median(start.reshape(len(start), -1), axis=1)
    order = np.lexsort((np.median(end.reshape(len(end), -1), axis=1), typical, rows.rank[first]))
    order = _by_first_lane(order, rows.rank[first], start[:, 0, 0], end[:, 0, 0])
    chosen = first[order]
    _both_ways(measured, chosen)
    return Lanes(
        measured, rows.rank[chosen], rows.label[chosen], measured.kind[chosen].astype(np.int32), rows.stage[chosen],
        rows.microbatch[chosen], start[order], end[order],
        tuple(number for number, good in zip(measured.steps, ok.tolist(), strict=True) if good), said,
    )  # fmt: skip


def _stages_there(measured: Measured) -> None:
    """Raise PpsimError where a stage below the last is on no rank."""
    seen = {stage for held in measured.stages_of for stage in held}
    if absent := [str(stage) for stage in range(measured.stages) if stage not in seen]:
        text = f"no rank of this trace holds stage {', '.join(absent)}; give the folder that has a file for every rank"
        raise PpsimError("\n  ".join([f"{measured.source}: {text}", *measured.notes]))


def _both_ways(measured: Measured, chosen: np.ndarray) -> None:
    """Raise PpsimError where what was measured of a step isn't a forward and a backward of each microbatch."""
    kind, rows = measured.kind[chosen], measured.rows
    ops = set(zip(kind.tolist(), rows.stage[chosen].tolist(), rows.microbatch[chosen].tolist(), strict=True))
    absent = []
    for stage in range(measured.stages):
        for microbatch in range(measured.microbatches):
            for letter, kinds in (("F", (Kind.F,)), ("B", (Kind.B, Kind.I))):
                if not any((int(kind), stage, microbatch) in ops for kind in kinds):
                    absent.append(f"{stage}{letter}{microbatch}")
    if absent:
        verb = "is" if len(absent) == 1 else "are"
        some = ", ".join(absent[:6]) + (f" and {len(absent) - 6} more" if len(absent) > 6 else "")
        text = f"{measured.source}: {some} {verb} missing: this isn't a whole step of forwards and backwards"
        raise PpsimError("\n  ".join([text, *measured.notes]))


def _by_first_lane(order: np.ndarray, rank: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """By rank and by the time of the first lane; ops at the same time stay as they are."""
    again: np.ndarray = order[np.lexsort((np.arange(len(order)), end[order], start[order], rank[order]))]
    return again


def _identities(measured: Measured) -> np.ndarray:
    """By row a number that tells its op apart from others of its step and replica."""
    rows = measured.rows
    told = (rows.microbatch != NONE) & (rows.stage != NONE)
    occurrence = np.zeros(len(rows), np.int64)
    rest = np.flatnonzero(~told)
    if len(rest):
        lane = np.stack([column[rest] for column in (rows.replica, rows.step, rows.rank, rows.label)])
        order = np.lexsort((rows.end[rest], rows.start[rest], *lane[::-1]))
        change = np.any(np.diff(lane[:, order], axis=1), axis=0)
        heads = np.concatenate([[0], np.flatnonzero(change) + 1])
        since = np.repeat(heads, np.diff([*heads, len(rest)]))
        occurrence[rest[order]] = np.arange(len(rest)) - since
    stage, microbatch = (np.where(told, column, NONE) for column in (rows.stage, rows.microbatch))
    key = np.zeros(len(rows), np.int64)
    for column in (rows.rank, rows.label, stage, microbatch, occurrence):
        values, number = np.unique(column, return_inverse=True)
        # Numbered anew each time, so that the product of the columns' sizes stays small.
        key = np.unique(key, return_inverse=True)[1].reshape(-1) * len(values) + number.reshape(-1)
    return key


def _sampled(steps: tuple[int, ...]) -> tuple[str, ...]:
    """What is said of steps that don't follow each other."""
    between = steps[-1] - steps[0] + 1
    return (
        (f"steps are sampled: {len(steps)} of {between}, from {steps[0]} to {steps[-1]}",)
        if between > len(steps)
        else ()
    )


def _few(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (f" … ({len(numbers)})" if len(numbers) > 8 else "")
