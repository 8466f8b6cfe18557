"""Ops: the kinds, one op and its text, tables of ops, and the vocabulary that schedules are written in.

The text form is PyTorch's: ``2F0`` is stage 2, forward, microbatch 0. It is the cell of a schedule file, the label in
a Gantt chart and the word in every message. Ours beyond PyTorch's: ``2R0`` (recompute), ``0EVICT2>3`` and ``0LOAD2<3``
(an activation to and from rank 3), ``0OPTIM``, and ``2F0@1`` where several steps run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppsim.errors import FormatError, printable

T = TypeVar("T", bound=np.generic)
Ints = NDArray[np.int32]
NONE = -1
"""No microbatch, no group, no peer."""
HOST = -2
"""The peer of a move to host memory."""


class Kind(IntEnum):
    """What an op does, in PyTorch's letters: B the full backward, I its input-gradient, W its weight-gradient half."""

    F = 0
    B = 1
    I = 2  # noqa: E741 - the field's letter
    W = 3
    R = 4
    SEND_F = 5
    RECV_F = 6
    SEND_B = 7
    RECV_B = 8
    REDUCE_GRAD = 9
    OPTIM = 10
    EVICT = 11
    LOAD = 12
    UNSHARD = 13
    RESHARD = 14


COMPUTE = (Kind.F, Kind.B, Kind.I, Kind.W, Kind.R)
COMMUNICATION = (Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B)
MOVES = (Kind.EVICT, Kind.LOAD)
WITHOUT_MICROBATCH = (Kind.REDUCE_GRAD, Kind.OPTIM, Kind.UNSHARD, Kind.RESHARD)

_NAMES = tuple(kind.name for kind in Kind)
_LARGEST = 2**31 - 1
_CELL = re.compile(
    r"(?P<stage>\d{1,10})(?P<kind>" + "|".join(sorted(_NAMES, key=len, reverse=True)) + r")(?P<microbatch>\d{0,10})"
    r"(?:(?P<way>[<>])(?P<peer>\d{1,10}|host))?(?:@(?P<step>\d{1,10}))?",
    re.ASCII,
)
_PAIR = re.compile(r"\((?P<first>[^;()]+);(?P<second>[^;()]+)\)OVERLAP_F_B")


class Op(NamedTuple):
    """One op of one microbatch on one stage; ``str(op)`` and ``Op.parse`` are inverse."""

    kind: Kind
    stage: int
    microbatch: int = NONE
    step: int = 0
    peer: int = NONE

    def __str__(self) -> str:
        text = f"{self.stage}{Kind(self.kind).name}"
        if self.microbatch != NONE:
            text += str(self.microbatch)
        if self.peer != NONE:
            text += (">" if self.kind == Kind.EVICT else "<") + ("host" if self.peer == HOST else str(self.peer))
        return f"{text}@{self.step}" if self.step else text

    @classmethod
    def parse(cls, text: str) -> Op:
        """Read ``2F0``, ``0EVICT2>3``, ``1REDUCE_GRAD``, ``2F0@1``. Raises FormatError for anything else."""
        match = _CELL.fullmatch(text)
        if match is None:
            form = "an op reads stage, kind, microbatch, as in '2F0'"
            raise FormatError(f"'{printable(text[:80])}' is not an op; {form}")
        kind = Kind[match["kind"]]
        microbatch = int(match["microbatch"]) if match["microbatch"] else NONE
        peer = NONE
        if match["peer"]:
            peer = HOST if match["peer"] == "host" else int(match["peer"])
        op = cls(kind, int(match["stage"]), microbatch, int(match["step"] or 0), peer)
        if max(op.stage, op.microbatch, op.step, op.peer) > _LARGEST:
            raise FormatError(f"'{text}' has a number above {_LARGEST}")
        if kind not in WITHOUT_MICROBATCH and microbatch == NONE:
            raise FormatError(f"'{text}' lacks its microbatch, as in '{text}0'")
        if (kind in MOVES) != (peer != NONE) or (match["way"] or "") not in {"", ">" if kind == Kind.EVICT else "<"}:
            raise FormatError(f"'{text}': EVICT names its target as in '0EVICT2>3', LOAD its source as in '0LOAD2<3'")
        return op


def parse_cell(text: str) -> tuple[Op, ...]:
    """The ops of one cell: one, or the two of a fused pair ``(7F4;0B0)OVERLAP_F_B``."""
    pair = _PAIR.fullmatch(text)
    if pair is None:
        return (Op.parse(text),)
    first, second = Op.parse(pair["first"]), Op.parse(pair["second"])
    if first.kind != Kind.F or second.kind not in (Kind.B, Kind.I):
        raise FormatError(f"'{text}': a fused pair is a forward and a backward, as in '(7F4;0B0)OVERLAP_F_B'")
    return (first, second)


