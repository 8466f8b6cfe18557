"""What a page shows of one result: bars of ops, idle time and transfers, how they are linked, memory, notes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ppsim.analysis.result import Result
from ppsim.metrics import memory
from ppsim.ops import NONE, Longs
from ppsim.plot import bars as plotted
from ppsim.plot import scales
from ppsim.plot.looks import CAUSES, IDLE
from ppsim.report import _looks as looks
from ppsim.report._bars import MOST, Bars, merged, pixel
from ppsim.report._chain import links_before, numbers
from ppsim.report._words import inputs, reasons

if TYPE_CHECKING:
    from ppsim.analysis.compare import Some
    from ppsim.metrics import Run

MOST_CURVES = 32
"""Ranks whose memory is drawn."""
MOST_MOMENTS = 40_000
"""Steps of all memory curves together; where there are more, each keeps its highs and lows."""


@dataclass(frozen=True, eq=False)
class Content:
    """One result, under the name by which the page tells it from others."""

    result: Some
    label: str

    @property
    def run(self) -> Run:
        """What is drawn."""
        return self.result.run

    @property
    def linked(self) -> bool:
        """Whether it is known what made an op start."""
        return "dependencies" in self.run.knows

    @cached_property
    def ops(self) -> Bars:
        """A bar per op in the plan's order; where there are too many, thin ones merged."""
        plan, timeline = self.run.plan, self.run.timeline
        every = Bars.single(plan.ops.rank.astype(np.int64), timeline.start, timeline.end, looks.of_ops(self.run))
        return self._fewer(every, plan.ops.ranks)

    @cached_property
    def idle(self) -> Bars:
        """Idle time by its cause; where there is too much of it, without what is narrower than a pixel."""
        ranks = self.run.plan.ops.ranks
        found = plotted.idle_bars(self.run, np.arange(ranks))
        start, end = found.start.astype(np.int64), found.end.astype(np.int64)
        bars = Bars.single(found.line, start, end, looks.of_causes(found.code - IDLE))
        return self._fewer(bars, ranks)

    @cached_property
    def causes(self) -> list[str]:
        """The causes of idle time that there are."""
        found = plotted.idle_bars(self.run, np.arange(self.run.plan.ops.ranks))
        return [name for number, name in enumerate(CAUSES) if np.any(found.code == IDLE + number)]

    @cached_property
    def transfers(self) -> Bars:
        """A bar per transfer, on the line of its way, from when it takes its ports until it is there."""
        plan, timeline = self.run.plan, self.run.timeline
        colour = looks.of_one(looks.BUSY, len(plan.transfers))
        return self._fewer(Bars.single(self.line, timeline.transfer_start, timeline.arrive, colour), len(self.ways))

    @cached_property
    def ways(self) -> list[tuple[int, int]]:
        """Pairs of ranks that messages go between, the lines of the links' figure."""
        routes = self.run.plan.routes
        return sorted(set(zip(routes.src.tolist(), routes.dst.tolist(), strict=True)))

    @cached_property
    def line(self) -> Longs:
        """The line of every transfer."""
        routes = self.run.plan.routes
        place = {way: number for number, way in enumerate(self.ways)}
        of_route = [place[way] for way in zip(routes.src.tolist(), routes.dst.tolist(), strict=True)]
        return np.array(of_route, np.int64)[self.run.plan.transfers.route]

    @property
    def uses_links(self) -> bool:
        """Whether a transfer takes any time."""
        timeline = self.run.timeline
        return bool(np.any(timeline.arrive > timeline.ready))

    @cached_property
    def before(self) -> tuple[Longs, Longs, Longs]:
        """By bar the number of the link before: before an op's start, before its end, before a transfer.

        The number of a bar is its place among the ops, that of a transfer its place behind all ops; -1: there is none.
        """
        plan, ops, transfers = self.run.plan, self.ops, self.transfers
        if not self.linked:
            nothing = np.full(len(ops), NONE)
            return nothing, nothing, np.full(len(transfers), NONE)
        places = [np.full(len(rows), NONE, np.int64) for rows in (plan.ops, plan.transfers)]
        for place, bars, first in zip(places, (ops, transfers), (0, len(ops)), strict=True):
            single = np.flatnonzero(bars.row >= 0)
            place[bars.row[single]] = first + single
        found = links_before(self.run, numbers(self.run, *places))
        n, head = len(plan.ops), np.arange(len(plan.ops)) - plan.tail
        return (
            _of_rows(found[:n][head], ops),
            _of_rows(found[n : 2 * n][head], ops),
            _of_rows(found[2 * n : 2 * n + len(plan.transfers)], transfers),
        )

    def words(self) -> dict[str, list[str]]:
        """Text by op: its name, its inputs, why it waited."""
        rows, names = self.ops.row[self.ops.row >= 0].tolist(), self.run.plan.ops.names
        together = [f"{count:,} ops, merged" for count in self.ops.count[len(rows) :].tolist()]
        why, needs = reasons(self.run, rows), inputs(self.run, rows) if self.linked else [""] * len(rows)
        none = [""] * len(together)
        return {"name": [names[row] for row in rows] + together, "inputs": needs + none, "why": why + none}

    @cached_property
    def curves(self) -> list[tuple[int, Longs, Longs]]:
        """Rank, times (ns) and bytes from then on, of all ranks or some; none where memory isn't known."""
        if "memory" not in self.run.knows:
            return []
        found, ranks, end = self.run.once(memory.curves), self.run.plan.ops.ranks, self.run.timeline.makespan
        shown = list(range(ranks))
        if ranks > MOST_CURVES:
            even = np.linspace(0, ranks - 1, MOST_CURVES).round().astype(int)
            shown = sorted({*even.tolist(), int(np.argmax(self.run.once(memory.peak_bytes)))})
        curves = []
        for rank in shown:
            mine = found.rank == rank
            time, held = found.time[mine], found.bytes[mine].sum(axis=1)
            if len(found.rank) > MOST_MOMENTS:
                few = _extremes(time, held, 4 * end * len(shown) // MOST_MOMENTS)
                time, held = time[few], held[few]
            curves.append((rank, np.append(time, end), np.append(held, held[-1])))
        return curves

    @property
    def notes(self) -> list[str]:
        """What the page leaves out of this result, and what there is to say of it."""
        plan, found = self.run.plan, []
        for what, bars, lines in (
            ("ops", self.ops, plan.ops.ranks),
            ("transfers", self.transfers, len(self.ways)),
        ):
            if np.any(thin := bars.row < 0):
                makespan = self.run.timeline.makespan
                width = pixel(makespan, lines)
                found.append(
                    f"{int(bars.count[thin].sum()):,} of {int(bars.count.sum()):,} {what} are shorter than "
                    f"{scales.duration(width)}, a {makespan // width:,}th of the whole, and merged into "
                    f"{int(thin.sum()):,} bars of their mean colour; a click lights what isn't merged"
                )
        if not self.curves:
            found.append("what its ops hold in memory isn't known")
        elif len(self.curves) < plan.ops.ranks:
            found.append(f"the memory of {len(self.curves)} of {plan.ops.ranks:,} ranks is drawn")
        if self.curves and len(self.run.once(memory.curves).rank) > MOST_MOMENTS:
            found.append("memory curves show the highs and lows of every short while")
        if not self.uses_links:
            found.append("messages take no time" if "links" in self.run.knows else "what its messages take isn't known")
        if not self.linked:
            found.append("what its ops waited for isn't known")
        return found

    @property
    def summary(self) -> dict[str, Any]:
        """Its figures."""
        return self.result.summary

    @property
    def yaml(self) -> str | None:
        """The settings with every default, as a config; None of a measured run."""
        from ppsim.config.resolved import text

        return text(self.result.experiment) if isinstance(self.result, Result) else None

    def _fewer(self, bars: Bars, lines: int) -> Bars:
        many = len(self.run.plan.ops) > MOST
        return merged(bars, pixel(self.run.timeline.makespan, lines)) if many else bars


def _of_rows(values: Longs, bars: Bars) -> Longs:
    """The value of each bar's row, -1 of merged ones."""
    return np.where(bars.row >= 0, values[bars.row], NONE) if len(values) else np.full(len(bars), NONE)


def _extremes(time: Longs, held: Longs, width: int) -> Longs:
    """Places of the first, last, lowest and highest value in every ``width`` ns."""
    bucket = time // max(width, 1)
    ends = np.flatnonzero(np.diff(bucket, append=-1))
    first = np.append(0, ends[:-1] + 1)
    by_level = np.lexsort((held, bucket))
    return np.unique(np.concatenate([first, ends, by_level[first], by_level[ends]]))
