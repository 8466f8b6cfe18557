"""simulate(experiment) -> Result, simulate_many(experiments) -> rows: the whole flow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ppsim.analysis.flow import Executed, Flow
from ppsim.analysis.result import Result
from ppsim.analysis.uncertainty import repeats
from ppsim.config.experiment import Experiment
from ppsim.config.notices import notices, of_recomputation, what_saves_memory
from ppsim.engine import Engine, run
from ppsim.engine.watch import Watch
from ppsim.errors import ConfigError, Notice, PpsimError, shown
from ppsim.metrics import chosen, scalars
from ppsim.metrics.memory import too_much
from ppsim.ops import NONE, Kind
from ppsim.plan import Plan
from ppsim.schedules import Problem, Schedule


def simulate(
    experiment: Experiment, schedule: Schedule | None = None, engine: Engine = "auto", watch: Watch | None = None
) -> Result:
    """Simulate an experiment; ``watch`` is told how far it is.

    With a ``schedule`` it is the experiment under that one, which the result then holds and which is stored.
    Raises ConfigError, ScheduleError or FormatError where the input is wrong, DeadlockError where ranks wait for ever.
    """
    done = Flow(once=True).execute(_under(experiment, schedule), engine, watch)
    found = [
        *notices(done.experiment, done.problem),
        *of_recomputation(done.experiment, done.plan.ops.index.has(Kind.R)),
        *done.plan.notices,
        *_unused(done.experiment, done.problem, done.plan),
        *_too_much(done),
    ]
    return Result(
        done.experiment, done.problem, done.orders, done.run, done.engine, tuple(dict.fromkeys(found)),
        spread(done, engine),
    )  # fmt: skip


def _too_much(done: Executed) -> Iterator[Notice]:
    """What doesn't fit, with the settings that help."""
    for notice in too_much(done.run):
        helps = what_saves_memory(done.experiment, done.problem)
        yield notice._replace(message=f"{notice.message}; what helps: {helps}")


def simulate_many(
    experiments: Iterable[Experiment], metrics: Sequence[str] | None = None, engine: Engine | None = None
) -> list[dict[str, Any]]:
    """A row of figures for each experiment: those that ``simulate(experiment).summary`` has under these names.

    ``metrics`` are figures of a whole run (default: all that are one value); no other one is computed. What
    experiments with the same schedule and sizes have in common, orders and who waits for whom, is made once. By default
    the compiled engine simulates, where Numba is installed. Raises what ``simulate`` raises, and says for which one.
    """
    figures, flow, rows = chosen(metrics), Flow(), []
    for number, experiment in enumerate(experiments):
        try:
            run = flow.execute(experiment, engine).run
            rows.append({name: figure.of(run) for name, figure in figures.items()})
        except PpsimError as error:
            name = f" ({experiment.name})" if isinstance(experiment, Experiment) else ""
            raise type(error)(f"experiment {number}{name}: {error}") from None
    return rows


def _under(experiment: object, schedule: object) -> Experiment:
    """The experiment, under another schedule if there is one. Raises ConfigError where they are none, or disagree."""
    if not isinstance(experiment, Experiment):
        raise ConfigError(f"simulate takes an Experiment, not {shown(experiment)}; read a file with ppsim.load")
    if schedule is None:
        return experiment
    if not isinstance(schedule, Schedule):
        raise ConfigError(
            f"schedule takes an object of a Schedule's class, not {shown(schedule)}; a schedule by name goes into the "
            "experiment, as in ppsim.load(path, {'schedule': 'gpipe'})"
        )
    return experiment.with_schedule(schedule)


def _unused(experiment: Experiment, problem: Problem, plan: Plan) -> Iterator[Notice]:
    """What the config says of links that nothing is sent over, and of fused pairs where there are none."""
    links = experiment.cluster.links if experiment.cluster is not None else []
    used = np.zeros(len(plan.routes.src), bool)
    used[plan.transfers.route] = True
    ends = zip(plan.routes.src[used].tolist(), plan.routes.dst[used].tolist(), strict=True)
    pairs = {frozenset(pair) for pair in ends} if links else set()
    for index, link in enumerate(links):
        if frozenset(link.ranks) not in pairs:
            a, b = link.ranks
            why = f"ranks {a} and {b} send each other nothing"
            yield Notice("no_effect", f"cluster.links.{index}", f"has no effect: {why}")
    if problem.costs.overlapped is not None and not np.any(plan.ops.group != NONE):
        yield Notice("no_effect", "costs.overlapped", "has no effect: the order has no fused pairs")


def spread(done: Executed, engine: Engine) -> dict[str, Any] | None:
    """How far the figures spread over the repeats with random times, where the experiment asks for them."""
    if done.experiment.uncertainty is None:
        return None

    def measure(plan: Plan) -> dict[str, Any]:
        timeline, _ = run(plan, engine)
        return scalars(replace(done.run, plan=timeline.plan, timeline=timeline, _made={}))

    return repeats(done.plan, done.experiment.uncertainty, measure)
