"""Bars as rectangles of a chart: one collection per kind, however many bars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ppsim.ops import NONE, Kind, Longs
from ppsim.plot.bars import Bars, Floats
from ppsim.plot.looks import (
    CAUSES,
    CHUNK,
    IDLE,
    KINDS,
    MOVED,
    PAIR,
    UPDATE_MARK,
    Look,
    foot_of,
    hexed,
    lightness,
    of_chunk,
    paler,
    rgb,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOOTED = 7.0
"""From this height of a line on, in points, chunks are told apart by a foot as well."""
FOOT = 0.24
"""Of a bar's height, the last chunk's foot."""
EDGED = (2.0, 6.0)
"""From this width and height of a line on, in points, a bar is set off from the next by a white edge."""


@dataclass(frozen=True, eq=False)
class Lanes:
    """What a line is divided into, as offsets from its centre downwards: the bars, and the transfers beneath them."""

    top: float
    bottom: float
    strip: tuple[float, float] | None
    queue: tuple[float, float] = (0.43, 0.48)
    """Beneath the transfers, what waits for its ports."""

    @classmethod
    def of(cls, points: float, transfers: bool, moves: bool = False) -> Lanes:
        """For lines of that height: gaps between them, and a strip for transfers, only where there is room.

        Moves are numbered, so that the strip is higher where there are any.
        """
        gap = 0.06 if points >= 4 else 0.0
        if transfers and points >= 4:
            return cls(gap - 0.5, 0.08, (0.11, 0.42)) if moves else cls(gap - 0.5, 0.22, (0.25, 0.42))
        return cls(gap - 0.5, 0.5 - gap, None)


@dataclass(frozen=True, eq=False)
class Boxes:
    """Bars of one kind, or one half of the fused pairs: their colours, and the plan's rows that they stand for."""

    name: str
    kind: int
    bars: Bars
    row: Longs
    colours: Floats
    top: float
    bottom: float
    chunks: int = 1
    """How many a rank holds."""


def boxes_of(bars: Bars, lanes: Lanes, chunks: int) -> Iterator[Boxes]:
    """The bars of ops by kind; a fused pair is its forward above its backward."""
    palette = {k: np.array([of_chunk(look.colour, c, chunks) for c in range(chunks)]) for k, look in KINDS.items()}
    for kind in KINDS:
        mine = bars[bars.look == kind]
        if len(mine):
            yield Boxes(
                Kind(kind).name, kind, mine, mine.row, palette[kind][mine.chunk], lanes.top, lanes.bottom, chunks
            )
        pairs = bars[bars.look == PAIR + kind]
        if len(pairs):
            middle = (lanes.top + lanes.bottom) / 2
            for half, top, bottom, after in ((Kind.F, lanes.top, middle, 0), (Kind(kind), middle, lanes.bottom, 1)):
                row = np.where(pairs.row == NONE, NONE, pairs.row + after)
                fill = palette[half][np.zeros(len(pairs), np.int64)]
                yield Boxes(f"pair-{half.name}", half, pairs, row, fill, top, bottom)


def paint_ops(ax: Axes, boxes: Boxes, per_ns: float, per_line: float) -> None:
    """One collection with the boxes of one kind, by the id 'ops-F'; points per ns and per line."""
    large = ((boxes.bars.end - boxes.bars.start) * per_ns >= EDGED[0]) & (per_line >= EDGED[1])
    corners = _corners(boxes.bars, boxes.top, boxes.bottom)
    widths = np.where(large, 0.4, 0.0)
    _fill(ax, corners, f"ops-{boxes.name}", 2.0, facecolors=boxes.colours, edgecolors="white", linewidths=widths)
    look = KINDS[boxes.kind]
    _hatch(ax, corners, look.hatch, hatching(look), 2.0)
    if per_line >= FOOTED:
        _feet(ax, boxes)


def _feet(ax: Axes, boxes: Boxes) -> None:
    """A pale foot on the bars of a rank's later chunks, the later the higher: shades alone are hard to tell apart."""
    later = np.flatnonzero(boxes.bars.chunk > 0)
    if not len(later) or boxes.chunks < 2:
        return
    corners = _corners(boxes.bars[later], boxes.top, boxes.bottom)
    share = FOOT * boxes.bars.chunk[later] / (boxes.chunks - 1)
    corners[:, (0, 3), 1] = (boxes.bars.line[later] + boxes.bottom - (boxes.bottom - boxes.top) * share)[:, None]
    colours = [foot_of((r, g, b)) for r, g, b in boxes.colours[later].tolist()]
    _fill(ax, corners, f"feet-{boxes.name}", 2.5, facecolors=colours, linewidths=0)


def colour_of(code: int, chunks: int) -> Floats:
    """The one colour of a bar by its code; a fused pair's is the mean of its halves."""
    look, chunk = code % CHUNK, code // CHUNK
    if look >= IDLE:
        return np.array(rgb(list(CAUSES.values())[look - IDLE].colour))
    if look >= PAIR:
        return np.asarray((np.array(rgb(KINDS[Kind.F].colour)) + np.array(rgb(KINDS[look - PAIR].colour))) / 2)
    return np.array(of_chunk(KINDS[look].colour, chunk, chunks))


def hatching(look: Look) -> str:
    """The colour of hatches over a fill: on dark ones a paler tone, so that labels stay legible; on pale ones grey."""
    own = rgb(look.colour)
    return hexed(paler(own, 0.3)) if lightness(own) < 80 else "#a8a8a8"