def cell(ops: Sequence[Op]) -> str:
    """The text of one op or of a fused pair; inverse of ``parse_cell``."""
    return str(ops[0]) if len(ops) == 1 else f"({ops[0]};{ops[1]})OVERLAP_F_B"


def among(kind: NDArray[np.int8], kinds: Iterable[Kind]) -> NDArray[np.bool_]:
    """Which rows of a column are of one of these kinds; ten times as fast as np.isin, which knows no small numbers."""
    chosen = np.zeros(len(_NAMES), bool)
    chosen[[int(one) for one in kinds]] = True
    found: NDArray[np.bool_] = chosen[kind]
    return found


def present(kind: NDArray[np.int8]) -> list[bool]:
    """Whether each kind is in a column, by its number; stops looking where it finds one."""
    top = int(kind.max(initial=NONE))
    return [one <= top and bool(np.any(kind == one)) for one in Kind]


def _column(values: ArrayLike, dtype: type[np.generic], length: int) -> NDArray[np.int32]:
    column = np.asarray(values, dtype=dtype)
    return np.full(length, column, dtype) if column.ndim == 0 else column


@dataclass(frozen=True, eq=False, slots=True)
class Ops:
    """An ordered table of ops as columns of equal length; ``group`` is shared by the two rows of a fused pair."""

    kind: NDArray[np.int8]
    stage: Ints
    microbatch: Ints
    group: Ints
    peer: Ints

    def __len__(self) -> int:
        return len(self.kind)

    @overload
    def __getitem__(self, key: int) -> Op: ...
    @overload
    def __getitem__(self, key: slice | NDArray[np.generic]) -> Ops: ...
    def __getitem__(self, key: int | slice | NDArray[np.generic]) -> Op | Ops:
        if isinstance(key, int):
            return Op(
                Kind(int(self.kind[key])), int(self.stage[key]), int(self.microbatch[key]), 0, int(self.peer[key])
            )
        return Ops(self.kind[key], self.stage[key], self.microbatch[key], self.group[key], self.peer[key])

    def __iter__(self) -> Iterator[Op]:
        return (self[i] for i in range(len(self)))

    def cells(self) -> list[str]:
        """The table as cells of text, a fused pair in one."""
        out: list[str] = []
        position = 0
        while position < len(self):
            width = 2 if self.group[position] != NONE else 1
            out.append(cell([self[i] for i in range(position, position + width)]))
            position += width
        return out

    def __repr__(self) -> str:
        return f"Ops({','.join(self[:40].cells())}{',…' if len(self) > 40 else ''})"


def ops(kind: ArrayLike, stage: ArrayLike, microbatch: ArrayLike, peer: ArrayLike = NONE) -> Ops:
    """A table from columns or scalars (scalars are repeated to the columns' length, which may be 0)."""
    length = max((np.size(c) for c in (kind, stage, microbatch, peer) if np.ndim(c)), default=1)
    return Ops(
        np.ascontiguousarray(_column(kind, np.int8, length)),
        _column(stage, np.int32, length),
        _column(microbatch, np.int32, length),
        np.full(length, NONE, np.int32),
        _column(peer, np.int32, length),
    )


def concat(*tables: Ops) -> Ops:
    """One table after the other; fused pairs keep to themselves."""
    if not tables:
        return ops((), (), ())
    return Ops(
        np.concatenate([t.kind for t in tables]),
        np.concatenate([t.stage for t in tables]),
        np.concatenate([t.microbatch for t in tables]),
        np.concatenate(_apart([t.group for t in tables])),
        np.concatenate([t.peer for t in tables]),
    )


def _apart(groups: Sequence[Ints]) -> Sequence[Ints]:
    """Several tables' groups, numbered so that no two tables share one."""
    counts = [int(group.max(initial=NONE)) + 1 for group in groups]
    if not any(counts):
        return groups
    before = np.cumsum([0, *counts]).tolist()
    return [np.where(group == NONE, NONE, group + base) for group, base in zip(groups, before, strict=False)]


def alternate(*tables: Ops) -> Ops:
    """Row by row: a0, b0, a1, b1, …; the tables have equal length."""
    if len({len(table) for table in tables}) > 1:
        raise ValueError(f"alternate needs tables of equal length, not {[len(t) for t in tables]}")
    if not tables:
        return concat()
    return Ops(
        _in_turn([t.kind for t in tables]),
        _in_turn([t.stage for t in tables]),
        _in_turn([t.microbatch for t in tables]),
        _in_turn(_apart([t.group for t in tables])),
        _in_turn([t.peer for t in tables]),
    )


