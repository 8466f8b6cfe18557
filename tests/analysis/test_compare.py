"""What a comparison says beyond its table: who gains over many steps alone."""

from __future__ import annotations

import pytest

import ppsim
from ppsim.display.comparison import notes
from tests.simulated import simulate

UNIT = {"forward": "1 ms", "input_grad": "1 ms", "weight_grad": "1 ms"}


def test_zb_h2_gains_over_steps_without_a_barrier() -> None:
    """p = 4, m = 8, F = I = W = 1: 27 ms with either in one step; then 24 against 27 ms a step (D15 of the public cases)."""
    found = ppsim.compare([simulate(name, 4, 8, costs=UNIT) for name in ("1f1b", "zb_h1", "zb_h2")])
    (gain,) = found.gains_over_steps
    assert (gain.schedule, gain.than) == ("zb_h2", "zb_h1")
    assert (gain.period_s, gain.than_period_s) == (pytest.approx(0.024), pytest.approx(0.027))
    assert next(notes(found)) == (
        "zb_h2: its memory pays over several steps without a barrier alone (runtime.barrier: false): then a step takes "
        "24 ms, zb_h1's 27 ms"
    )


@pytest.mark.parametrize("names", [("1f1b", "zb_h1"), ("gpipe", "1f1b"), ("zb_h2",)])
def test_others_gain_nothing_by_it(names: tuple[str, ...]) -> None:
    assert ppsim.compare([simulate(name, 4, 8, costs=UNIT) for name in names]).gains_over_steps == ()
