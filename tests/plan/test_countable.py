"""Times and sizes are counted in 64 bits: what might not fit is an error, never a wrong figure or a traceback."""

from __future__ import annotations

from typing import Any

import pytest

import ppsim
from tests.simulated import experiment, simulate

YEARS_73 = "times go up to 73 years"
"""2^61 ns are 2,305,843,009 s, by 31,556,952 s a (mean Gregorian) year 73.07 of them."""


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({"forward": "2305843010 s"}, f"costs.forward: '2305843010 s' is more than can be counted; {YEARS_73}"),
        ({"activation": "1e10 TiB"}, "costs.activation: '1e10 TiB' is more than can be counted; sizes go up to 2 EiB"),
    ],
)  # fmt: skip
def test_a_value_by_itself(costs: dict[str, str], message: str) -> None:
    with pytest.raises(ppsim.ConfigError) as error:
        experiment("1f1b", 2, 2, costs=costs)
    assert message in str(error.value)


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
@pytest.mark.parametrize(
    ("costs", "message"),
    [
        # 2 ranks · (40 · 1e9 s of forwards and 40 · 2 ms of backwards), counted on each rank: 8e10 s, 2^62 ns are 4.6e9.
        ({"forward": "1e9 s", "backward": "2 ms"}, "the times of the whole run, on all ranks, add up to 8e+10 s"),
        # 40 activations of 1e18 bytes: 4e19, 2^62 are 4.6e18.
        ({"activation": "1e6 TB"}, "the sizes of the whole run, on all ranks, add up to 4e+19 bytes"),
    ],
)  # fmt: skip
def test_all_together(costs: dict[str, str], message: str, engine: str) -> None:
    with pytest.raises(ppsim.ConfigError, match="more than can be counted") as error:
        simulate("1f1b", 2, 20, engine, costs=costs)  # type: ignore[arg-type]
    assert message in str(error.value)


def test_what_follows_from_a_slow_link() -> None:
    """1 MB at 1e-6 B/s takes 1e12 s."""
    link: dict[str, Any] = {"bandwidth": "1e-9 kB/s"}
    with pytest.raises(
        ppsim.ConfigError, match=r"a time that follows from what is given, 1e\+12 s, is more than can be"
    ):
        simulate("1f1b", 2, 2, costs={"message": "1 MB"}, cluster={"ranks_per_node": 1, "inter_node": link})


def test_the_most_that_is_counted_is_right() -> None:
    """One rank, one microbatch of 1e9 s and 1e9 s: 2e9 s."""
    assert simulate("1f1b", 1, 1, costs={"forward": "1e9 s", "backward": "1e9 s"}).summary["makespan_s"] == 2e9
