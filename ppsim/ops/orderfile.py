"""Order files: text ⇄ op tables, in PyTorch's two alphabets.

A file has a row per rank, in rank order, and a cell per op, in the order run; this is what
``torch.distributed.pipelining`` dumps and loads. Empty cells are idle slots and are skipped: an order says what comes
after what, not when. Cells are ``2F0``, fused pairs ``(7F4;0B0)OVERLAP_F_B``, the communication that a lowered schedule
spells out (``0SEND_F1``, ``1RECV_F1``, ``0UNSHARD``) and our own ``2R0``, ``0EVICT2>3``, ``0LOAD2<3``.

The alphabets differ in the backward (PyTorch changed it in October 2024, pull request 138886):

========== ============= =================== ====================
alphabet   full backward input-gradient half weight-gradient half
========== ============= =================== ====================
torch      ``B``         ``I``               ``W``
torch-old  ``BW``        ``B``               ``W``
========== ============= =================== ====================

``auto`` goes by the letters present in the whole file. ``BW`` is only in the older one, ``I`` only in today's; both
together are an error. With neither, ``B`` beside ``W`` is the older alphabet, because a weight half without an input
half could not run; ``B`` alone is the full backward in today's. Name the alphabet to have a file read as it stands.

What counts as ragged. Rows may differ in length: PyTorch's own dumps do, with idle slots (looped BFS on p ranks has
r before and 2(p-1-r) within rank r's row, none after) and without (fused pairs take one cell). So a row's length says
nothing; a row without any op does, and is an error, as are quotes or parentheses that span cells. Blank lines at the
end are ignored. Whether the ops make a legal schedule (stages, microbatches, missing halves) is checked where
the schedule is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from ppsim.errors import FormatError, did_you_mean, printable
from ppsim.ops import Kind, Op, Ops, Orders, from_ops, parse_cell

Alphabet = Literal["auto", "torch", "torch-old"]

_SHOWN = 20
_LINE_END = re.compile(r"\r\n|\r|\n")
_LETTER = re.compile(r"(?<=[0-9])(?:BW|[BIW])(?=[0-9])")
_TO_OURS = {"torch": {}, "torch-old": {"B": "I", "BW": "B"}, "mixed": {"BW": "B"}}
_FROM_OURS = {"torch": {}, "torch-old": {"I": "B", "B": "BW"}, "mixed": {}}
_REPEATABLE = (Kind.UNSHARD, Kind.RESHARD)
"""A rank gathers and frees a stage's parameters as often as it likes."""
_ONCE_PER_RANK = (Kind.REDUCE_GRAD, Kind.OPTIM)
"""Where ranks hold copies of a stage (bidirectional placements), each syncs and updates its own."""


class _Cell(NamedTuple):
    row: int
    column: int
    text: str

    @property
    def place(self) -> str:
        return f"row {self.row}, column {self.column}"


class _Mistake(NamedTuple):
    row: int
    column: int
    message: str


def read(text: str, alphabet: Alphabet = "auto", label: str = "file") -> list[Ops]:
    """The op table of every rank.

    Raises FormatError with a line ``label:row 2, column 3: …`` (counted from 1) for every mistake, at most 20 of them:
    cells that are no op, ops listed twice, rows without an op, two alphabets in one file.
    """
    _known(alphabet, ("auto", "torch", "torch-old"))
    rows = [list(_cells(row, line)) for row, line in enumerate(_lines(text), 1)]
    if not rows:
        raise FormatError(f"{printable(label)}: no ops; an order file has a row per rank, a cell per op, as '0F0,0B0'")
    mistakes = [_Mistake(row, 1, "no op; a row is a rank and lists its ops") for row, c in enumerate(rows, 1) if not c]
    spelling = _detect(rows, mistakes) if alphabet == "auto" else alphabet
    seen: dict[tuple[Op, int], _Cell] = {}
    tables: list[Ops] = []
    for cells in rows:
        items: list[tuple[Op, ...]] = []
        for cell in cells:
            try:
                items.append(_parse(cell.text, spelling))
            except FormatError as error:
                mistakes.append(_Mistake(cell.row, cell.column, f"{error}{_hint(cell.text, spelling)}"))
                continue
            for op in items[-1]:
                rank = cell.row if op.kind in _ONCE_PER_RANK else 0
                first = seen.setdefault((op, rank), cell)
                if op.step:
                    why = f"'{op}' names a step; an order file holds one step, so leave '@{op.step}' out"
                    mistakes.append(_Mistake(cell.row, cell.column, why))
                elif first is not cell and op.kind not in _REPEATABLE:
                    how = "listed twice" if first.row == cell.row else "on two ranks (a row is a rank)"
                    why = f"'{_spell(str(op), spelling)}' is {how}, first in {first.place}; an op runs once"
                    mistakes.append(_Mistake(cell.row, cell.column, why))
        tables.append(from_ops(items))
    if mistakes:
        raise FormatError(_report(mistakes, printable(label)))
    return tables


