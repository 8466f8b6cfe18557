"""What a report says of memory: one unit, and what isn't known is said, not counted as nothing."""

from __future__ import annotations

import re

import pytest

import ppsim
from ppsim._words import sizes
from ppsim.display.headline import headline, rank_rows

COSTS = {"forward": "10 ms", "backward": "20 ms", "message": "16 MiB"}


def run(costs: dict[str, str], memory: str | None = None) -> ppsim.Result:
    cluster = {"inter_node": {"bandwidth": "10 GB/s"}, **({"device": {"memory": memory}} if memory else {})}
    pipeline = {"ranks": 4, "microbatches": 8}
    return ppsim.simulate(
        ppsim.Experiment(schedule="1f1b", pipeline=pipeline, costs={**COSTS, **costs}, cluster=cluster)
    )


@pytest.mark.parametrize(
    ("costs", "memory", "line"),
    [
        ({"message": "0 B"}, None, "unknown: activations and weights not given"),
        # A rank between two others holds a message in and one out at once.
        ({}, None, "32 MiB of messages on rank 0; activations and weights not given"),
        (
            {},
            "1 GiB",
            "0.03125 GiB of messages on rank 0, of 1 GiB of the device's memory; activations and weights not given, so "
            "that whether it fits isn't known",
        ),
        ({"weights": "1 GiB"}, None, "2.031 GiB on rank 0; activations not given"),  # as much of gradients
        ({"weights": "0 B", "activation": "0 B"}, None, "32 MiB on rank 0"),  # nothing, as was said
        (
            {"weights": "1 GiB"},
            "1.5 GiB",
            "2.031 GiB on rank 0, of 1.5 GiB of the device's memory: does NOT fit, 0.5312 GiB too much; "
            "activations not given",
        ),
    ],
)
def test_what_is_not_given_is_said(costs, memory, line):
    said = dict(headline(run(costs, memory)))["peak memory"]
    assert re.sub(r" at [\d.]+ ms", "", said) == line


@pytest.mark.parametrize(
    ("costs", "memory", "fits"),
    [
        ({}, "80 GB", None),
        ({"weights": "1 GiB"}, "80 GB", None),  # activations may be more than what is left
        ({"activation": "1 GiB"}, "80 GB", None),
        ({"weights": "1 GiB", "activation": "1 GiB"}, "80 GB", True),  # 2 GiB with gradients, 4 microbatches in flight
        ({"weights": "0 B", "activation": "0 B"}, "80 GB", True),  # nothing, as was said
        ({"weights": "1 GiB"}, "1.5 GiB", False),  # 2 GiB with gradients, whatever comes on top
        ({"weights": "1 GiB", "activation": "1 GiB"}, None, None),
    ],
)
def test_whether_it_fits_is_unknown_where_what_takes_memory_is(costs, memory, fits):
    assert run(costs, memory).summary["fits"] is fits


def test_the_table_per_rank_has_one_unit():
    result = run({"activation": "1 GiB", "weights": "10 MiB", "message": "1 MiB"})
    assert [row[6].split()[1] for row in rank_rows(result)] == ["GiB"] * 4


def test_what_could_be_won_is_explained_by_its_bounds():
    # A rank's work is 8 (10 + 20) ms; rank 3 begins after 3 forwards of 10 ms.
    words = dict(headline(run({})))["could win"]
    assert "by another order in one step (270 ms)" in words and "over many without barrier (240 ms)" in words


@pytest.mark.parametrize(
    ("values", "largest", "texts"),
    [
        ([2**30, 2**20, None], None, ["1 GiB", "0.0009766 GiB", "–"]),
        ([2**20], 2**30, ["0.0009766 GiB"]),
        ([0, 0], None, ["0 B", "0 B"]),
        ([12345 * 2**40], None, ["12340 TiB"]),
    ],
)
def test_sizes_in_one_unit(values, largest, texts):
    assert sizes(values, largest) == texts


def test_a_peak_that_is_unknown_is_no_zero():
    assert [row[6] for row in rank_rows(run({"message": "0 B"}))] == ["–"] * 4
    assert [row[6] for row in rank_rows(run({"message": "0 B", "activation": "0 B", "weights": "0 B"}))] == ["0 B"] * 4
