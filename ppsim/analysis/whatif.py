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
from ppsim.config.experiment import Experiment
from ppsim.costs import StageCosts
from ppsim.engine import Engine, run
from ppsim.engine.timeline import PER_SECOND
from ppsim.metrics import Run, bubble
from ppsim.ops import Kind, Orders
from ppsim.plan.build import build


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
    whole = result.timeline.makespan
    experiment, orders, costs = result.experiment, result.orders, result.problem.costs
    left: list[Run] = []
    for change in (_free_links, _without_recomputation, _equal):
        experiment, orders, costs = change(experiment, orders, costs)
        left.append(_run(result, experiment, orders, costs, engine))
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


def _run(result: Result, experiment: Experiment, orders: Orders, costs: StageCosts, engine: Engine) -> Run:
    plan = build(orders, replace(result.problem, costs=costs), experiment, result.schedule)
    return Run(plan, run(plan, engine)[0])


def _free_links(experiment: Experiment, orders: Orders, costs: StageCosts) -> tuple[Experiment, Orders, StageCosts]:
    cluster = experiment.cluster
    if cluster is not None:
        cluster = cluster.model_copy(update={"intra_node": None, "inter_node": None, "links": []})
    return experiment.model_copy(update={"cluster": cluster}), orders, costs


def _without_recomputation(
    experiment: Experiment, orders: Orders, costs: StageCosts
) -> tuple[Experiment, Orders, StageCosts]:
    # Orders that list their own recomputation keep it, in no time.
    nothing = (Fraction(0),) * costs.stages
    if (orders.table.kind == Kind.R).any():
        costs = replace(costs, recompute=nothing)
    return _pipeline(experiment, recompute="none"), orders, costs


def _equal(experiment: Experiment, orders: Orders, costs: StageCosts) -> tuple[Experiment, Orders, StageCosts]:
    """Every stage takes the mean of all, at the mean pace of all ranks and microbatches, so that the work stays."""
    pipeline, cluster = experiment.pipeline, experiment.cluster
    weights = pipeline.microbatch_weights or [Fraction(1)]
    speeds = [experiment.topology().speed(rank) for rank in range(pipeline.ranks)]
    pace = sum(weights, Fraction(0)) / len(weights) * sum((1 / s for s in speeds), Fraction(0)) / len(speeds)

    def mean(values: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        return (sum(values, Fraction(0)) / len(values) * pace,) * len(values)

    timed = ("forward", "backward", "input_grad", "weight_grad", "recompute", "optimizer")
    changes: dict[str, Any] = {name: mean(getattr(costs, name)) for name in timed}
    if costs.overlapped is not None:
        changes["overlapped"] = mean(costs.overlapped)
    if cluster is not None:
        cluster = cluster.model_copy(update={"speed": Fraction(1)})
    even = _pipeline(experiment, microbatch_weights=None).model_copy(update={"cluster": cluster})
    return even, orders, replace(costs, **changes)


def _pipeline(experiment: Experiment, **changes: object) -> Experiment:
    return experiment.model_copy(update={"pipeline": experiment.pipeline.model_copy(update=changes)})