def _in_turn(columns: Sequence[NDArray[T]]) -> NDArray[T]:
    """The first of each column, the second of each, …"""
    out = np.empty(len(columns) * len(columns[0]), columns[0].dtype)
    for place, column in enumerate(columns):
        out[place :: len(columns)] = column
    return out


def fuse(forward: Ops, backward: Ops) -> Ops:
    """Fused pairs (F0;B0), (F1;B1), …, the forward first."""
    pairs = alternate(forward, backward)
    return Ops(pairs.kind, pairs.stage, pairs.microbatch, np.arange(len(pairs), dtype=np.int32) // 2, pairs.peer)


def from_ops(items: Iterable[Op | tuple[Op, ...]]) -> Ops:
    """A table from single ops and fused pairs (a pair is a tuple of two)."""
    flat: list[Op] = []
    group: list[int] = []
    pairs = 0
    for item in items:
        if isinstance(item, Op):
            flat.append(item)
            group.append(NONE)
        elif len(item) == 1:
            flat.append(item[0])
            group.append(NONE)
        else:
            flat.extend(item)
            group.extend([pairs] * len(item))
            pairs += 1
    columns = np.array([(o.kind, o.stage, o.microbatch, o.peer) for o in flat], np.int32).reshape(-1, 4)
    return Ops(
        columns[:, 0].astype(np.int8),
        columns[:, 1].copy(),
        columns[:, 2].copy(),
        np.array(group, np.int32),
        columns[:, 3].copy(),
    )


def parse_row(cells: Iterable[str]) -> Ops:
    """A table from cells of text."""
    return from_ops(parse_cell(text) for text in cells)


class Grid(NamedTuple):
    """Equally many ops of one kind on every rank: ``stage`` and ``microbatch`` broadcast to (ranks, ops)."""

    kind: Kind
    stage: Ints
    microbatch: Ints

    @property
    def shape(self) -> tuple[int, ...]:
        """(ranks, ops)."""
        return np.broadcast_shapes(self.stage.shape, self.microbatch.shape)


@dataclass(frozen=True, eq=False, slots=True)
class Orders:
    """The order of ops of every rank: one table, rank after rank.

    ``table`` holds all rows; rank r's rows are ``offsets[r]:offsets[r + 1]``. ``after`` are conditions beyond those of
    the data: op i of its first table waits until op i of its second is done (a move: has arrived).
    """

    table: Ops
    offsets: NDArray[np.int64]
    after: tuple[Ops, Ops] | None = None

    @classmethod
    def of(cls, per_rank: Sequence[Ops], after: tuple[Ops, Ops] | None = None) -> Orders:
        """Orders from a table per rank."""
        lengths = [len(table) for table in per_rank]
        return cls(concat(*per_rank), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), after)

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.offsets) - 1

    def __len__(self) -> int:
        return len(self.table)

    @classmethod
    def in_turn(cls, first: Grid, second: Grid, lead: Sequence[int]) -> Orders:
        """On rank r ``lead[r]`` of its first ops, then one of each in turn, the first first, then what is left.

        There are equally many of both, of which the lead is at most as many.
        """
        ranks, n = first.shape
        kind, stage, microbatch = np.empty((ranks, 2 * n), np.int8), *np.empty((2, ranks, 2 * n), np.int32)
        for column, a, b in (
            (kind, np.broadcast_to(np.int8(first.kind), (ranks, n)), np.broadcast_to(np.int8(second.kind), (ranks, n))),
            (stage, *(np.broadcast_to(grid.stage, (ranks, n)) for grid in (first, second))),
            (microbatch, *(np.broadcast_to(grid.microbatch, (ranks, n)) for grid in (first, second))),
        ):
            for r, ahead in enumerate(lead):
                row, behind = column[r], n - ahead
                row[:ahead], row[ahead : n + behind : 2] = a[r, :ahead], a[r, ahead:]
                row[ahead + 1 : n + behind : 2], row[n + behind :] = b[r, :behind], b[r, behind:]
        none = np.broadcast_to(np.int32(NONE), kind.size)
        table = Ops(kind.ravel(), stage.ravel(), microbatch.ravel(), none, none)
        return cls(table, np.arange(ranks + 1) * (2 * n))

    def rank(self, rank: int) -> Ops:
        """The ops of one rank, in order."""
        return self.table[int(self.offsets[rank]) : int(self.offsets[rank + 1])]

    def __iter__(self) -> Iterator[Ops]:
        return (self.rank(r) for r in range(self.ranks))
