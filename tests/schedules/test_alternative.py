"""What a warned-of setting costs is simulated, not guessed."""

from __future__ import annotations

import pytest

from tests.simulated import simulate


@pytest.mark.parametrize(
    ("m", "group", "told"),
    [
        # D08 of the public questions: m(f+b) + (p-1)(f+b)/v = 27 + 4.5 with group 5; groups 4+4+1 take 37.
        (9, 4, ["group 5 gives 31.5 ms instead of 37 ms"]),
        (10, 4, ["group 5 gives 34.5 ms instead of 39.5 ms"]),
        (10, 5, []),
        (12, 4, []),
    ],
)
def test_ragged_group(m: int, group: int, told: list[str]) -> None:
    result = simulate({"name": "interleaved_1f1b", "group": group}, 4, m, costs={"per": "rank"})
    found = [w["message"] for w in result.summary["warnings"] if w["code"] == "alternative"]
    assert found == told


def test_groups_smaller_than_the_pipeline() -> None:
    """Groups of 3 on 4 ranks run, and wait inside each; whole groups of 4 take m(f+b) + (p-1)(f+b)/v = 36 + 4.5."""
    result = simulate({"name": "interleaved_1f1b", "group": 3}, 4, 12, costs={"per": "rank"})
    (told,) = [w["message"] for w in result.summary["warnings"] if w["code"] == "alternative"]
    assert told.startswith("group 4 gives 40.5 ms instead of ")
    assert result.summary["makespan_s"] > 0.0405
