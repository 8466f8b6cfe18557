"""Real runs of torch.distributed.pipelining, each beside its simulation (``python -m tests.real`` runs all of them)."""

from __future__ import annotations

import pytest

from tests.real.cases import CASES, FITTED_ON, Case, simulated
from tests.real.compare import errors, fitted
from tests.real.harness import measured
from tests.real.partial import measured_run

pytest.importorskip("torch", reason="needs PyTorch (pip install torch)")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

SHORT = [
    case for case in CASES if case.name in ("gpipe p3 m6, unequal", "1f1b p4 m8, straggler", "looped bfs p2 v2 m4")
]
NOISE = 0.05
"""What a busy machine may add to a step of half a second; a quiet one's table is in results/reference."""


@pytest.fixture(scope="module")
def op_overhead() -> int:
    """The one constant, in ns."""
    quickest = measured(FITTED_ON, simulated(FITTED_ON).plan)[0]
    return fitted(quickest.timeline.makespan, lambda ns: simulated(FITTED_ON, ns))


@pytest.mark.parametrize("case", SHORT, ids=lambda case: case.name)
def test_a_real_run_is_as_simulated(case: Case, op_overhead: int) -> None:
    """A sleep takes at least its time, so that no step is shorter than the simulation without overhead."""
    quickest = measured(case, simulated(case).plan)[0]
    assert quickest.timeline.makespan > simulated(case).timeline.makespan
    found = errors(quickest, simulated(case, op_overhead))
    assert abs(found.step) < NOISE
    assert max(found.start, found.fill, found.drain, found.other_idle) < NOISE


def test_other_ops_than_planned_are_told() -> None:
    plan = simulated(Case("", "gpipe", 2, 1, (1, 1), (1, 1))).plan
    with pytest.raises(ValueError, match=r"^rank 1 ran 1B0 1F0, planned was 1F0 1B0$"):
        measured_run(plan, [[("0F0", 0, 1), ("0B0", 3, 4)], [("1B0", 1, 2), ("1F0", 2, 3)]])
