"""One op: its kind and its text.

The text form is PyTorch's: ``2F0`` is stage 2, forward, microbatch 0. It is the cell of a schedule file, the label in
a Gantt chart and the word in every message. Ours beyond PyTorch's: ``2R0`` (recompute), ``0EVICT2>3`` and ``0LOAD2<3``
(an activation to and from rank 3), ``0OPTIM``, and ``2F0@1`` where several steps run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from ppsim.errors import FormatError, printable

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
