"""Engines: the only place that advances time."""

from __future__ import annotations

from typing import Literal

from ppsim.engine import simpy_engine
from ppsim.plan.table import Plan
from ppsim.timeline import Timeline

Engine = Literal["auto", "simpy", "compiled"]


def run(plan: Plan, engine: Engine = "auto") -> tuple[Timeline, str]:
    """Simulate a plan; returns the Timeline and the name of the engine that made it."""
    return simpy_engine.run(plan), "simpy"
