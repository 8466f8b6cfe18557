"""What is refused where a framework batches sends and receives, and runs where it doesn't."""

from __future__ import annotations

import pytest

import ppsim
from tests.simulated import experiment, simulate

FUSED = {"p2p": "fused"}


@pytest.mark.parametrize(
    ("m", "group", "near", "sizes"),
    [
        # 4 ranks: 9 = 4 + 4 + 1; one group of 5 and one of 4 works. Of groups of 4, 8 and 12 microbatches are whole.
        (9, 4, 5, "8 or 12"),
        (10, 4, 5, "8 or 12"),
        # 13 = 6 + 6 + 1: 5 leaves 3, 7 leaves 6; of groups of 6, 12 are whole and 16 leave 4.
        (13, 6, 7, "12 or 16"),
    ],
)
def test_a_last_group_that_megatron_refuses(m: int, group: int, near: int, sizes: str) -> None:
    schedule = {"name": "interleaved_1f1b", "group": group}
    with pytest.raises(ppsim.ConfigError) as caught:
        experiment(schedule, 4, m, runtime=FUSED)
    assert str(caught.value) == (
        f"schedule.group: groups of {group} leave {m % group} of the {m} microbatches to the last one, fewer than the 4 "
        f"ranks: with fused batches Megatron refuses that; group {near} works, or {sizes} microbatches, or "
        "runtime.p2p: separate"
    )
    works = [({"name": "interleaved_1f1b", "group": near}, m), *((schedule, int(size)) for size in sizes.split(" or "))]
    for legal, microbatches in works:
        assert simulate(legal, 4, microbatches, runtime=FUSED).summary["makespan_s"] > 0
    plain = simulate(schedule, 4, m)
    (notice,) = [notice for notice in plain.notices if notice.code == "ragged_group"]
    assert "Megatron and PyTorch refuse it" in notice.message


def test_the_preset_refuses_nothing_by_itself() -> None:
    """Interleaving doesn't batch under Megatron's preset, nor is a group counted at v = 1."""
    simulate({"name": "interleaved_1f1b", "group": 4}, 4, 9, runtime={"preset": "megatron"})
    simulate({"name": "interleaved_1f1b", "group": 4, "virtual_stages": 1}, 4, 9, runtime=FUSED)
