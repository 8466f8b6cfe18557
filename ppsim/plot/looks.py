"""What each kind of op, cause of idleness and category of memory looks like, and what the legend calls it.

Colours differ for a colour-blind reader; in grey, those that are as dark as another differ by their hatch. Bars of ops
are strong, idle time is pale.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ppsim.ops import Kind

PAIR = 16
"""Added to the kind of its second half: the look of an atomic fused pair."""
IDLE = 32
"""Added to the number of its cause: the look of idle time."""
CHUNK = 64
"""Times the chunk (a rank's stage, counted from 0), added to an op's look, makes the code of a bar."""

_PALER = 9.0
"""How many steps of lightness (L*, of 100) a rank's last stage is paler than its first: half way to the next kind."""


class Look(NamedTuple):
    """Fill colour, hatch and the legend's words."""

    colour: str
    hatch: str
    words: str


KINDS: dict[int, Look] = {
    Kind.F: Look("#5aa5dc", "", "F forward"),
    Kind.B: Look("#7c2d0a", "", "B backward"),
    Kind.I: Look("#c4601a", "", "I input gradient"),
    Kind.W: Look("#f0cf45", "", "W weight gradient"),
    Kind.R: Look("#6f4f9b", "/////", "R recompute"),
    Kind.OPTIM: Look("#222222", "", "OPTIM optimizer step"),
}
"""The kinds that keep a rank busy."""

CAUSES: dict[str, Look] = {
    "fill": Look("#f3f3f3", "", "fill"),
    "drain": Look("#e2e2e2", "", "drain"),
    "upstream": Look("#f7efe8", "////", "upstream (input not computed)"),
    "transfer": Look("#e4f0ec", "....", "transfer (input under way)"),
    "queue": Look("#e4f0ec", "||||", "queue (input waits for a port)"),
    "blocked": Look("#f6e6e9", "xxxx", "blocked (by its own send)"),
    "memory": Look("#ece6f4", "----", "memory (activation being moved)"),
    "sync": Look("#e6ecf7", "++++", "sync (of gradients)"),
    "unknown": Look("#efefef", "", "cause unknown"),
}
"""Idle time, by the causes of ``metrics.waits``; 'unknown' where a run doesn't say what its ops waited for."""

OCCUPIES = Look("#1f6f5c", "", "transfer on its ports")
FLIGHT = Look("#a9cfc4", "", "transfer in flight")
QUEUED = Look("#d6336c", "", "transfer waits for its ports")
MOVED = {
    Kind.EVICT: Look("#6b4fa0", "", "EVICT, an activation moved away"),
    Kind.LOAD: Look("#b9a3dc", "", "LOAD, an activation fetched back"),
}
UPDATE = Look("#111111", "", "update of the weights")
UPDATE_MARK: dict[str, Any] = {
    "color": UPDATE.colour, "marker": "D", "markersize": 3.5, "markerfacecolor": "#ffffff", "markeredgewidth": 0.8,
    "linestyle": "none",
}  # fmt: skip
"""Nothing that could be taken for the head of a message's arrow, which ends at the same time in the same place."""

CATEGORIES: dict[str, Look] = {
    "weights": Look("#5b6770", "", "weights"),
    "gradients": Look("#8d9aa3", "....", "gradients"),
    "optimizer": Look("#b9c3c9", "////", "optimizer state"),
    "stash": Look("#8a6bb0", "\\\\\\\\", "weight versions"),
    "activations": Look("#74b3e3", "", "activations"),
    "messages": Look("#c4601a", "", "messages"),
    "transient": Look("#d9a441", "xxxx", "held while an op runs"),
}
"""What memory is held for, from the bottom of the stack to its top."""


def rgb(colour: str) -> tuple[float, float, float]:
    """Red, green and blue of '#rrggbb', from 0 to 1."""
    red, green, blue = bytes.fromhex(colour[1:])
    return red / 255, green / 255, blue / 255


def hexed(colour: tuple[float, float, float]) -> str:
    """'#rrggbb' of red, green and blue from 0 to 1."""
    return "#" + bytes(round(255 * part) for part in colour).hex()


def luminance(colour: tuple[float, float, float]) -> float:
    """Relative luminance, from 0 (black) to 1 (white). Source: WCAG 2.1, 'relative luminance'."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def lightness(colour: tuple[float, float, float]) -> float:
    """CIE L*, from 0 (black) to 100 (white): how a colour comes out in grey. Source: CIE 1976, L* above 8."""
    return 116 * math.cbrt(max(luminance(colour), 0.0088564)) - 16


def paler(colour: tuple[float, float, float], share: float) -> tuple[float, float, float]:
    """A colour mixed with white: 0 leaves it as it is, 1 makes it white."""
    red, green, blue = colour
    return red + (1 - red) * share, green + (1 - green) * share, blue + (1 - blue) * share


def foot_of(colour: tuple[float, float, float]) -> tuple[float, float, float]:
    """The colour at the foot of a bar that isn't on its rank's first chunk."""
    return paler(colour, 0.7)


def of_chunk(colour: str, chunk: int, chunks: int) -> tuple[float, float, float]:
    """A kind's colour on a rank's chunk: the later the chunk, the paler."""
    own = rgb(colour)
    return paler(own, _PALER / (100 - lightness(own)) * chunk / max(chunks - 1, 1))


INKS = ("#111111", "#ffffff")


def contrast(colour: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    """From 1 (none) to 21 (black on white). Source: WCAG 2.1, 'contrast ratio'."""
    dark, light = sorted((luminance(colour), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def ink(colour: tuple[float, float, float]) -> str:
    """The text colour with the higher contrast on ``colour``: nearly black, or white."""
    return max(INKS, key=lambda text: contrast(rgb(text), colour))
