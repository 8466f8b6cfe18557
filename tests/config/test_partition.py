"""``partition``: how layers come onto stages, what `ppsim check` says of it, and what is wrong is told at its key."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ppsim
from ppsim.analysis.partition import report
from ppsim.config.load import load
from ppsim.config.resolved import text
from ppsim.config.splitting import parts_of, split
from ppsim.costs.partition.memory import Room, fullest
from ppsim.costs.partition.question import spans_of
from ppsim.errors import ConfigError

VGG16 = Path(__file__).parents[2] / "configs/profiles/vgg16-v100.csv"
MODEL = """\
schedule: 1f1b
pipeline: {ranks: 4, microbatches: 8}
costs: {kind: transformer, model: {like: llama-3-8b, layers: 61}, efficiency: 0.5}
cluster: {device: {like: h100-80gb, memory: 2 TB}, intra_node: nvlink4}
"""
EQUAL = "schedule: 1f1b\npipeline: {ranks: 4, microbatches: 8, layers: 61}\ncosts: {per: model, forward: 61 ms, backward: 122 ms}\n"


@pytest.fixture
def experiment(tmp_path):
    def read(config: str, **changes):
        (tmp_path / "x.yaml").write_text(config)
        return load(tmp_path / "x.yaml", {key.replace("__", "."): value for key, value in changes.items()})

    return read


def layers(found) -> list[int]:
    return found.split().layers


# --- 61 layers on 4 ranks --------------------------------------------------------------------------------------------


def test_given_costs_are_shared_out_by_layers(experiment):
    found = experiment(EQUAL, partition="balanced")
    assert layers(found) == [16, 15, 15, 15]
    assert found.problem().costs.forward == tuple(Fraction(n, 1000) for n in (16, 15, 15, 15))  # 1 ms a layer
    # 1F1B with free links: the longest stage in the last place has all of the others' forwards before it and their
    # backwards behind it, 3 · 45, beside its own 8 · 48; in the first place it works while it waits
    last = ppsim.simulate(experiment(EQUAL, partition=[15, 15, 15, 16])).summary["step_time_s"]
    assert last == pytest.approx((3 * 45 + 8 * 48) / 1000)
    assert 8 * 48 / 1000 < ppsim.simulate(found).summary["step_time_s"] < last


def test_a_value_per_rank_is_shared_out_among_its_stages(experiment):
    found = experiment(
        EQUAL, costs={"forward": ["10 ms"] * 3 + ["9 ms"], "backward": "20 ms"}, pipeline__layers=10, pipeline__ranks=4,
        schedule={"name": "interleaved_1f1b", "virtual_stages": 2}, partition=[1, 1, 1, 1, 1, 1, 1, 3],
    )  # fmt: skip
    costs = found.problem().costs
    assert costs.forward[3] == Fraction(9, 1000) / 4 and costs.forward[7] == Fraction(27, 1000) / 4
    assert sum(costs.backward) == Fraction(80, 1000)  # a scalar is for a fourth of the model: 4 · 20 ms in all


def test_61_layers_with_embedding_and_head(experiment):
    found = experiment(MODEL, partition="balanced")
    assert sum(layers(found)) == 61 and layers(found)[3] < layers(found)[1]  # the head costs a few layers
    assert found.split().found.proven and found.split().found.capped
    costs = found.problem().costs
    uneven = experiment(MODEL, partition=[16, 15, 15, 15])
    stages = [f + b for f, b in zip(costs.forward, costs.backward, strict=True)]
    others = [f + b for f, b in zip(uneven.problem().costs.forward, uneven.problem().costs.backward, strict=True)]
    assert max(stages) < max(others)


def test_memory_caps_the_first_stages(experiment):
    free = experiment(MODEL, partition="balanced", pipeline__microbatches=16)
    peaks = [rank["peak_memory_bytes"] for rank in ppsim.simulate(free).summary["per_rank"]]
    memory = f"{(max(peaks) - 4 * 10**9) / 1e9:.0f} GB"
    capped = experiment(MODEL, partition="balanced", cluster__device__memory=memory, pipeline__microbatches=16)
    assert capped.split().found.capped and layers(capped)[0] < layers(free)[0]
    assert ppsim.simulate(capped).summary["fits"] is True
    assert (
        ppsim.simulate(experiment(MODEL, partition="balanced", cluster__device__memory="10 GB")).summary["fits"]
        is False
    )


@pytest.mark.parametrize(
    "schedule", ["1f1b", "gpipe", "zb_h1", {"name": "interleaved_1f1b", "virtual_stages": 3}, "zbv"]
)
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_what_a_split_is_thought_to_need_is_what_a_run_needs(experiment, schedule, recompute):
    if recompute == "full" and schedule in ("zb_h1", "zbv"):
        pytest.skip("an order with halves isn't recomputed")
    found = experiment(
        MODEL, schedule=schedule, partition="balanced", pipeline__recompute=recompute, cluster__intra_node="free"
    )
    parts = parts_of(found.costs, found.schedule, found.pipeline, found.cluster)
    problem, placement = found.problem(), found.placement
    layers_of = found.costs.layer_costs(parts.setting, recompute)
    stages = placement.stages
    room = Room(
        Fraction(0), [layers_of] * stages, [recompute == "full"] * stages, placement.stages_of,
        fullest(found.schedule.orders(problem), placement),
    )  # fmt: skip
    spans = spans_of(found.split().counts)
    run = ppsim.simulate(found).summary["per_rank"]
    for rank, held in enumerate(placement.stages_of):
        thought, measured = room.needed(rank, [spans[s] for s in held]), run[rank]["peak_memory_bytes"]
        assert thought == pytest.approx(measured, rel=0.01), (rank, schedule)  # a message on its way may be more


@pytest.mark.parametrize("schedule", ["1f1b", {"name": "interleaved_1f1b", "virtual_stages": 2}, "zbv"])
def test_where_any_split_fits_it_is_not_called_hopeless(experiment, schedule):
    model = {"like": "llama-3-8b", "layers": 6}
    found = experiment(MODEL, costs__model=model, schedule=schedule, partition="balanced", pipeline__ranks=2)
    parts = parts_of(found.costs, found.schedule, found.pipeline, found.cluster)
    stages, placement = found.placement.stages, found.placement
    orders = found.schedule.orders(found.problem())

    def room(capacity: int) -> Room:
        layers_of = found.costs.layer_costs(parts.setting, "none")
        none = [False] * stages
        return Room(Fraction(capacity), [layers_of] * stages, none, placement.stages_of, fullest(orders, placement))

    def needed(split: tuple[int, ...]) -> int:
        spans = spans_of(split)
        return max(room(0).needed(rank, [spans[s] for s in held]) for rank, held in enumerate(placement.stages_of))

    cuts = combinations(range(1, 8), stages - 1)  # embedding, six layers, head
    least = min(needed(tuple(b - a for a, b in pairwise((0, *cut, 8)))) for cut in cuts)
    assert not room(least).hopeless and room(least // 2).hopeless


# --- rules, lists and layouts ----------------------------------------------------------------------------------------


def test_prediction_layers_stay_together_and_go_last(experiment):
    model = {"like": "llama-3-8b", "layers": 8, "mtp": 2}
    found = experiment(MODEL, costs__model=model, partition="balanced")
    assert sum(layers(found)) == 10
    assert layers(experiment(MODEL, costs__model=model, partition=[2, 2, 2, 2])) == [2, 2, 2, 4]
    assert layers(experiment(MODEL, costs__model=model, partition=[3, 3, 2, 2])) == [3, 3, 2, 2]
    assert layers(experiment(MODEL, costs__model=model, partition="Ett|ttt|ttt|mmL")) == [2, 3, 3, 2]


def test_a_layout_goes_through_the_stages_in_the_models_order(experiment):
    schedule = {"name": "interleaved_1f1b", "virtual_stages": 2}
    found = experiment(MODEL, schedule=schedule, partition="E(t*8|)*7t*5L")
    assert layers(found) == [8, 8, 8, 8, 8, 8, 8, 5]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=8, max_size=16).filter(lambda times: len(times) % 4 == 0), st.integers(1, 9)
)
def test_balanced_is_never_slower_than_uniform_in_1f1b(tmp_path_factory, times, microbatches):
    folder = tmp_path_factory.mktemp("p")
    rows = "".join(f"l{i}, {t} ms, {2 * t} ms\n" for i, t in enumerate(times))
    (folder / "p.csv").write_text(f"layer, forward, backward\n{rows}")
    (folder / "x.yaml").write_text(
        f"schedule: 1f1b\npipeline: {{ranks: 4, microbatches: {microbatches}}}\ncosts: {{kind: profile, path: p.csv}}\n"
    )
    step = {
        rule: ppsim.simulate(load(folder / "x.yaml", {"partition": rule})).timeline.makespan
        for rule in ("balanced", "uniform")
    }
    assert step["balanced"] <= step["uniform"]


def test_the_resolved_config_shares_out_the_same_layers(experiment, tmp_path):
    for rule in ("balanced", [16, 15, 15, 15], "Et*15|t*15|t*15|t*16L"):
        found = experiment(MODEL, partition=rule)
        (tmp_path / "resolved.yaml").write_text(text(found))
        again = load(tmp_path / "resolved.yaml")
        assert layers(again) == layers(found) and again.partition == found.partition


# --- a profile, and PipeDream's plan ---------------------------------------------------------------------------------

PROFILE = f"""\
schedule: pipedream
pipeline: {{ranks: 16, microbatches: 320, micro_batch_size: 64}}
costs: {{kind: profile, path: {VGG16}, micro_batch_size: 128}}
cluster: {{device: v100-16gb, inter_node: ethernet-10g}}
partition: pipedream
"""


def test_vgg16_on_16_workers_is_15_1(experiment):
    found = experiment(PROFILE)
    assert found.schedule.replicas == [15, 1] and found.split().layers == [31, 9]
    on_four_servers = experiment(PROFILE, cluster__ranks_per_node=4, cluster__intra_node="pcie3")
    assert on_four_servers.schedule.replicas == [15, 1]  # four servers of four by levels would be 12-2-1-1, and slower
    told = report(found)
    assert "plan 15-1: layers 0 to 30 on 15 ranks; layers 31 to 39 on 1 rank" in told
    assert told[1].startswith("slowest stage: 0, 31 layers: 22.08 ms per microbatch")
    assert any("(NOAM): 2; 22.08 ms per minibatch expected" in line for line in told)  # 331.2 ms / 15


def test_a_planned_schedule_is_resolved_to_itself(experiment, tmp_path):
    found = experiment(PROFILE)
    (tmp_path / "profile-vgg16-v100.csv").write_bytes(VGG16.read_bytes())
    (tmp_path / "resolved.yaml").write_text(text(found))
    again = load(tmp_path / "resolved.yaml")
    assert (again.schedule.replicas, again.split().counts) == (found.schedule.replicas, found.split().counts)


def test_a_profile_is_balanced_and_scaled_to_the_microbatch(experiment):
    found = experiment(PROFILE, schedule="1f1b", partition=None, pipeline__ranks=4, cluster=None)
    assert sum(found.split().counts) == 40
    costs = found.problem().costs
    assert float(sum(costs.forward) + sum(costs.backward)) == pytest.approx((233.902 + 438.633) / 2 / 1000)  # 64 of 128
    assert float(sum(costs.weights)) == pytest.approx(553.43e6, rel=1e-6)
    slower = experiment(
        PROFILE, schedule="1f1b", partition=None, pipeline__ranks=4, costs__scale={"times": 3}, cluster=None
    )
    assert sum(slower.problem().costs.forward) == 3 * sum(costs.forward)


# --- what check says -------------------------------------------------------------------------------------------------


def test_the_report_names_the_slowest_stage_and_a_better_split(experiment):
    told = report(experiment(MODEL, costs__model={"like": "llama-3-8b", "layers": 32}))
    assert told[0] == "uniform: 32 layers on 4 stages: [8, 8, 8, 8]; embedding and head at the ends"
    assert told[1].startswith("slowest stage: 3, 8 layers: ")
    assert told[2].startswith("better, simulated: 'partition: balanced', [") and "per step instead of" in told[2]
    assert (
        report(
            experiment(
                "schedule: 1f1b\npipeline: {ranks: 2, microbatches: 4}\ncosts: {forward: 1 ms, backward: 2 ms}\n"
            )
        )
        == []
    )


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (MODEL, {}, "partition: 61 layers on 4 stages: 4 x 15 = 60, 1 would be lost; give a split, as 'partition: "
                    "[16, 15, 15, 15] or [15, 16, 15, 15]', or 'partition: balanced'"),
        (EQUAL, {}, "partition: 61 layers on 4 stages"),
        (MODEL, {"partition": [20, 20, 20, 20]}, "partition: [20, 20, 20, 20] adds up to 80 layers, the model has 61; "),
        (MODEL, {"partition": [20, 41]}, "partition: the list has 2 values, there are 4 stages"),
        (MODEL, {"partition": [-1, 20, 20, 22]}, "partition: stage 0 has -1 layers; 0 or more"),
        (MODEL, {"partition": "balance"}, "partition: 'balance' is not one of uniform, balanced, pipedream; did you mean 'balanced'?"),
        (MODEL, {"partition": "Et|t|t|tL"}, "partition: the layout has 4 layers 't', the model's number of layers is 61"),
        (MODEL, {"partition": "Ex|t|t|tL"}, "partition: 'x' in the layout is none of E (the embedding)"),
        (MODEL, {"partition": "E(t*8|)*7t*5L"}, "partition: the layout has 8 stages, the schedule 4 on 4 ranks"),
        (MODEL, {"partition": "pipedream"}, "partition: 'pipedream' plans stages on several ranks each"),
        (MODEL, {"pipeline__layers": 60, "partition": "balanced"}, "pipeline.layers: 60 layers, and costs of kind transformer have 61"),
        (EQUAL, {"pipeline__layers": 3, "partition": "balanced"}, "partition: 3 layers are too few for 4 stages, each of which needs one; at most 3 stages"),
        (EQUAL, {"pipeline__layers": 80, "schedule": {"name": "interleaved_1f1b", "virtual_stages": 30}},
         "80 layers are too few for 120 stages, each of which needs one; at most 80 stages: schedule.virtual_stages at most 20, not 30"),
        (EQUAL, {"pipeline__layers": None, "partition": "balanced"}, "partition: shares out a model's layers, and costs of kind given have none"),
        (PROFILE, {"costs__path": "missing.csv"}, "costs.path: "),
        (PROFILE, {"costs__path": str(VGG16.parent)}, "costs.path: "),
        (PROFILE, {"costs__sha256": "0" * 64}, "costs.sha256: vgg16-v100.csv has changed"),
        (PROFILE, {"costs__scale": {"times": 0}}, "costs.scale.times: 0 is not above 0"),
        (PROFILE, {"pipeline__ranks": 2, "schedule": {"name": "pipedream", "replicas": [1] * 2}, "partition": [40]}, "the list has 1 values"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_at_its_key(experiment, config, changes, message):
    with pytest.raises(ConfigError) as error:
        experiment(config, **changes)
    assert message in str(error.value)


def test_an_empty_stage_is_there_only_where_it_is_asked_for(experiment):
    found = experiment(EQUAL, partition=[0, 20, 20, 21])
    assert split([0, 20, 20, 21], parts_of(found.costs, found.schedule, found.pipeline, None)).counts == (0, 20, 20, 21)
    assert ppsim.simulate(found).summary["per_stage"][0]["forward_s"] == 0