def paint_idle(ax: Axes, bars: Bars, lanes: Lanes) -> None:
    """One collection per cause of idleness, by the id 'idle-fill'."""
    for number, (cause, look) in enumerate(CAUSES.items()):
        mine = bars[bars.look == IDLE + number]
        if len(mine):
            corners = _corners(mine, lanes.top, lanes.bottom)
            _fill(ax, corners, f"idle-{cause}", 1.0, facecolors=look.colour, linewidths=0)
            _hatch(ax, corners, look.hatch, hatching(look), 1.0)


def paint_transfers(ax: Axes, bars: Bars, strip: tuple[float, float], name: str, look: Look) -> None:
    """One collection of transfers, by the id 'transfers-' and ``name``."""
    if len(bars):
        _fill(ax, _corners(bars, *strip), f"transfers-{name}", 2.0, facecolors=look.colour, linewidths=0)


def moves_of(bars: Bars, strip: tuple[float, float]) -> Iterator[Boxes]:
    """Moves by their kind, as boxes whose numbers can be written into them."""
    for kind, look in MOVED.items():
        mine = bars[bars.code == kind]
        if len(mine):
            colours = np.tile(rgb(look.colour), (len(mine), 1))
            yield Boxes(kind.name, kind, mine, mine.row, colours, *strip)


def paint_moves(ax: Axes, boxes: Boxes) -> None:
    """One collection with the moves of one kind, by the id 'moves-EVICT'."""
    corners = _corners(boxes.bars, boxes.top, boxes.bottom)
    look = {"facecolors": boxes.colours, "edgecolors": "white", "linewidths": 0.4}
    _fill(ax, corners, f"moves-{boxes.name}", 2.1, **look)


def _corners(bars: Bars, top: float, bottom: float) -> Floats:
    """The rectangles of bars, shape (bars, 4, 2): left top, left bottom, right bottom, right top."""
    corners = np.empty((len(bars), 4, 2))
    corners[:, (0, 1), 0] = bars.start[:, None]
    corners[:, (2, 3), 0] = bars.end[:, None]
    corners[:, (0, 3), 1] = (bars.line + top)[:, None]
    corners[:, (1, 2), 1] = (bars.line + bottom)[:, None]
    return corners


def _fill(ax: Axes, corners: Floats, name: str, zorder: float, **look: Any) -> None:
    from matplotlib.collections import PolyCollection

    collection = PolyCollection(cast(Any, corners), zorder=zorder, **look)  # an array draws faster than a list
    collection.set_gid(name)
    ax.add_collection(collection, autolim=False)


def _hatch(ax: Axes, corners: Floats, hatch: str, colour: str, zorder: float) -> None:
    """Hatch all rectangles as one shape: a collection would hatch them one by one, a hundred times slower."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if hatch:
        shape = Path.make_compound_path_from_polys(corners)
        ax.add_artist(PathPatch(shape, facecolor="none", edgecolor=colour, linewidth=0, hatch=hatch, zorder=zorder))


def paint_step_ends(ax: Axes, ends: Longs) -> None:
    """A stroke per line and step but the last, by the id 'step-ends'; ``ends`` are ns, shape (steps - 1, lines)."""
    from matplotlib.collections import LineCollection

    if ends.size:
        strokes = np.empty((*ends.shape, 2, 2))
        strokes[..., 0] = ends[..., None]
        strokes[..., 1] = np.arange(ends.shape[1])[:, None] + np.array([-0.5, 0.5])
        drawn = LineCollection(list(strokes.reshape(-1, 2, 2)), colors="black", linewidths=1.0, zorder=4)
        drawn.set_gid("step-ends")
        ax.add_collection(drawn, autolim=False)


def paint_updates(ax: Axes, time: Longs, line: Longs, lanes: Lanes) -> None:
    """A mark at each update of a rank's weights, by the id 'updates'; ``time`` is ns."""
    ax.plot(time, line + lanes.top, zorder=4, clip_on=False, gid="updates", **UPDATE_MARK)


def paint_arrows(ax: Axes, ends: Floats, head: float) -> None:
    """An arrow per message, by the id 'arrows': ``ends`` are (time, height) of both ends, shape (messages, 2, 2).

    ``head``: the size of its head in points.
    """
    from matplotlib.collections import LineCollection

    drawn = LineCollection(list(ends), colors="#333333", linewidths=0.6, alpha=0.7, zorder=3.5)
    drawn.set_gid("arrows")
    ax.add_collection(drawn, autolim=False)
    for mark, heads in (("v", ends[ends[:, 1, 1] > ends[:, 0, 1]]), ("^", ends[ends[:, 1, 1] < ends[:, 0, 1]])):
        ax.plot(heads[:, 1, 0], heads[:, 1, 1], mark, color="#333333", markersize=head, zorder=3.5, gid="arrow-heads")


def paint_frames(ax: Axes, frames: list[tuple[float, float, float, float]]) -> None:
    """A frame around each part that is enlarged, by the id 'enlarged': (low, high, top, bottom)."""
    from matplotlib.patches import Rectangle

    for low, high, top, bottom in frames:
        box = Rectangle((low, top), high - low, bottom - top, fill=False, edgecolor="black", linewidth=0.9, zorder=5)
        box.set_gid("enlarged")
        box.set_clip_on(False)
        ax.add_patch(box)
