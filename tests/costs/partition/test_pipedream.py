"""PipeDream's planner: its published plans, the formula by hand, every plan of small cases."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppsim.costs.partition.layout import SplitError
from ppsim.costs.partition.pipedream import Level, Profile, Stage, plan, with_replicas
from ppsim.costs.profile import table

F = Fraction
VGG16 = Path(__file__).parents[3] / "configs/profiles/vgg16-v100.csv"
GBIT = F(10**9, 8)


def vgg16(samples: int) -> Profile:
    """The profile, taken with 128 samples a minibatch, for another minibatch."""
    layers = table.read(VGG16.read_text(), "vgg16")
    part = F(samples, 128)
    return Profile(
        [(layer.forward + layer.input_grad + layer.weight_grad) * part for layer in layers],
        [F(4 * layer.parameters) for layer in layers],
        [layer.message * part for layer in layers],
    )


@pytest.mark.parametrize(
    ("workers", "samples", "gbit", "replicas", "source"),
    [
        (16, 128, 10, [15, 1], "SOSP'19 table 1, 4 servers of 4 V100; conf gpus=16 hybrid: 15-1"),
        (16, 64, 10, [15, 1], "with the paper's 64 samples per GPU"),
        (16, 32, 25, [15, 1], "2018 table 1 lists 9-5-1-1 for its Titan X; SOSP'19 15-1"),
        (8, 32, 10, [7, 1], "arXiv 1806.03377 table 1, cluster B"),
        (8, 32, 25, [7, 1], "the same, cluster A; conf gpus=8 hybrid: 7-1"),
        (4, 32, 25, [3, 1], "conf gpus=4 hybrid: 3-1; 2018 table 1 has 2-1-1"),
    ],
)
def test_vgg16_has_the_convolutions_on_all_but_one(workers, samples, gbit, replicas, source):
    found = plan(vgg16(samples), [Level(workers, gbit * GBIT)])
    assert found.replicas == replicas, source
    convolutions = found.stages[0]
    last = sum(vgg16(samples).weights[convolutions.end :], F(0))
    assert last > F(494_000_000)  # the fully connected layers: 123.6 million parameters, 494.6 MB


def test_15_1_computes_as_long_as_a_worker_needs_for_its_minibatch():
    found = plan(vgg16(128), [Level(16, 10 * GBIT)])
    convolutions = sum(vgg16(128).times[: found.stages[0].end], F(0))
    assert found.period == pytest.approx(convolutions / 15)  # 662.4 ms / 15: neither sync nor messages are slower


@pytest.mark.parametrize(
    ("model", "parameter_mb", "published_mb"),
    [
        ("GNMT-8", 775.064, 72.66),
        ("GNMT-16", 1110.870, 104.06),
        ("VGG-16", 553.430, 51.84),
        ("ResNet-50", 102.228, 9.56),
    ],
)
def test_data_parallel_bytes_per_sample_are_those_of_figure_17(model, parameter_mb, published_mb):
    """2 (m-1) |w| / 64 with 4 workers and 64 samples. Source: PipeDream, SOSP'19, figure 17; its shipped profiles."""
    profile = Profile([F(1)], [F(parameter_mb) * 10**6], [F(0)])
    moved = profile.bytes_per_round(with_replicas(profile, [4], [None], []))
    assert float(moved) / 64 / 1e6 == pytest.approx(published_mb, rel=0.003), model


def test_vgg16_moves_an_eighth_of_data_parallels_bytes():
    profile = vgg16(64)
    found = plan(profile, [Level(4, 10 * GBIT)])
    alone = with_replicas(profile, [4], [None], [])
    # 3-1: the convolutions' 58.86 MB twice for each of two more, and 2 · 6.42 MB: 248 of 3320 MB
    assert float(profile.bytes_per_round(found) / profile.bytes_per_round(alone)) < 1 / 8


# --- by hand, and against every plan -------------------------------------------------------------------------------


def test_a_stage_on_two_takes_half_unless_its_sync_is_slower():
    free = plan(Profile([F(3), F(1)], [F(10), F(10)], [F(0), F(0)]), [Level(2, None)])
    assert free == ((Stage(0, 2, 2),), F(2))  # 4 / 2
    slow = plan(Profile([F(3), F(1)], [F(10), F(10)], [F(0), F(0)]), [Level(2, F(2))])
    assert slow == ((Stage(0, 1, 1), Stage(1, 2, 1)), F(3))  # 2 (m-1)/m · 20 / 2 / 2 = 5 > 3 on two stages


def test_a_message_may_be_slower_than_any_stage():
    found = plan(Profile([F(3), F(3)], [F(100), F(100)], [F(8), F(0)]), [Level(2, F(1))])
    assert found.period == 16  # 2 · 8 / 1, against 100 for both on two
    assert found.replicas == [1, 1]


def test_two_levels_sync_inside_a_server_faster():
    profile = Profile([F(4), F(4)], [F(8), F(8)], [F(1), F(0)])
    found = plan(profile, [Level(2, F(8)), Level(2, F(1))])
    # A server: both layers on both of its workers, max(8, 2 · 1/2 · 16 / 8) / 2 = 4. Two such servers would sync
    # 2 · 1/2 · 16 / 1 = 16, / 2 = 8; a layer per server: max(4, 2 · 1/2 · 8 / 8) / 2 = 2, its message 2 · 1 / 1 = 2.
    assert found == ((Stage(0, 1, 2), Stage(1, 2, 2)), F(2))


SMALL = st.lists(st.tuples(*[st.integers(1, 9)] * 3), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(SMALL, st.integers(1, 4), st.sampled_from([None, F(1), F(4), F(30)]))
def test_no_plan_on_one_level_is_faster(layers, workers, bandwidth):
    times, weights, messages = ([F(value) for value in column] for column in zip(*layers, strict=True))

    def period(stages) -> F:
        of_stages = (
            max(sum(times[a:b]), 0 if bandwidth is None else F(2 * (m - 1), m) * sum(weights[a:b]) / bandwidth) / m
            for a, b, m in stages
        )
        sent = (F(0) if bandwidth is None else 2 * messages[b - 1] / bandwidth for _, b, _ in stages[:-1])
        return max(*of_stages, *sent, F(0))

    every = [
        [(a, b, m) for (a, b), m in zip(pairwise((0, *cuts, len(layers))), copies, strict=True)]
        for count in range(1, min(workers, len(layers)) + 1)
        for cuts in combinations(range(1, len(layers)), count - 1)
        for copies in product(range(1, workers + 1), repeat=count)
        if sum(copies) == workers
    ]
    profile = Profile(times, weights, messages)
    found = plan(profile, [Level(workers, bandwidth)])
    assert float(found.period) == pytest.approx(float(min(map(period, every))), abs=1e-11)
    assert float(period(found.stages)) == pytest.approx(float(found.period), abs=1e-11)
    assert sum(found.replicas) == workers and sum(found.split) == len(layers)
    again = with_replicas(
        profile, found.replicas, [bandwidth] * len(found.stages), [bandwidth] * (len(found.stages) - 1)
    )
    assert float(again.period) == pytest.approx(float(found.period), abs=1e-11)


def test_what_is_no_question_is_an_error():
    with pytest.raises(SplitError, match="a plan needs a layer, and a worker"):
        plan(Profile([], [], []), [Level(2, None)])
    with pytest.raises(SplitError, match="1 layers are too few for 2 stages"):
        with_replicas(Profile([F(1)], [F(1)], [F(0)]), [1, 1], [None, None], [None])
