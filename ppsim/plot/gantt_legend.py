"""The legend of a Gantt chart: every kind with how long its ops take, every cause with its share of the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ppsim.metrics import Run
from ppsim.ops import Kind
from ppsim.plot import scales
from ppsim.plot.bars import Bars
from ppsim.plot.boxes import HATCHING
from ppsim.plot.looks import CAUSES, FLIGHT, IDLE, KINDS, OCCUPIES, PAIR, Look

if TYPE_CHECKING:
    from matplotlib.patches import Patch


class Entry(NamedTuple):
    """One entry: its looks (two for a fused pair; none is the line of a step's end) and its text."""

    looks: tuple[Look, ...]
    text: str


def entries(run: Run, ops: Bars, idle: Bars, transfers: tuple[Bars, Bars], steps: bool) -> list[Entry]:
    """What the legend says of these bars, before any are merged; idle shares are of the device time of the whole run."""
    found: list[Entry] = []
    for kind, look in KINDS.items():
        mine = ops[ops.look == kind]
        if len(mine):
            found.append(Entry((look,), f"{look.words} {_lengths(mine)}"))
    for kind, look in KINDS.items():
        mine = ops[ops.look == PAIR + kind]
        if len(mine):
            found.append(Entry((KINDS[Kind.F], look), f"F + {Kind(kind).name} fused pair {_lengths(mine)}"))
    for bars, look in zip(transfers, (OCCUPIES, FLIGHT), strict=True):
        if len(bars):
            found.append(Entry((look,), f"{look.words} {_lengths(bars)}"))
    if steps:
        found.append(Entry((), "end of a step"))
    device_time = max(run.plan.ranks * run.timeline.makespan, 1)
    for number, look in enumerate(CAUSES.values()):
        mine = idle[idle.look == IDLE + number]
        if len(mine):
            share = float((mine.end - mine.start).sum()) / device_time
            found.append(Entry((look,), f"idle, {look.words}: {scales.percent(share)}"))
    return found


def _lengths(bars: Bars) -> str:
    length = bars.end - bars.start
    return scales.durations(float(np.min(length)), float(np.max(length)))


def handle(entry: Entry) -> Any:
    """The picture beside an entry's text."""
    from matplotlib.lines import Line2D

    if not entry.looks:
        return Line2D([], [], color="black", linewidth=1.0)
    patches = tuple(_patch(look) for look in entry.looks)
    return patches if len(patches) > 1 else patches[0]


def _patch(look: Look) -> Patch:
    from matplotlib.patches import Patch

    pale = look in CAUSES.values()
    hatch = {"hatch": look.hatch} if look.hatch else {}
    return Patch(facecolor=look.colour, edgecolor=HATCHING if pale else "white", linewidth=0.4 if pale else 0.0, **hatch)
