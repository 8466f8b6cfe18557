"""A schedule that is read from an order file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field, field_serializer

from ppsim import _textfile as textfile
from ppsim.errors import PpsimError, ScheduleError, printable
from ppsim.ops import NONE, Kind, Ops, Orders
from ppsim.ops import orderfile as dialects
from ppsim.ops.placement import Placement, inferred
from ppsim.schedules.base import Problem, Schedule

MAX_BYTES = 64 << 20
OF_A_RUN = frozenset({
    "config.yaml", "summary.json", "tasks.csv", "transfers.csv", "memory.csv", "trace.json", "trace.json.gz",
    "gantt.png", "memory.png",
})  # fmt: skip
"""Names that a run's own files have in its folder."""


def kept_name(path: Path) -> str:
    """The name of a run's copy of an order file: its own, unless a run may have that itself or can't list it."""
    plain = path.name.isprintable() and not path.name.startswith(".") and path.name not in OF_A_RUN
    return path.name if plain else f"order-{printable(path.name)}"


class FromFile(Schedule):
    """The order of a file: a row per rank, a cell per op, as PyTorch's pipelining dumps and loads it.

    F, B, I, W and R; SEND and RECV where the file spells them out; EVICT and LOAD; fused pairs. What a rank runs is
    what it holds. See ``ppsim.ops.orderfile`` for the text.
    """

    name: Literal["file"] = "file"
    path: Path
    """The file; relative to the config that names it."""
    alphabet: dialects.Alphabet = "auto"
    """What B means: the full backward (torch), or its input half beside BW (torch-old)."""
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")
    """Of the file's content; a resolved config has it, so that a changed file is noticed."""

    @field_serializer("path", when_used="json")
    def _beside_the_config(self, path: Path) -> str:
        return kept_name(path)

    @field_serializer("sha256", when_used="json")
    def _digest(self, _: str | None) -> str:
        return self.content_sha256

    @cached_property
    def text(self) -> str:
        """The file's content. Raises ConfigError."""
        return textfile.read(self.path, "an order file", MAX_BYTES)

    @cached_property
    def content_sha256(self) -> str:
        """Digest of the file's text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def tables(self) -> tuple[Ops, ...]:
        """The ops of every rank. Raises FormatError, with row and column of every mistake."""
        return tuple(dialects.read(self.text, self.alphabet, self.label))

    @cached_property
    def _columns(self) -> list[list[int]]:
        return dialects.columns(self.text)

    @property
    def label(self) -> str:
        """The file's name."""
        return printable(self.path.name)

    def place(self, rank: int, cell: int) -> str:
        """Row and column of the file, its empty cells counted."""
        return f"row {rank + 1}, column {self._columns[rank][cell]}"

    @property
    def trains(self) -> bool:
        """Whether the file lists a backward."""
        return any(np.any(np.isin(table.kind, (Kind.B, Kind.I))) for table in self.tables)

    def files(self) -> dict[str, Path]:
        """The file itself."""
        return {kept_name(self.path): self.path}

    def problems(self, ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
        """A file that can't be read; other sizes than the pipeline's; a stage that nobody runs; a changed content."""
        try:
            tables = self.tables
        except PpsimError as error:
            yield from (("schedule.path", line) for line in str(error).splitlines())
            return
        if self.sha256 not in (None, self.content_sha256):
            yield "schedule.sha256", f"{self.label} has changed: its content's sha256 is {self.content_sha256}"
        if len(tables) != ranks:
            rows = "row" if len(tables) == 1 else "rows"
            yield (
                "pipeline.ranks",
                f"{ranks} ranks, but {self.label} has {len(tables)} {rows}, and a row is a rank; use {len(tables)}",
            )
        found = 1 + max(int(table.microbatch.max(initial=NONE)) for table in tables)
        if found != microbatches:
            yield (
                "pipeline.microbatches",
                f"{microbatches} microbatches, but {self.label} has {found}, 0 to {found - 1}; use {found}",
            )
        if missing := self._missing_stage():
            yield "schedule.path", missing
        elif len(tables) == ranks and (placed := self.placement(ranks)).replicated and placed.name != "bidirectional":
            yield from (("schedule.path", text) for text in self._on_two_ranks())

    def _on_two_ranks(self) -> Iterator[str]:
        """Every rank with a stage that a rank before it runs, too."""
        first: dict[int, int] = {}
        for rank, table in enumerate(self.tables):
            for stage in np.unique(table.stage).tolist():
                holder = first.setdefault(stage, rank)
                if holder != rank:
                    yield (
                        f"{self.label}: row {rank + 1} (rank {rank}): stage {stage} is on rank {holder}, too; only a "
                        "bidirectional placement, stages r and p-1-r on rank r, has a stage on two ranks"
                    )

    def _missing_stage(self) -> str | None:
        used = np.unique(np.concatenate([table.stage for table in self.tables]))
        holes = np.flatnonzero(used != np.arange(len(used)))
        if not len(holes):
            return None
        return f"{self.label}: stage {int(holes[0])} is on no rank, and the last stage is {int(used[-1])}"

    def placement(self, ranks: int) -> Placement:
        """What each row runs is what its rank holds. Raises ScheduleError where that is no placement of ``ranks``."""
        if len(self.tables) != ranks:
            raise ScheduleError(f"{self.label} has {len(self.tables)} rows, the pipeline {ranks} ranks")
        if missing := self._missing_stage():
            raise ScheduleError(missing)
        return inferred(table.stage.tolist() for table in self.tables)

    def orders(self, problem: Problem) -> Orders:
        """The rows as they stand."""
        return Orders.of(self.tables)
