"""Ops: the kinds, one op and its text, the op table with its index, order files, the vocabulary of schedules."""

from ppsim.ops.column import (
    About,
    Column,
    Constant,
    Flags,
    Ints,
    Kinds,
    Longs,
    Numbers,
    among,
    columns_of,
    joined,
    narrowest,
)
from ppsim.ops.index import Extent, Index
from ppsim.ops.op import COMMUNICATION, COMPUTE, HOST, MOVES, NONE, WITHOUT_MICROBATCH, Kind, Op, cell, parse_cell
from ppsim.ops.orders import Grid, Orders
from ppsim.ops.table import OpTable
from ppsim.ops.vocabulary import alternate, concat, from_ops, fuse, ops, parse_row

Ops = OpTable
"""What schedules write: the op table of one rank."""

__all__ = [
    "COMMUNICATION", "COMPUTE", "HOST", "MOVES", "NONE", "WITHOUT_MICROBATCH", "About", "Column", "Constant",
    "Extent", "Flags", "Grid", "Index", "Ints", "Kind", "Kinds", "Longs", "Numbers", "Op", "OpTable", "Ops", "Orders",
    "alternate", "among", "cell", "columns_of", "concat", "from_ops", "fuse", "joined", "narrowest", "ops",
    "parse_cell", "parse_row"
]  # fmt: skip
