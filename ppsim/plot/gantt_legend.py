"""The legend of a Gantt chart: each kind with how long its ops take, each cause with its share of the time in view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ppsim.ops import Kind
from ppsim.plot import scales
from ppsim.plot.bars import Bars, joined
from ppsim.plot.boxes import hatching
from ppsim.plot.looks import (
    CAUSES,
    FLIGHT,
    IDLE,
    KINDS,
    MOVED,
    OCCUPIES,
    PAIR,
    QUEUED,
    UPDATE,
    UPDATE_MARK,
    Look,
    hexed,
    of_chunk,
)
from ppsim.plot.view import View

if TYPE_CHECKING:
    from matplotlib.patches import Patch


class Entry(NamedTuple):
    """One entry: its looks (two for a fused pair; none is the line of a step's end) and its text."""

    looks: tuple[Look, ...]
    text: str


def entries(views: Sequence[View], brief: bool) -> list[Entry]:
    """What the legend of one or several charts says of the bars in view; ``brief`` leaves out what is in brackets."""
    found: list[Entry] = []
    ops, idle = (joined(*(getattr(view, part) for view in views)) for part in ("ops", "idle"))
    queue, ports, flight = (
        joined(*(getattr(view.wires, part) for view in views)) for part in ("queue", "ports", "flight")
    )
    stages = max(view.stages_per_rank for view in views)
    area = sum(len(view.ranks) * (view.high - view.low) for view in views)
    for kind, look in KINDS.items():
        mine = ops[ops.look == kind]
        if len(mine):
            found.append(Entry((look,), f"{look.words} {_lengths(mine)}"))
    for kind, look in KINDS.items():
        mine = ops[ops.look == PAIR + kind]
        if len(mine):
            found.append(Entry((KINDS[Kind.F], look), f"F + {Kind(kind).name} fused pair {_lengths(mine)}"))
    if stages > 1:
        shades = [hexed(of_chunk(KINDS[Kind.F].colour, chunk, stages)) for chunk in range(stages)]
        words = "a rank's first to last stage (the later, the higher its pale foot)"
        found.append(Entry(tuple(Look(shade, "", "") for shade in shades), words.split(" (")[0] if brief else words))
    moved = [(ports[ports.code == kind], look) for kind, look in MOVED.items()]
    for bars, look in ((ports[ports.code == 0], OCCUPIES), (flight, FLIGHT), (queue, QUEUED), *moved):
        if len(bars):
            words = look.words.split(",")[0] if brief else look.words
            found.append(Entry((look,), f"{words} {_lengths(bars)}"))
    if any(len(view.updates()[0]) for view in views):
        found.append(Entry((UPDATE,), UPDATE.words))
    if any(len(view.step_ends) for view in views):
        found.append(Entry((), "end of a step"))
    for number, look in enumerate(CAUSES.values()):
        mine = idle[idle.look == IDLE + number]
        if len(mine):
            seen = np.minimum(mine.end, views[0].high) - np.maximum(mine.start, views[0].low)
            share = float(seen.sum()) / area
            words = look.words.split(" (")[0] if brief else look.words
            found.append(Entry((look,), f"idle, {words} {scales.percent(share)}"))
    return found


def _lengths(bars: Bars) -> str:
    length = bars.end - bars.start
    return scales.durations(float(np.min(length)), float(np.max(length)))


def handle(entry: Entry) -> Any:
    """The picture beside an entry's text."""
    from matplotlib.lines import Line2D

    if not entry.looks:
        return Line2D([], [], color="black", linewidth=1.0)
    if entry.looks == (UPDATE,):
        return Line2D([], [], **UPDATE_MARK)
    patches = tuple(_patch(look) for look in entry.looks)
    return patches if len(patches) > 1 else patches[0]


def _patch(look: Look) -> Patch:
    from matplotlib.patches import Patch

    outline = 0.4 if look in CAUSES.values() else 0.0  # pale fills would be lost on the paper
    return Patch(facecolor=look.colour, edgecolor=hatching(look), linewidth=outline, hatch=look.hatch or None)
