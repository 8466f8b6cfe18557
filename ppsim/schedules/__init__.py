"""Schedules, a file each; a module in this folder with a Schedule that has a literal ``name`` is found by itself."""

from ppsim.ops.placement import Placement, bidirectional, loop, v_shape, wave
from ppsim.schedules.base import Batched, Problem, Rank, Schedule
from ppsim.schedules.registry import known
from ppsim.schedules.search.schedule import Limited

__all__ = [
    "Batched",
    "Limited",
    "Placement",
    "Problem",
    "Rank",
    "Schedule",
    "bidirectional",
    "known",
    "loop",
    "v_shape",
    "wave",
]
