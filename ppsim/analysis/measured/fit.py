"""``ppsim fit``: a measured run's constants, the experiment that they make, and how far that is from the run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ppsim.analysis.measured.changes import Change, changes
from ppsim.analysis.measured.clocks import Clocks, clocks, synchronised
from ppsim.analysis.measured.lanes import Lanes, lanes
from ppsim.analysis.measured.order import Order, order
from ppsim.analysis.measured.replay import Replay
from ppsim.analysis.measured.run import compute_span
from ppsim.analysis.measured.settings import Calibrated, Known, calibrated, merged
from ppsim.analysis.measured.slowdown import Slowdown, slowdown
from ppsim.analysis.measured.table import Measured
from ppsim.analysis.measured.values import Values, values
from ppsim.analysis.measured.warmup import without_warm_up
from ppsim.analysis.result import Result
from ppsim.analysis.simulate import simulate
from ppsim.config.experiment import Experiment
from ppsim.errors import PpsimError
from ppsim.ops import Op
from ppsim.schedules import Batched

PARTED = 0.01
"""Simulated and measured have parted where an op starts this share of the step too early or too late."""
BETTER = 0.001
"""Another way of sending is taken where it brings the step this much nearer."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A measured run beside the experiment that was fitted to it. Times are of the step of median length."""

    lanes: Lanes
    clocks: Clocks
    order: Order
    values: Values
    replica: int
    """The slowest one, whose pipeline the experiment is."""
    calibrated: Calibrated
    known: Known

    @cached_property
    def replay(self) -> Replay:
        """The measured steps, to be run again with other times."""
        return Replay(self.lanes)

    @property
    def measured(self) -> Measured:
        """The trace."""
        return self.lanes.measured

    @cached_property
    def result(self) -> Result:
        """The fitted experiment, simulated."""
        return _simulated(self.calibrated.settings, self.order)

    @cached_property
    def slowdown(self) -> Slowdown:
        """The what-if of stragglers."""
        return slowdown(self.lanes)

    @cached_property
    def changes(self) -> list[Change]:
        """What would pay most."""
        own = self.order.schedule if self.order.setting is None else None
        return changes(self.result, self.calibrated.settings, self.known, own)

    @cached_property
    def median_step(self) -> int:
        """The step of median length, by its place."""
        return int(np.argsort(self.lanes.span, kind="stable")[(len(self.lanes.span) - 1) // 2])

    @cached_property
    def replayed(self) -> np.ndarray:
        """By step, ns with every op's own time and no gaps."""
        return self.replay.span(self.replay.duration, self.replay.transit)

    @cached_property
    def with_overhead(self) -> np.ndarray:
        """By step, ns with every op's own time and the fitted gap before each."""
        return self.replay.span(self.replay.duration, self.replay.transit, self.values.overhead.ns)

    @property
    def measured_ns(self) -> int:
        """The median step, first compute op's start to last one's end."""
        return int(self.lanes.span[self.median_step])

    @cached_property
    def fitted_ns(self) -> int:
        """The same of the simulated step."""
        return compute_span(self.result.run)

    @property
    def residual(self) -> float:
        """The share of the measured step that the constants don't explain."""
        return 1 - self.fitted_ns / self.measured_ns

    @cached_property
    def apart(self) -> Apart:
        """Simulated beside measured, op by op."""
        return _apart(self)

    def summary(self) -> dict[str, Any]:
        """The figures as plain data: the keys of ``ppsim fit --json``."""
        measured, apart = self.measured, self.apart
        usual = measured.on_device is not False
        return {
            "format": measured.format,
            "ranks": measured.ranks,
            "microbatches": measured.microbatches,
            "virtual_stages": measured.virtual_stages,
            "data_parallel": measured.replicas,
            "steps": len(self.lanes.steps),
            "schedule": self.order.schedule.name,
            "orders_equal": self.order.equal,
            "measured_s": self.measured_ns / 1e9,
            "replay_s": float(self.replayed[self.median_step]) / 1e9,
            "replay_with_overhead_s": float(self.with_overhead[self.median_step]) / 1e9,
            "fitted_s": self.fitted_ns / 1e9,
            "residual": self.residual,
            "start_error_s": {"median": apart.median, "most": apart.most},
            "parted_at": apart.parted_at,
            "op_overhead_s": self.values.overhead.ns / 1e9,
            "op_spread": self.values.unsystematic,
            "slowdown": self.slowdown.slowdown if usual else None,
            "slowdown_by_stage": self.slowdown.by_stage if usual else None,
            "factors": self.slowdown.factors(),
            "changes": [self._change(change) for change in self.changes],
            "clocks": self.clocks.said(),
            "missing": list(measured.missing),
            "notes": [*measured.notes, *self.lanes.left_out],
        }

    def _change(self, change: Change) -> dict[str, Any]:
        """A change's row, with its step also scaled by what the constants leave unexplained of this run."""
        return {**change.row(), "step_scaled_s": change.step_s / (1 - self.residual)}


@dataclass(frozen=True)
class Apart:
    """How far the simulated starts are from the measured ones, in seconds, and the first op that is far off."""

    median: float
    most: float
    parted_at: str | None
    """None: every op starts within 1 % of the step of when it did."""


def fit(measured: Measured, known: Known | None = None) -> Fit:
    """Fit a measured run. Raises PpsimError where its times can't be known, or no step is whole."""
    if measured.on_device is False:
        raise PpsimError(
            f"{measured.source}: its spans are those of the host, which only launches the work: what an op takes on "
            "the device isn't in it; profile with ProfilerActivity.CUDA, so that device times are recorded"
        )
    known = known or Known()
    found = without_warm_up(lanes(measured))
    clock = clocks(found)
    found = synchronised(found, clock)
    _agree(measured, known)
    replay, ran = Replay(found), order(found)
    constants = values(replay)
    replica = _slowest(replay, constants)
    made = calibrated(replay, constants, ran, replica, known)
    result = Fit(found, clock, ran, constants, replica, made, known)
    return _with_batches(result)


def _agree(measured: Measured, known: Known) -> None:
    """Raise PpsimError where what is told contradicts the trace."""
    if known.ranks is not None and known.ranks != measured.ranks:
        raise PpsimError(
            f"{known.source}: its pipeline has {known.ranks} ranks, {measured.source} "
            f"{measured.ranks}: not the same run"
        )
    if known.layers is not None and known.layers < measured.stages:
        raise PpsimError(f"{known.source}: {known.layers} layers can't fill the {measured.stages} stages of the trace")


def _slowest(replay: Replay, found: Values) -> int:
    """The replica whose step takes longest with the constants."""
    lanes = replay.lanes
    typical = np.zeros((len(lanes), lanes.measured.replicas, 1))
    for (replica, stage, kind), each in found.compute.items():
        typical[lanes.computes & (lanes.stage == stage) & (lanes.kind == kind) & ~lanes.seconds, replica] = each.ns
    ends = replay.ends(np.broadcast_to(typical, lanes.start.shape), replay.transit, found.overhead.ns)
    return int(np.argmax(np.median(ends[lanes.computes].max(axis=0), axis=1)))


def _with_batches(found: Fit) -> Fit:
    """The same with sends and receives in batches, as Megatron's 1F1B has them, where that comes nearer to the step."""
    p, m = found.measured.ranks, found.measured.microbatches
    schedule = found.order.schedule
    batched = isinstance(schedule, Batched) and schedule.fused_warmup(p, m, 0) is not None
    if found.order.setting is None or not batched:
        return found
    made = found.calibrated
    changed = replace(made, settings=merged({"runtime": {}, **made.settings}, {"runtime": {"p2p": "fused"}}))
    other = replace(found, calibrated=changed)
    if abs(other.residual) + BETTER >= abs(found.residual):
        return found
    changed.comments["runtime", "p2p"] = f"step {other.residual:+.2%} off, {found.residual:+.2%} with separate"
    return other


def _simulated(settings: dict[str, Any], ran: Order) -> Result:
    if ran.setting is not None:
        return simulate(Experiment(**settings))
    return simulate(Experiment(**{**settings, "schedule": ran.schedule}))


def _apart(found: Fit) -> Apart:
    """Match the simulated ops with those of the median step of the slowest replica, both from their first start."""
    lanes, result = found.lanes, found.result
    where = lanes.where()
    ops = result.plan.ops
    keys = zip(ops.kind.tolist(), ops.stage.tolist(), ops.microbatch.tolist(), strict=True)
    pairs = [(row, where[key]) for row, key in enumerate(keys) if key in where and lanes.computes[where[key]]]
    row, node = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    seen = lanes.start[node, found.replica, found.median_step]
    seen = seen - seen.min()
    simulated = result.timeline.start[row] - result.timeline.start[row].min()
    error = np.abs(simulated - seen)
    far = np.flatnonzero(error > PARTED * found.measured_ns)
    first = None
    if len(far):
        op: Op = ops[int(row[far[np.argmin(seen[far])]])]
        first = str(op)
    return Apart(float(np.median(error)) / 1e9, float(error.max()) / 1e9, first)
