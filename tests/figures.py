"""The data of a figure as a digest: what its marks stand for, not how they look."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

FIGURES = 6
"""Significant digits that count."""


def digest(shown: Any) -> str | None:
    """The digest of a Figure, of the one around Axes, or of a result's summary; None of anything else."""
    data = data_of(shown)
    return None if data is None else hashlib.sha256("\n".join(data).encode()).hexdigest()[:16]


def data_of(shown: Any) -> list[str] | None:
    """A line of text per title, curve and group of marks; None where nothing is drawn."""
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ppsim.analysis.compare import Comparison
    from ppsim.analysis.result import Result

    if isinstance(shown, Result):
        return [repr(sorted(shown.timeline.start.tolist()))]
    if isinstance(shown, Comparison):
        return [line for result in shown.results for line in data_of(result) or []]
    if isinstance(shown, Axes):
        shown = shown.figure
    if not isinstance(shown, Figure):
        return None
    return [line for axes in shown.axes for line in _of_axes(axes)]


def _of_axes(axes: Any) -> list[str]:
    found = [f"{axes.get_title('left')}{axes.get_title()}".split(",")[0]]
    found += [_numbers(line.get_xydata()) for line in axes.lines]
    for image in axes.images:
        if not str(image.get_gid()).startswith("averaged"):  # whose pixels depend on the axes' size
            found.append(_numbers(np.ma.filled(image.get_array(), np.nan)))
    for collection in axes.collections:
        if str(collection.get_gid()).startswith(("ops", "idle", "transfers", "moves", "memory", "peaks")):
            paths = [path.vertices for path in collection.get_paths()]
            found.append(f"{collection.get_gid()} {_numbers(np.concatenate(paths)) if paths else ''}")
        else:
            found.append(_numbers(np.asarray(collection.get_offsets())))
    found += [_numbers(patch.get_patch_transform().transform_path(patch.get_path()).vertices) for patch in axes.patches]
    return found


def _numbers(values: Any) -> str:
    flat = np.asarray(values, float).ravel()
    return " ".join(f"{value:.{FIGURES}g}" for value in flat)
