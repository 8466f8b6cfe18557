"""The what-if split: each part alone against a hand count, and all of them together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

import ppsim
from ppsim.analysis.whatif import PARTS, Split, split
from tests.simulated import between_nodes, simulate
from tests.test_invariants import experiments

MS = 10**6

# p = 4, m = 8, F = 1, B = 2 ms: work 8·3 = 24, ideal bubble 3·3 = 9.
CASES: list[tuple[str, dict[str, Any], dict[str, float]]] = [
    ("nothing to fix", {}, {}),
    # One stage of F = 2: makespan sum of F (5) + 7·2 (19) and of B (8) + 7·2 = 41 under GPipe. Equal stages take 5/4 and
    # 2: work 8·13/4 = 26, bubble 3·13/4 = 9.75, so imbalance is 41 - 35.75 = 5.25.
    (
        "an unequal stage",
        {"costs": {"forward": ["1 ms", "1 ms", "2 ms", "1 ms"]}},
        {"work": 26, "ideal_bubble": 9.75, "imbalance": 5.25},
    ),
    # Latency 0.1 ms on each of 2·3 hops of GPipe's critical path.
    ("a slow link", {"cluster": between_nodes(latency="100 us")}, {"communication": 0.6}),
    # The last rank waits for no gradient, so that its 8 R of 1 ms all add to the step; the first R of the other ranks fills
    # their wait for the first gradient, later ones run beside the last rank's: (m+p-1)(F+B) + m·R = 33 + 8 = 41.
    ("recomputation", {"pipeline": {"recompute": "full"}}, {"recomputation": 8}),
    # A rank at half speed: 57 ms (sum over stages 15 + 7·6); at the mean pace (1+1+2+1)/4 = 5/4 work 30, bubble 11.25.
    ("a slow rank", {"cluster": {"speed": [1, 1, 0.5, 1]}}, {"work": 30, "ideal_bubble": 11.25, "imbalance": 15.75}),
]


@pytest.mark.parametrize(("name", "change", "parts"), CASES, ids=[case[0] for case in CASES])
def test_each_part_alone(name: str, change: dict[str, Any], parts: dict[str, float]) -> None:
    expected = {"work": 24, "ideal_bubble": 9, "imbalance": 0, "recomputation": 0, "communication": 0, **parts}
    found = split(simulate("gpipe", 4, 8, **change), "simpy")
    assert {part: getattr(found, part) / MS for part in PARTS} == expected


def test_all_together() -> None:
    """The slow stage, recomputation and links at once; removed in turn they leave the parts that the cases have alone."""
    result = simulate(
        "gpipe", 4, 8,
        costs={"forward": ["1 ms", "1 ms", "2 ms", "1 ms"]},
        cluster=between_nodes(latency="100 us"),
        pipeline={"recompute": "full"},
    )  # fmt: skip
    found = split(result, "simpy")
    assert (found.work, found.ideal_bubble, found.imbalance) == (26 * MS, 9.75 * MS, 5.25 * MS)
    # With links free: stage 3 has its forwards behind it at 19 and its first R and B at 22; stage 2 has done its first R by
    # then, and takes B = 2 and 7 times R + B = 4 until 52; then one B each on stages 1 and 0: 56 = 41 + 15.
    assert found.recomputation == 15 * MS
    assert found.communication == 0.6 * MS
    assert _sum(found) == result.timeline.makespan


def _sum(found: Split) -> int:
    return sum(getattr(found, part) for part in PARTS)


@settings(max_examples=25, deadline=None)
@given(experiments())
def test_parts_sum_to_the_makespan(exp: ppsim.Experiment) -> None:
    result = ppsim.simulate(exp, engine="simpy")
    assert _sum(split(result, "simpy")) == result.timeline.makespan


def test_what_is_no_result_cannot_be_compared() -> None:
    with pytest.raises(ppsim.PpsimError, match="compare takes results, as simulate gives them, not 1"):
        ppsim.compare([1])  # type: ignore[list-item]
