"""Where the step time goes, by what-if: what would be won by fixing each.

    step time = work + ideal bubble + imbalance + recomputation + communication

Each part is the difference of two simulations of one and the same order. They are removed from the right: first the
links become free (communication), then nothing is recomputed (recomputation), then all stages, ranks and microbatches
become equal (imbalance). What is left is the work of a rank and the bubble that the order itself costs (ideal bubble).
The order of removal matters: a slow link may hide behind a slow stage, and what is removed first counts it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

from ppsim.analysis.result import Result
from ppsim.analysis.specify import specify
from ppsim.engine import Engine, run
from ppsim.engine.timeline import PER_SECOND
from ppsim.hardware.cluster import Topology
from ppsim.metrics import Run, bubble
from ppsim.plan import PlanSpec, build


@dataclass(frozen=True)
class Split:
    """The parts of the makespan in ns; they sum to it exactly. A part can be negative, where removing it costs time."""

    work: int
    ideal_bubble: int
    imbalance: int
    recomputation: int
    communication: int

    def seconds(self) -> dict[str, float]:
        """The parts in seconds, by name."""
        return {f"{field.name}_s": getattr(self, field.name) / PER_SECOND for field in fields(self)}


PARTS = tuple(field.name for field in fields(Split))


def split(result: Result, engine: Engine = "auto") -> Split:
    """The what-if split of a simulated run."""
    whole, spec = result.timeline.makespan, specify(result.experiment, result.problem)
    left: list[Run] = []
    for change in (_free_links, without_recomputation, _equal):
        spec = change(spec)
        timeline, _ = run(build(result.orders, spec), engine)
        left.append(Run(timeline.plan, timeline))
    free, plain, equal = (found.timeline.makespan for found in left)
    busy = bubble.busy(left[-1])
    work = int(busy.sum()) // len(busy)
    return Split(
        work=work,
        ideal_bubble=equal - work,
        imbalance=plain - equal,
        recomputation=free - plain,
        communication=whole - free,
    )


def _free_links(spec: PlanSpec) -> PlanSpec:
    """The same with links that cost nothing."""
    return on_cluster(spec, intra_node=None, inter_node=None, links=[], switches=[])


def without_recomputation(spec: PlanSpec) -> PlanSpec:
    """The same with nothing recomputed."""
    # Orders that list their own recomputation keep it, in no time.
    costs = replace(spec.problem.costs, recompute=(Fraction(0),) * spec.problem.stages)
    return replace(spec, problem=replace(spec.problem, costs=costs), recompute=replace(spec.recompute, of_stage=()))


def _equal(spec: PlanSpec) -> PlanSpec:
    """Every stage takes the mean of all, at the mean pace of all ranks and microbatches, so that the work stays."""
    costs, weights = spec.problem.costs, spec.microbatch_weights
    speeds = [spec.topology.speed(rank) for rank in range(spec.problem.ranks)]
    pace = sum(weights, Fraction(0)) / len(weights) * sum((1 / s for s in speeds), Fraction(0)) / len(speeds)

    def mean(values: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        return (sum(values, Fraction(0)) / len(values) * pace,) * len(values)

    timed = ("forward", "backward", "input_grad", "weight_grad", "recompute", "optimizer")
    changes: dict[str, Any] = {name: mean(getattr(costs, name)) for name in timed}
    if costs.overlapped is not None:
        changes["overlapped"] = mean(costs.overlapped)
    problem = replace(spec.problem, costs=replace(costs, **changes))
    return replace(on_cluster(spec, speed=Fraction(1)), problem=problem, microbatch_weights=(Fraction(1),))


def on_cluster(spec: PlanSpec, **changes: object) -> PlanSpec:
    """The same on another cluster."""
    topology = Topology(spec.topology.cluster.model_copy(update=changes), spec.problem.ranks)
    return replace(spec, topology=topology, problem=spec.problem.on(topology))
