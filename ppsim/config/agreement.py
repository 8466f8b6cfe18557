"""Whether parts of an experiment that are right by themselves agree; each question is between a few of them alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from ppsim._latest import Latest
from ppsim.config.combinations import combinations
from ppsim.config.mistakes import Mistake
from ppsim.config.pipeline import Pipeline
from ppsim.config.runtime import Runtime
from ppsim.config.splitting import seated, setting_of, split_mistakes
from ppsim.config.uncertainty import Uncertainty
from ppsim.costs import AnyCosts, GivenCosts, Setting, TransformerCosts
from ppsim.costs.setting import FREE_CLUSTER
from ppsim.errors import PpsimError
from ppsim.hardware.cluster import Cluster
from ppsim.ops.placement import problems as placement_problems
from ppsim.schedules import Schedule

T = TypeVar("T")
Ask = Callable[..., Any]
"""``ask(question, *parts)``: the question's answer, worked out or remembered."""


def anew(question: Callable[..., T], *parts: Any) -> T:
    """Work out the answer."""
    return question(*parts)


class Remembered:
    """Answers by the parts that were asked about: those that neighbouring cases share are the same objects."""

    def __init__(self, most: int) -> None:
        self._known: Latest[tuple[Any, tuple[Any, ...]]] = Latest(most)

    def __call__(self, question: Callable[..., T], *parts: Any) -> T:
        """The answer; it is kept with the parts, so that no other object comes to have the id of one of them."""
        key = (question, *map(id, parts))
        answer: T = self._known.of(key, lambda: (question(*parts), parts))[0]
        return answer


def disagreements(parts: Mapping[str, Any], ask: Ask = anew) -> Iterator[Mistake]:
    """What is wrong between parts that are right by themselves; parts that aren't there are passed over."""
    schedule, pipeline = parts.get("schedule"), parts.get("pipeline")
    costs, cluster = parts.get("costs"), parts.get("cluster")
    if not isinstance(pipeline, Pipeline):
        if isinstance(costs, TransformerCosts):
            yield from ask(_of_model, costs)
        return
    if isinstance(uncertain := parts.get("uncertainty"), Uncertainty):
        yield from ask(_of_uncertainty, uncertain, pipeline)
    if isinstance(cluster, Cluster):  # of costs it is a model's that say how many devices a rank is
        yield from ask(_of_cluster, cluster, costs if isinstance(costs, TransformerCosts) else None, pipeline)
    if not isinstance(schedule, Schedule):
        return
    fit: _Fit = ask(_fit, schedule, pipeline)
    yield from fit.mistakes
    if not fit.placed:
        return
    runtime = parts.get("runtime")
    if isinstance(runtime, Runtime) and fit.legal:
        yield from ask(_of_runtime, schedule, pipeline, runtime)
    if isinstance(costs, AnyCosts):
        # Given costs are the same on any cluster.
        wrong = ask(_of_costs, costs, schedule, pipeline, None if isinstance(costs, GivenCosts) else cluster, fit)
        yield from wrong or split_mistakes(parts, schedule)


class _Fit(NamedTuple):
    """What is wrong between a schedule and the sizes, and what can be looked at nevertheless."""

    mistakes: list[Mistake]
    legal: bool
    placed: bool
    sized: bool


def _under(section: str, found: Iterator[tuple[str, str]]) -> list[Mistake]:
    """(key, text) of a section as mistakes."""
    return [Mistake((section, *(int(k) if k.isdigit() else k for k in key.split("."))), text) for key, text in found]


def _of_model(costs: TransformerCosts) -> list[Mistake]:
    return _under("costs", costs.misfits())


def _of_uncertainty(uncertain: Uncertainty, pipeline: Pipeline) -> list[Mistake]:
    return _under("uncertainty", uncertain.problems(pipeline.ranks))


def _of_cluster(cluster: Cluster, costs: TransformerCosts | None, pipeline: Pipeline) -> list[Mistake]:
    return _under("cluster", seated(cluster, costs, pipeline).problems(pipeline.ranks))


def _of_runtime(schedule: Schedule, pipeline: Pipeline, runtime: Runtime) -> list[Mistake]:
    return [Mistake(tuple(key.split(".")), text) for key, text in combinations(schedule, pipeline, runtime)]


def _fit(schedule: Schedule, pipeline: Pipeline) -> _Fit:
    found = schedule.problems(pipeline.ranks, pipeline.microbatches)
    illegal = [Mistake(tuple(key.split(".")), text) for key, text in found]
    try:
        placement = schedule.placement(pipeline.ranks)
    except PpsimError as error:
        return _Fit(illegal or [Mistake(("schedule",), str(error))], not illegal, placed=False, sized=False)
    if misplaced := [Mistake(("schedule",), text) for text in placement_problems(placement, pipeline.ranks)]:
        return _Fit(illegal or misplaced, not illegal, placed=False, sized=False)
    missized = _under("pipeline", pipeline.problems(placement.stages))
    return _Fit([*illegal, *missized], not illegal, placed=True, sized=not missized)


def _of_costs(
    costs: AnyCosts, schedule: Schedule, pipeline: Pipeline, cluster: Cluster | None, fit: _Fit
) -> list[Mistake]:
    if fit.legal and fit.sized:
        setting = setting_of(schedule, pipeline, cluster)
    else:
        setting = Setting(schedule.placement(pipeline.ranks), cluster or FREE_CLUSTER, trains=schedule.trains)
    return _under("costs", costs.problems(setting))
