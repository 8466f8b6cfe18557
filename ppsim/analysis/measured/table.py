"""A measured run: what a trace says of every op, whoever wrote it, and what it doesn't say.

Times are integer nanoseconds since the start of their step, where the source counts so, else since the trace's start.
``stage`` and ``microbatch`` are -1 where a row has none, or where the source doesn't tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppsim.ops import COMPUTE, NONE, Kind

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Scope(IntEnum):
    """Who takes part in an op together, so that none ends it before all have begun."""

    ALONE = 0
    PAIR = 1
    """The sender and the receiver of a message."""
    REPLICAS = 2
    """The same rank of every data-parallel replica."""
    ENDS = 3
    """The first and the last rank of a pipeline."""
    ALL = 4
    """Every rank of every replica."""


class Label(NamedTuple):
    """What the source calls a kind of op, and what that is here."""

    name: str
    kind: Kind | None
    """None: an op that ppsim has no kind for (garbage collection)."""
    scope: Scope = Scope.ALONE
    family: str = ""
    """Under which name it is summed up with others; empty: its own."""

    @property
    def group(self) -> str:
        """The name under which it is summed up."""
        return self.family or self.name


@dataclass(frozen=True, eq=False)
class Rows:
    """One row per measured op, as columns of equal length. ``step`` counts from 0; ``label`` numbers the labels."""

    replica: Ints
    step: Ints
    rank: Ints
    label: Ints
    stage: Ints
    microbatch: Ints
    start: Longs
    end: Longs
    group: Ints
    """The two rows of a fused pair share one; -1: none."""

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, key: NDArray[np.generic]) -> Rows:
        return Rows(*(getattr(self, column.name)[key] for column in fields(self)))

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """All of several."""
        return cls(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(cls)))

    def with_steps(self, step: NDArray[np.integer]) -> Rows:
        """The same rows, their steps numbered otherwise."""
        return replace(self, step=step.astype(np.int32))

    def at(self, start: Longs, end: Longs) -> Rows:
        """The same rows at other times."""
        return replace(self, start=start, end=end)

    def sorted(self) -> Rows:
        """By replica, step, rank and time."""
        return self[np.lexsort((self.end, self.start, self.rank, self.step, self.replica))]


@dataclass(frozen=True, eq=False)
class Messages:
    """Transfers that the source itself tells of, as columns: what made them, their ports, when they were where."""

    step: Ints
    kind: Ints
    stage: Ints
    microbatch: Ints
    """The op that made it."""
    src: Ints
    dst: Ints
    bytes: Longs
    ready: Longs
    start: Longs
    left: Longs
    arrive: Longs
    egress: Ints
    ingress: Ints
    """Numbers of ports (-1: none)."""
    ports: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ready)

    def of_steps(self, numbers: NDArray[np.integer]) -> Messages:
        """Those of these steps, which then count from 0."""
        kept = np.isin(self.step, numbers)
        columns = {column.name: getattr(self, column.name)[kept] for column in fields(self) if column.name != "ports"}
        step = np.searchsorted(numbers, columns.pop("step")).astype(np.int32)
        return Messages(step=step, **columns, ports=self.ports)


@dataclass(frozen=True, eq=False)
class Measured:
    """A trace as it was read. Where a figure isn't known it is None, and ``missing`` says so in words."""

    format: str
    """Whose trace it is: primus, ndtimeline, kineto, ppsim-tasks, ppsim-trace."""
    source: str
    """The path, as given."""
    labels: tuple[Label, ...]
    rows: Rows
    ranks: int
    replicas: int
    stages: int
    microbatches: int
    steps: tuple[int, ...]
    """The steps' own numbers, as the source counts them."""
    names: tuple[tuple[str, ...], ...] = ()
    """By replica and rank, what the source calls the worker (empty: not told)."""
    memory: Longs | None = None
    """Peak bytes by step and rank, shape (steps, ranks)."""
    on_device: bool | None = True
    """Whether the times are the device's. False: of the host, which only launches the work; None: not told."""
    tensor_parallel: int | None = None
    messages: Messages | None = None
    missing: tuple[str, ...] = ()
    """What the source doesn't tell, a sentence each."""
    notes: tuple[str, ...] = ()
    """What was left out or taken for granted while reading, a sentence each."""
    clock_ns: float = 1.0
    """The step in which the source counts time."""

    @cached_property
    def kind(self) -> NDArray[np.int8]:
        """The kind of each row; -1 where ppsim has none."""
        of_label = np.array([NONE if label.kind is None else label.kind for label in self.labels], np.int8)
        return of_label[self.rows.label]

    @cached_property
    def computes(self) -> Flags:
        """Rows that are a stage's work on a microbatch."""
        return np.isin(self.kind, [int(kind) for kind in COMPUTE])

    @property
    def virtual_stages(self) -> int:
        """Most stages on one rank."""
        return max((len(held) for held in self.stages_of), default=1)

    @cached_property
    def stages_of(self) -> tuple[tuple[int, ...], ...]:
        """By rank, the stages that it was seen to run, ascending."""
        rows = self.rows[self.computes]
        pairs = np.unique(np.stack([rows.rank, rows.stage]), axis=1)
        return tuple(tuple(pairs[1, pairs[0] == rank].tolist()) for rank in range(self.ranks))

    @cached_property
    def span(self) -> Longs:
        """By step, ns from the first compute op's start to the last one's end, over all ranks and replicas."""
        rows = self.rows[self.computes]
        first = np.full(len(self.steps), np.iinfo(np.int64).max)
        last = np.full(len(self.steps), np.iinfo(np.int64).min)
        np.minimum.at(first, rows.step, rows.start)
        np.maximum.at(last, rows.step, rows.end)
        return np.where(last > first, last - first, 0)
