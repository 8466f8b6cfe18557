"""The vocabulary that schedules are written in: tables made of columns, of each other, and of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ppsim.ops.column import Column, Constant, joined
from ppsim.ops.op import NONE, Op, parse_cell
from ppsim.ops.table import OpTable

_NOTHING = np.int32(NONE)


def ops(kind: ArrayLike, stage: ArrayLike, microbatch: ArrayLike, peer: ArrayLike = NONE) -> OpTable:
    """A table from columns or scalars (scalars are repeated to the columns' length, which may be 0)."""
    columns: list[Any] = [np.asarray(kind, np.int8), np.asarray(stage, np.int32), np.asarray(microbatch, np.int32)]
    if peer is not NONE:
        columns.append(np.asarray(peer, np.int32))
    length = max([column.size for column in columns if column.ndim], default=1)
    kinds, stages, microbatches = (column if column.ndim else column.repeat(length) for column in columns[:3])
    group = peers = Constant(_NOTHING, length)
    if len(columns) > 3:
        peers = columns[3] if columns[3].ndim else Constant(columns[3][()], length)
    return OpTable.of_one_rank(np.ascontiguousarray(kinds), stages, microbatches, group, peers)


def concat(*tables: OpTable) -> OpTable:
    """One table after the other; fused pairs keep to themselves."""
    return _combined(tables, joined) if tables else ops((), (), ())


def _combined(tables: Sequence[OpTable], combine: Callable[[Sequence[Any]], Any]) -> OpTable:
    """The table of the tables' columns, each combined."""
    kind, stage = combine([t.kind for t in tables]), combine([t.stage for t in tables])
    microbatch, group = combine([t.microbatch for t in tables]), combine(_apart([t.group for t in tables]))
    alike = all(t.peer is t.group for t in tables)  # where neither says anything
    return OpTable.of_one_rank(kind, stage, microbatch, group, group if alike else combine([t.peer for t in tables]))


def _apart(groups: Sequence[Column]) -> Sequence[Column]:
    """Several tables' groups, numbered so that no two tables share one."""
    counts = [0 if isinstance(group, Constant) else int(group.max(initial=NONE)) + 1 for group in groups]
    if not any(counts):
        return groups
    before = np.cumsum([0, *counts]).tolist()
    return [
        group if not count else np.where(group == NONE, _NOTHING, group + np.int32(base))
        for group, base, count in zip(groups, before, counts, strict=False)
    ]


def alternate(*tables: OpTable) -> OpTable:
    """Row by row: a0, b0, a1, b1, …; the tables have equal length."""
    if len({len(table) for table in tables}) > 1:
        raise ValueError(f"alternate needs tables of equal length, not {[len(t) for t in tables]}")
    return _combined(tables, _in_turn) if tables else concat()


def _in_turn(columns: Sequence[Any]) -> Any:
    """The first of each column, the second of each, …"""
    together = joined(columns)
    return together if isinstance(together, Constant) else together.reshape(len(columns), -1).T.ravel()


def fuse(forward: OpTable, backward: OpTable) -> OpTable:
    """Fused pairs (F0;B0), (F1;B1), …, the forward first."""
    pairs = alternate(forward, backward)
    return replace(pairs, group=np.arange(len(pairs), dtype=np.int32) // 2)


def from_ops(items: Iterable[Op | tuple[Op, ...]]) -> OpTable:
    """A table from single ops and fused pairs (a pair is a tuple of two)."""
    cells = [(item,) if isinstance(item, Op) else item for item in items]
    rows = [(o.kind, o.stage, o.microbatch, o.peer) for ops_of_cell in cells for o in ops_of_cell]
    kind, stage, microbatch, peer = np.array(rows, np.int32).reshape(-1, 4).T.copy()
    table = ops(kind, stage, microbatch, peer if np.any(peer != NONE) else NONE)
    width = np.array([len(ops_of_cell) for ops_of_cell in cells], np.int64)
    if not np.any(width > 1):
        return table
    number = np.where(width > 1, np.cumsum(width > 1) - 1, NONE).astype(np.int32)
    return replace(table, group=np.repeat(number, width))


def parse_row(cells: Iterable[str]) -> OpTable:
    """A table from cells of text."""
    return from_ops(parse_cell(text) for text in cells)
