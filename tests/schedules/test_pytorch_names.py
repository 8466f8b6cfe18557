"""PyTorch's and torchtitan's names of schedules are taken for ours."""

from __future__ import annotations

import pytest

from tests.simulated import simulate


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("GPipe", "gpipe"),
        ("1F1B", "1f1b"),
        ("Interleaved1F1B", "interleaved_1f1b"),
        ("LoopedBFS", "looped_bfs"),
        ("InterleavedZeroBubble", "interleaved_zb"),
        ("ZBVZeroBubble", "zbv"),
        ("DualPipeV", "dualpipev"),
    ],
)
def test_name(theirs: str, ours: str) -> None:
    """By name alone and with settings beside it; the summary says ours."""
    assert simulate(theirs, 2, 4).summary["schedule"] == ours
    assert simulate({"name": theirs}, 2, 4).summary == simulate(ours, 2, 4).summary
