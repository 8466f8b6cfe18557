"""Which schedule a measured run followed: the one whose order its ranks' ops have, in every step and replica."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ppsim.analysis.measured.lanes import Lanes
from ppsim.costs.base import StageCosts
from ppsim.costs.given import GivenCosts
from ppsim.costs.setting import Setting
from ppsim.errors import PpsimError
from ppsim.ops import Kind, Ops, Orders, concat, ops
from ppsim.ops.placement import Placement, inferred
from ppsim.schedules import Problem, Schedule, known

_FIRST = ("1f1b", "gpipe", "interleaved_1f1b", "looped_bfs", "zb_h1", "zbv")
_NEVER = ("file", "forward_only")
_FEW = 20_000
"""Above so many ops only the schedules that don't search are compared."""


class AsMeasured(Schedule):
    """The order in which the ops of a trace ran, for runs that follow no schedule of ppsim's."""

    name: str = "as_measured"
    cells: tuple[tuple[str, ...], ...] = ()
    """The ops of each rank."""

    def placement(self, ranks: int) -> Placement:
        """What each rank ran is what it holds."""
        return inferred(sorted({*table.stage.tolist()}) for table in self._tables())

    def orders(self, problem: Problem) -> Orders:
        """As it was."""
        return Orders.of(self._tables())

    def _tables(self) -> list[Ops]:
        from ppsim.ops import parse_row

        return [parse_row(row) for row in self.cells]


class Order(NamedTuple):
    """A schedule, its settings as a config has them, and the share of ranks, steps and replicas that ran so."""

    schedule: Schedule
    setting: str | dict[str, Any] | None
    """None: no schedule of ppsim's; the order has to be written into a file."""
    equal: float


def order(lanes: Lanes) -> Order:
    """The schedule that a run followed: the first whose order all have, else the nearest, else the order itself."""
    best: Order | None = None
    for schedule, setting in _candidates(lanes):
        try:
            orders = schedule.orders(_problem(lanes, schedule))
        except (PpsimError, ValueError, ArithmeticError):
            continue
        equal = _equal(lanes, orders)
        if equal == 1.0:
            return Order(schedule, setting, equal)
        if best is None or equal > best.equal:
            best = Order(schedule, setting, equal)
    if best is not None and best.equal > 0.5:
        return best
    cells = tuple(tuple(_table(lanes, rank).cells()) for rank in range(lanes.measured.ranks))
    schedule = AsMeasured(cells=cells)
    return Order(
        schedule, None, _equal(lanes, Orders.of([_table(lanes, rank) for rank in range(lanes.measured.ranks)]))
    )


def _candidates(lanes: Lanes) -> Iterator[tuple[Schedule, str | dict[str, Any]]]:
    measured = lanes.measured
    held = [set(stages) for stages in measured.stages_of]
    small = int(lanes.computes.sum()) <= _FEW
    names = [*_FIRST, *sorted({*known()} - {*_FIRST, *_NEVER})] if small else [*_FIRST[:4]]
    for name in names:
        cls = known().get(name)
        if cls is None or cls.asynchronous:
            continue
        base: dict[str, Any] = (
            {"virtual_stages": measured.virtual_stages} if "virtual_stages" in cls.model_fields else {}
        )
        for extra in ({}, *_seen_settings(lanes, cls)):
            settings = {**base, **extra}
            try:
                schedule = cls(**settings)
                if any(True for _ in schedule.problems(measured.ranks, measured.microbatches)):
                    continue
                places = [set(stages) for stages in schedule.placement(measured.ranks).stages_of]
            except (PpsimError, ValueError, ArithmeticError):
                continue
            if places == held:
                yield schedule, {"name": name, **settings} if settings else name


def _seen_settings(lanes: Lanes, cls: type[Schedule]) -> Iterator[dict[str, Any]]:
    """Settings that the first rank's own order shows: the group of microbatches, the forwards of the warm-up."""
    mine = lanes.of_rank(0, lanes.computes)
    kinds = lanes.kind[mine]
    ahead = int(np.argmax(kinds != Kind.F)) if np.any(kinds != Kind.F) else len(mine)
    if "group" in cls.model_fields and lanes.measured.virtual_stages > 1:
        stage = lanes.stage[mine]
        group = int(np.argmax(stage != stage[0]))
        if 0 < group <= lanes.measured.microbatches:
            yield {"group": group}
    if "warmup" in cls.model_fields and ahead > 0:
        yield {"warmup": ahead - 1}


def _problem(lanes: Lanes, schedule: Schedule) -> Problem:
    """The run's sizes with the mean times of all stages, for schedules that look at costs."""
    measured = lanes.measured
    placement = schedule.placement(measured.ranks)

    def mean(kind: Kind) -> Fraction:
        mine = lanes.duration[lanes.kind == kind]
        return Fraction(int(mine.mean()), 10**9) if mine.size else Fraction(1, 1000)

    given = GivenCosts(per="stage", forward=mean(Kind.F), backward=mean(Kind.B))
    costs: StageCosts = given.stage_costs(Setting(placement))
    return Problem(measured.ranks, measured.microbatches, placement, costs)


def _table(lanes: Lanes, rank: int) -> Ops:
    """A rank's ops in the order of the first lane."""
    mine = lanes.of_rank(rank, lanes.computes)
    if not len(mine):
        return concat()
    return ops(lanes.kind[mine], lanes.stage[mine], lanes.microbatch[mine])


def _equal(lanes: Lanes, orders: Orders) -> float:
    """The share of (rank, replica, step) whose ops started in that order."""
    where = {key: node for key, node in lanes.where().items() if lanes.computes[node]}
    same: list[float] = []
    for rank in range(lanes.measured.ranks):
        rows = orders.table.rows(rank)
        table = orders.table[rows.start : rows.stop]
        keys = zip(table.kind.tolist(), table.stage.tolist(), table.microbatch.tolist(), strict=True)
        nodes = [where.get(key, -1) for key in keys]
        mine = lanes.of_rank(rank, lanes.computes)
        if sorted(nodes) != sorted(mine.tolist()):
            same.append(0.0)
            continue
        start = lanes.start[nodes]
        same.append(float(np.all(np.diff(start, axis=0) >= 0, axis=0).mean()))
    return float(np.mean(same)) if same else 0.0
