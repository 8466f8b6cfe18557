"""A job's first steps, which aren't like the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ppsim.analysis.measured.lanes import Lanes
from ppsim.analysis.measured.replay import Replay

WARM, WARM_STEPS, FIRST_NUMBERS = 1.25, 3, 10
"""The first steps of a job are its warm-up: so much longer than the median, at most so many, numbered below that."""


def without_warm_up(found: Lanes) -> Lanes:
    """Without a job's first steps where they are much longer, or their ranks' clocks aren't yet set."""
    hops = Replay(found).hops
    early = (found.start[hops.consumer] - found.end[hops.producer]).min(axis=(0, 1), initial=0) < 0
    long = found.span > WARM * np.median(found.span)
    odd = long | (early & (early.mean() < 0.5))
    warm = 0
    while warm < min(WARM_STEPS, len(found.steps) - 1) and odd[warm] and found.steps[warm] < FIRST_NUMBERS:
        warm += 1
    if not warm:
        return found
    said = f"step {', '.join(map(str, found.steps[:warm]))}: warm-up, left out"
    return replace(
        found, start=found.start[:, :, warm:], end=found.end[:, :, warm:], steps=found.steps[warm:],
        left_out=(*found.left_out, said),
    )  # fmt: skip
