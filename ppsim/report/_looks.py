"""Colours of a page, which do on white and on black alike."""

from __future__ import annotations

import numpy as np

from ppsim.metrics import Run
from ppsim.ops import Kind, Longs
from ppsim.plot.bars import chunks
from ppsim.plot.boxes import colour_of
from ppsim.plot.looks import CAUSES, CHUNK, FLIGHT, KINDS, MOVED, OCCUPIES, Look, rgb
from ppsim.report._bars import Colours

INK = "#7b7b7b"
"""Text and lines in figures: a contrast of 4.2 on white and of 4.3 on the dark page."""
SEND = Look("#1f9c80", "", "SEND, RECV, REDUCE_GRAD: the rank waits for a message")
OTHERS: dict[int, Look] = {kind: MOVED.get(kind, SEND) for kind in Kind if kind not in KINDS}
"""The kinds that don't keep a rank busy."""
BUSY, FLIES = Look("#1f9c80", "", OCCUPIES.words), Look("#8fcbbd", "", FLIGHT.words)
IDLE: dict[str, Look] = {
    cause: Look(colour, "", CAUSES[cause].words)
    for cause, colour in (
        ("fill", "#b4b4b4"), ("drain", "#8a8a8a"), ("upstream", "#c98f5a"), ("transfer", "#35b99b"),
        ("queue", "#e0568e"), ("blocked", "#e34a4a"), ("memory", "#9a76d6"), ("sync", "#5d87dd"),
        ("unknown", "#a0a0a0"),
    )
}  # fmt: skip
"""Idle time by its cause, painted with ``FAINT``."""
FAINT = 90
"""Opacity of idle time, of 255."""


def of_ops(run: Run) -> Colours:
    """The colour of every op, the later its stage on its rank the paler."""
    plan = run.plan
    stages = max(len(held) for held in plan.placement.stages_of)
    codes, which = np.unique(plan.ops.kind.astype(np.int64) + CHUNK * chunks(plan), return_inverse=True)
    known = [
        colour_of(code, stages) if code % CHUNK in KINDS else rgb(OTHERS[code % CHUNK].colour)
        for code in codes.tolist()
    ]
    return _bytes(np.array(known).reshape(-1, 3), 255)[which]


def of_causes(cause: Longs) -> Colours:
    """The colour of idle time by the place of its cause in ``CAUSES``."""
    return _bytes(np.array([rgb(IDLE[name].colour) for name in CAUSES]), FAINT)[cause]


def of_one(look: Look, count: int) -> Colours:
    """One colour for all."""
    return np.repeat(_bytes(np.array([rgb(look.colour)]), 255), count, axis=0)


def _bytes(colours: np.ndarray, opacity: int) -> Colours:
    full = np.full((len(colours), 4), opacity, np.uint8)
    full[:, :3] = (255 * colours).round()
    return full
