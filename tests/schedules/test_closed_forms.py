"""Simulated makespans equal the published closed forms, on a grid of p, m, v and unequal F : I : W."""

# ruff: noqa: E741 - I is the field's letter

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest

from tests.simulated import simulate

RATIOS = [(1, 1, 1), (10, 12, 8), (3, 2, 1), (2, 3, 2), (1, 3, 1), (1, 1, 2), (2, 1, 3)]
"""F, I, W in ms: equal, as measured, each of them the longest once."""


@dataclass(frozen=True)
class Law:
    """A schedule, the idle ms of a rank as (p, m, F, I, W) -> ms, and where that holds."""

    schedule: dict[str, Any]
    bubble: Callable[[int, int, int, int, int], int]
    holds: Callable[[int, int, int, int, int], bool]
    stages: int = 1
    """Stage ops per rank and microbatch."""

    def __str__(self) -> str:
        return "-".join(map(str, self.schedule.values()))


def many(p: int, m: int, *_: int) -> bool:
    return m >= p


def always(*_: int) -> bool:
    return True


def laws() -> Iterator[Law]:
    """GPipe section 2.3; Megatron SC'21 sections 2.2.1 and 2.2.2; Lamy-Poirier section 4 (per stage op, so over v)."""
    for schedule in ({"name": "gpipe"}, {"name": "gpipe", "backward": "descending"}, {"name": "1f1b"}):
        yield Law(schedule, lambda p, m, F, I, W: (p - 1) * (F + I + W), always)
    yield Law({"name": "eager_1f1b"}, lambda p, m, F, I, W: (p - 1) * (F + I + W), always)
    for v in (2, 3):
        for name, more in (("interleaved_1f1b", {}), ("interleaved_1f1b", {"combined": True}), ("looped_bfs", {})):
            schedule = {"name": name, "virtual_stages": v, **more}
            yield Law(schedule, lambda p, m, F, I, W: (p - 1) * (F + I + W), many, v)
    for v in (1, 2, 3):
        # Zero Bubble, table 2 (ZB-H1): (p-1)(F+I-W). A longer W fills the gap: then F or I alone is left of it.
        yield Law(
            {"name": "interleaved_zb", "virtual_stages": v},
            lambda p, m, F, I, W: (p - 1) * max(F, I, F + I - W), many, v,
        )  # fmt: skip
    # Zero Bubble, section 6: none inside a rank's span for F = I = W, so (p-1)F. For I >= F, W the V's turns still
    # fit; by hand for p = 2: rank 1's I is 2(I-W) or I late.
    yield Law(
        {"name": "zbv"}, lambda p, m, F, I, W: (p - 1) * max(I, 2 * (I - W)),
        lambda p, m, F, I, W: m >= 2 * p - 1 and max(F, W) <= I, 2,
    )  # fmt: skip
    # DualPipe's README: (p/2-1)(F&B + B - 3W), F&B = F + B in its picture; its table is for F = I.
    yield Law(
        {"name": "dualpipe"}, lambda p, m, F, I, W: (p // 2 - 1) * (F + (I + W) + (I + W) - 3 * W),
        lambda p, m, F, I, W: p % 2 == 0 and m % 2 == 0 and m >= 2 * p and W <= F == I,
    )  # fmt: skip
    yield Law(
        {"name": "dualpipev"}, lambda p, m, F, I, W: (p - 1) * (F + (I + W) + (I + W) - 3 * W),
        lambda p, m, F, I, W: m >= 2 * p and W <= F == I, 2,
    )  # fmt: skip
    # Chimera, table 2 and section 3.1: (p-2)B for m = p, B >= F; with B = F between units, too, nothing more.
    yield Law(
        {"name": "chimera"}, lambda p, m, F, I, W: (p - 2) * (I + W),
        lambda p, m, F, I, W: p % 2 == 0 and (m == p if I + W > F else m % p == 0 and I + W == F),
    )  # fmt: skip
    for waves in (1, 2, 3):
        # Hanayo, figure 2 without P2P time: (p-1)/waves of a rank's backward, 2 · waves stage ops, for m = p.
        yield Law(
            {"name": "hanayo", "waves": waves}, lambda p, m, F, I, W: 2 * (p - 1) * (I + W),
            lambda p, m, F, I, W: m == p and I + W >= F, 2 * waves,
        )  # fmt: skip


def sizes() -> Iterator[tuple[int, int]]:
    for p in (1, 2, 3, 4):
        yield from ((p, m) for m in sorted({1, p, 2 * p, 2 * p + 1, 3 * p}))
    yield from ((6, m) for m in (6, 12))


@pytest.mark.parametrize("law", list(laws()), ids=str)
def test_makespan_is_work_and_bubble(law: Law) -> None:
    checked = 0
    for p, m in sizes():
        for F, I, W in RATIOS:
            if not law.holds(p, m, F, I, W):
                continue
            costs = {"forward": f"{F} ms", "input_grad": f"{I} ms", "weight_grad": f"{W} ms"}
            result = simulate(law.schedule, p, m, costs=costs)
            expected = m * law.stages * (F + I + W) + law.bubble(p, m, F, I, W)
            assert result.timeline.makespan == expected * 10**6, (p, m, F, I, W)
            if result.theory:
                assert result.theory["makespan_s"] == expected / 1000, (p, m, F, I, W)
            checked += 1
    assert checked >= 3


@pytest.mark.parametrize("law", list(laws()), ids=str)
def test_summary_names_the_closed_form_where_it_holds(law: Law) -> None:
    """For F = I = W every form is in its range: the figure is printed beside the simulated one."""
    if not law.holds(4, 8, 1, 1, 1):
        return
    costs = {"input_grad": "1 ms", "weight_grad": "1 ms"}
    found = simulate(law.schedule, 4, 8, costs=costs).summary["theory"]
    bubble = law.bubble(4, 8, 1, 1, 1)
    work = 3 * 8 * law.stages
    assert found["makespan_s"] == (work + bubble) / 1000
    assert found["bubble_ratio"] == pytest.approx(bubble / (work + bubble), rel=1e-12)
    assert found["bubble_overhead"] == pytest.approx(bubble / work, rel=1e-12)


def test_zb_1p_with_few_microbatches() -> None:
    """Zero Bubble, appendix H: (m+p-1)(F+I) + W for m <= p and W < I, F."""
    for p, m in ((2, 1), (3, 2), (4, 1), (4, 3), (6, 2), (6, 5), (6, 6)):
        for F, I, W in ((1, 1, 1), (10, 12, 8), (2, 3, 2)):
            costs = {"forward": f"{F} ms", "input_grad": f"{I} ms", "weight_grad": f"{W} ms"}
            result = simulate({"name": "interleaved_zb", "virtual_stages": 1}, p, m, costs=costs)
            assert result.timeline.makespan == ((m + p - 1) * (F + I) + W) * 10**6, (p, m, F, I, W)
            assert result.theory["makespan_s"] == ((m + p - 1) * (F + I) + W) / 1000


def test_breadth_first_hides_the_way_back_of_a_latency() -> None:
    """2(p-1) hops are left where (m-p) F >= p c: fill and drain; F=1, B=2, p=4, v=3, m=12, c=2: 108 + 9 + 12 ms."""
    cluster = {"ranks_per_node": 1, "inter_node": {"latency": "2 ms"}}
    result = simulate({"name": "looped_bfs", "virtual_stages": 3}, 4, 12, cluster=cluster)
    assert result.timeline.makespan == (3 * 12 * 3 + 3 * 3 + 2 * 3 * 2) * 10**6
    assert result.theory["makespan_s"] == 0.129


def test_hanayo_ratio_of_the_paper() -> None:
    """(TB/W) / (P/(P-1) (TF+TB) + TB/W), TF and TB of a rank, m = P; Chimera's (D-2)/(3D/2+D-2) for W=1 and D=2P.

    The paper prints TB/(2W) in the denominator, which for B = 2F would be less than the work and the bubble together.
    """
    for p in (2, 4, 8):
        for waves in (1, 2, 4):
            result = simulate({"name": "hanayo", "waves": waves}, p, p)
            bubble = Fraction(2, waves)
            expected = bubble / (Fraction(p, p - 1) * 3 + bubble)
            assert result.summary["bubble_ratio"] == pytest.approx(float(expected), rel=1e-12)
        chimera = Fraction(2 * p - 2, 3 * p + 2 * p - 2)
        one_wave = simulate({"name": "hanayo", "waves": 1}, p, p).summary["bubble_ratio"]
        assert one_wave == pytest.approx(float(chimera), rel=1e-12)