def write(orders: Orders, alphabet: Alphabet = "torch") -> str:
    """The text of an order file, with LF line ends; ``read`` in the same alphabet gives the orders back.

    A rank without ops becomes an empty line, which ``read`` refuses.
    """
    _known(alphabet, ("torch", "torch-old"))
    return "".join(_spell(",".join(ops.cells()), alphabet) + "\n" for ops in orders)


def columns(text: str) -> list[list[int]]:
    """The column, counted from 1, of every cell of every row that holds something."""
    return [[cell.column for cell in _cells(row, line)] for row, line in enumerate(_lines(text), 1)]


def _known(alphabet: str, choices: tuple[str, ...]) -> None:
    if alphabet not in choices:
        near = did_you_mean(alphabet, choices)
        raise FormatError(f"'{printable(alphabet)}' is not an alphabet here{near}; there are {', '.join(choices)}")


def _lines(text: str) -> list[str]:
    lines = _LINE_END.split(text.removeprefix("\ufeff"))
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _cells(row: int, line: str) -> Iterator[_Cell]:
    """The cells that hold something. No op holds a comma or a quote, so unquoting a cell is taking its quotes off."""
    for column, text in enumerate(line.split(","), 1):
        text = text.strip()
        if len(text) > 1 and text[0] == text[-1] == '"':
            text = text[1:-1].strip()
        if text:
            yield _Cell(row, column, text)


def _detect(rows: list[list[_Cell]], mistakes: list[_Mistake]) -> str:
    """The alphabet by the letters present (see the module's docstring); 'mixed' is noted as a mistake."""
    first: dict[str, _Cell] = {}
    for cells in rows:
        for cell in cells:
            for letter in _LETTER.findall(cell.text):
                first.setdefault(letter, cell)
    if "BW" in first and "I" in first:
        earlier, later = sorted((first["BW"], first["I"]))
        why = (
            f"'{printable(later.text[:80])}' and, in {earlier.place}, '{printable(earlier.text[:80])}' are of two "
            "alphabets: F, I, W, B (B the full backward) and the older F, B, W, BW (B the input half); write in one"
        )
        mistakes.append(_Mistake(later.row, later.column, why))
        return "mixed"
    return "torch-old" if "BW" in first or ("W" in first and "B" in first and "I" not in first) else "torch"


def _parse(text: str, spelling: str) -> tuple[Op, ...]:
    letters = _TO_OURS[spelling]
    if not letters:
        return parse_cell(text)
    if spelling == "torch-old" and "I" in _LETTER.findall(text):
        raise FormatError(f"'{text}' is not of the alphabet 'torch-old', where the input half is B; 'torch' has I")
    try:
        return parse_cell(_LETTER.sub(lambda match: letters.get(match[0], match[0]), text))
    except FormatError:
        return parse_cell(text)  # fails as well, and quotes the cell as it was written


def _spell(text: str, spelling: str) -> str:
    """Our letters in the alphabet ``spelling``; the inverse of what ``_parse`` does to a cell."""
    letters = _FROM_OURS[spelling]
    return _LETTER.sub(lambda match: letters.get(match[0], match[0]), text) if letters else text


def _hint(text: str, spelling: str) -> str:
    """The nearest thing that would work, for a cell that is no op."""
    if spelling == "torch" and "BW" in _LETTER.findall(text):
        return "; BW is the full backward of the alphabet 'torch-old'"
    if "(" in text or ")" in text:
        return "; a fused pair reads '(7F4;0B0)OVERLAP_F_B'"
    if re.search(r"[;|\s]", text):
        return "; cells are separated by commas"
    near = re.match(r"[0-9]+[A-Z_]+[0-9]+", text.upper())
    try:
        return f"; did you mean '{near[0]}'?" if near and near[0] != text and _parse(near[0], spelling) else ""
    except FormatError:
        return ""


def _report(mistakes: list[_Mistake], label: str) -> str:
    lines = [f"{label}:row {m.row}, column {m.column}: {m.message}" for m in sorted(mistakes)]
    more = len(lines) - _SHOWN
    return "\n".join(lines[:_SHOWN] + ([f"and {more} more"] if more > 0 else []))
