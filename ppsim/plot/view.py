"""What a Gantt chart is about to show: which ranks and times, all bars in them, and its one-sentence title."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ppsim.engine.timeline import PER_SECOND
from ppsim.errors import PpsimError, shown
from ppsim.metrics import Run, bubble
from ppsim.ops import Longs
from ppsim.plot import bars as table
from ppsim.plot import scales
from ppsim.plot.bars import Bars, Wires
from ppsim.plot.style import plain


@dataclass(frozen=True, eq=False)
class View:
    """The ranks from the top, the time from ``low`` to ``high`` (ns), and all bars in it."""

    run: Run
    ranks: list[int]
    low: float
    high: float
    ops: Bars
    idle: Bars
    wires: Wires
    step_ends: Longs
    """ns, shape (steps - 1, ranks shown)."""

    @classmethod
    def of(cls, run: Run, ranks: list[int], window: tuple[float, float]) -> View:
        """Everything of these ranks within the window."""
        lines = table.lines_of(ranks, run.plan)
        return cls(
            run,
            ranks,
            *window,
            table.within(table.op_bars(run, lines), *window),
            table.within(table.idle_bars(run, lines), *window),
            table.wires(run, lines).within(*window),
            step_ends(run)[:, ranks],
        )

    @property
    def stages_per_rank(self) -> int:
        """The most stages that a rank of the run holds."""
        return max(len(held) for held in self.run.plan.placement.stages_of)

    def updates(self) -> tuple[Longs, Longs]:
        """When and on which line a rank's weights are updated without a flush; none where there is one."""
        plan = self.run.plan
        rows = np.empty(0, np.int64) if plan.versions is None else plan.versions.updates
        line = table.lines_of(self.ranks, plan)[plan.ops.rank[rows]]
        time = self.run.timeline.end[rows]
        seen = (line >= 0) & (time >= self.low) & (time <= self.high)
        return time[seen], line[seen]

    def messages(self) -> Longs:
        """The transfers that go from one shown rank to another within the time seen, and take any time."""
        plan, timeline = self.run.plan, self.run.timeline
        lines, route = table.lines_of(self.ranks, plan), plan.transfers.route
        src, dst = lines[plan.routes.src[route]], lines[plan.routes.dst[route]]
        seen = (timeline.transfer_start >= self.low) & (timeline.arrive <= self.high)
        return np.flatnonzero((src >= 0) & (dst >= 0) & (src != dst) & seen)

    @property
    def unit(self) -> scales.Unit:
        """The unit of the time axis."""
        return scales.fitting(self.high, scales.TIMES)


def run_of(result: object) -> Run:
    """What is drawn of a result. Raises PpsimError for what is none."""
    run = result if isinstance(result, Run) else getattr(result, "run", None)
    if not isinstance(run, Run):
        raise PpsimError(f"a picture takes a result, as simulate gives it, not {shown(result)}")
    return run


def ranks_shown(run: Run, ranks: Sequence[int] | None, most: int) -> list[int]:
    """The ranks asked for; by default all, or every n-th so that there are at most ``most``."""
    there = run.plan.ops.ranks
    if ranks is None:
        return list(range(0, there, -(-there // most)))
    wanted = list(ranks)
    for rank in wanted:
        if not isinstance(rank, int | np.integer) or not 0 <= rank < there:
            raise PpsimError(f"ranks: {shown(rank)} is no rank of this run; they are 0 to {there - 1}")
    if not wanted or len(set(wanted)) < len(wanted):
        raise PpsimError("ranks: name at least one rank, and each once")
    return [int(rank) for rank in wanted]


def window_ns(run: Run, window: tuple[float, float] | None) -> tuple[float, float]:
    """The part of the time to show, in ns; by default the whole run."""
    if window is None:
        return 0.0, float(max(run.timeline.makespan, 1))
    low, high = (float(second) * PER_SECOND for second in window)
    if not 0 <= low < high < np.inf:
        raise PpsimError(f"window: {window[0]} s to {window[1]} s is no part of a run; give (start, end) in seconds")
    return low, high


def title(run: Run, schedule: str | None) -> str:
    """The chart in one sentence; both bubbles by name."""
    plan = run.plan
    stages = max(len(held) for held in plan.placement.stages_of)
    sizes = [f"p={plan.ops.ranks}", f"m={plan.microbatches}", *([f"v={stages}"] if stages > 1 else [])]
    steps = f" for {plan.steps} steps" if plan.steps > 1 else ""
    overhead = bubble.bubble_overhead(run)
    return (
        f"{plain(schedule or 'A run')} with {', '.join(sizes)} takes {scales.duration(run.timeline.makespan)}{steps}: "
        f"bubble_ratio {scales.percent(bubble.bubble_ratio(run))} (idle / all time), "
        f"bubble_overhead {'unknown' if overhead is None else scales.percent(overhead)} (idle / busy)"
    )


def step_ends(run: Run) -> Longs:
    """When each step but the last ends on each rank, shape (steps - 1, ranks); a barrier ends it on all at once."""
    plan = run.plan
    if plan.asynchronous:
        return np.empty((0, plan.ops.ranks), np.int64)
    ends = np.zeros((plan.steps, plan.ops.ranks), np.int64)
    np.maximum.at(ends, (plan.ops.step, plan.ops.rank), run.timeline.end)
    return np.broadcast_to(ends.max(axis=1, keepdims=True), ends.shape)[:-1] if plan.barrier else ends[:-1]
