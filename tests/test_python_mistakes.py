"""What Python users give by mistake: an error that says what is due, never one from inside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ppsim
from ppsim import store
from tests.simulated import experiment, simulate


class Listed(ppsim.Schedule):
    """Its orders are no ops."""

    name: str = "listed"

    def orders(self, problem: Any) -> Any:
        return problem.per_rank(lambda rank: [1, 2])


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: ppsim.plot.gantt(3), "a picture takes a result, as simulate gives it, not 3"),
        (lambda: ppsim.plot.memory([]), "a picture takes a result, as simulate gives it, not a list"),
        (lambda: ppsim.plot.peaks("x"), "a picture takes a result, as simulate gives it, not 'x'"),
        (lambda: ppsim.search(experiment("1f1b", 2, 4), {"grid": {"schedule": ["1f1b"]}}, top=0), "top: 0 is too small"),
        (lambda: ppsim.read_trace(3), "read_trace takes the path of a file or folder, not 3"),
        (lambda: ppsim.simulate(experiment("1f1b", 2, 4), schedule=Listed()), "per_rank: rank 0's order is a list, not Ops"),
    ],
)  # fmt: skip
def test_a_mistake_is_told(call: Callable[[], object], complaint: str) -> None:
    with pytest.raises(ppsim.PpsimError) as caught:
        call()
    assert str(caught.value).startswith(complaint)


def test_a_trace_is_read_by_its_path_as_text(tmp_path: Path) -> None:
    store.write(simulate("1f1b", 2, 4), tmp_path / "run", pictures=False)
    trace = tmp_path / "run" / "trace.json"
    assert ppsim.read_trace(str(trace)).ranks == ppsim.read_trace(trace).ranks
