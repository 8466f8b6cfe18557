"""Engines: the only place that advances time."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal, get_args

from ppsim.engine import simpy_engine
from ppsim.engine.timeline import Timeline
from ppsim.engine.watch import Watch
from ppsim.errors import ConfigError, shown
from ppsim.network import rule_of
from ppsim.plan.table import Plan

Engine = Literal["auto", "simpy", "compiled"]

SIMPY_UP_TO = 20_000
"""Ops that ``auto`` gives to the model of record; above, the compiled engine saves more than it takes to load."""


def run(plan: Plan, engine: Engine = "auto", watch: Watch | None = None) -> tuple[Timeline, str]:
    """Simulate a plan; returns the Timeline and the name of the engine that made it; ``watch`` is told how far it is.

    Raises DeadlockError where ranks wait for ever, ConfigError where 'compiled' is asked for and Numba isn't there.
    """
    if engine not in get_args(Engine):
        raise ConfigError(f"engine: {shown(engine)} is none; known: {', '.join(get_args(Engine))}")
    why_not = rule_of(plan).not_compiled if plan.ports else None
    if engine == "compiled" and why_not:
        raise ConfigError(
            f"engine: 'compiled' doesn't play cluster.sharing: {plan.sharing}: {why_not}; take 'auto' or 'simpy'"
        )
    if engine == "simpy" or why_not or (engine == "auto" and len(plan.ops) <= SIMPY_UP_TO):
        return simpy_engine.run(plan, watch), "simpy"
    try:
        compiled = _compiled()
    except ImportError as error:
        if engine == "auto":
            return simpy_engine.run(plan, watch), "simpy"
        raise ConfigError(
            f"engine: 'compiled' needs Numba, which can't be imported ({error}); install it with "
            "pip install 'ppsim[fast]', or use 'simpy': the results are the same"
        ) from None
    return compiled(plan, watch), "compiled"


def fastest(plan: Plan | None = None) -> Engine:
    """The compiled engine, where Numba is installed and it plays the plan's rule."""
    plays = plan is None or not plan.ports or not rule_of(plan).not_compiled
    return "compiled" if plays and find_spec("numba") else "simpy"


def _compiled() -> Callable[[Plan, Watch | None], Timeline]:
    from ppsim.engine import compiled

    return compiled.run
