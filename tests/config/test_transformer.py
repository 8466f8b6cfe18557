"""Costs from a model in a config: what is wrong, where, and what would work; what a run and `ppsim check` say."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ppsim
from ppsim.config.experiment import Experiment
from ppsim.config.load import load
from ppsim.config.notices import notices
from ppsim.config.resolved import text
from ppsim.errors import ConfigError

CONFIG = """\
schedule: 1f1b
pipeline: {ranks: 2, microbatches: 4, micro_batch_size: 1}
costs:
  kind: transformer
  model: {like: llama-3-8b, layers: 4}
  sequence: 2048
cluster:
  device: h100-80gb
  intra_node: nvlink4
"""


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "ppsim", *arguments]
    return subprocess.run(run, capture_output=True, text=True, check=True, encoding="utf-8")


def changed(tmp_path: Path, **changes: Any) -> Experiment:
    path = tmp_path / "x.yaml"
    path.write_text(CONFIG)
    return load(path, {key.replace("__", "."): value for key, value in changes.items()})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"costs.tensor_parallel": 3}, "costs.tensor_parallel: hidden 4096 and heads 32 and ffn 14336 aren't"),
        ({"costs.tensor_parallel": 64}, "costs.tensor_parallel: heads 32 isn't a multiple of 64 devices; 32"),
        ({"costs.model": "lama-3-8b"}, "costs.model: unknown model 'lama-3-8b'; did you mean 'llama-3-8b'?"),
        ({"costs.model.layers": 3}, "partition: 3 layers on 2 stages: 2 x 1 = 2, 1 would be lost"),
        ({"costs.model.experts": 4}, "costs.model.top_k: missing: how many experts a token is sent to"),
        ({"costs.model.heads": 7, "costs.model.kv_heads": 7}, "costs.model.heads: hidden 4096 isn't a multiple of"),
        ({"costs.model.colour": 1}, "costs.model.colour: unknown key"),
        ({"costs.model": {"layers": 4, "hidden": 64}}, "costs.model.heads: missing"),
        ({"costs.model": {"layers": 4, "hidden": 64, "heads": 4, "vocab": 9}}, "'vocab' is unknown; did you mean"),
        ({"costs.expert_parallel": 2}, "costs.expert_parallel: is for a model with experts"),
        ({"costs.sequence": 2047, "costs.context_parallel": 2}, "a sequence of 2047 tokens isn't a multiple of"),
        ({"costs.context_parallel": 64}, "costs.context_parallel: 32 heads aren't a multiple of tensor 1 x"),
        ({"costs.efficiency": 2}, "costs.efficiency.matmul: 2 is more than the peak rate"),
        ({"costs.efficiency": {"matmull": 1}}, "costs.efficiency.matmull: unknown key; did you mean 'matmul'?"),
        ({"costs.precision": {"weights": "int3"}}, "costs.precision.weights: 'int3' is not one of fp32, tf32"),
        ({"costs.precision": {"optimizer": "adamw"}}, "'adamw' is none of adam, momentum, sgd, nor a size"),
        ({"costs.precision": {"weights": "fp8"}, "cluster.device": "a100-80gb"}, "in fp8, and a100-80gb has it in"),
        ({"cluster.device": {"memory": "80 GB"}}, "costs.kind: a model's times follow from the device's peak rate"),
        ({"costs.sequence_parallel": True}, "costs.sequence_parallel: spreads over the tensor parallel devices"),
        ({"costs.recompute_modules": ["core"]}, "'core' is not one of core_attn, layernorm"),
        ({"costs.recompute_modules": []}, "costs.recompute_modules: the list has 0 values"),
        ({"costs.kind": "transformers"}, "costs.kind: 'transformers' is not one of given, transformer"),
        ({"costs.forward": "10 ms"}, "costs.forward: unknown key"),
        ({"pipeline.recompute": "selectiv"}, "'selectiv' is not one of none, full, except_last, selective"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_what_would_work(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        changed(tmp_path, **changes)
    assert message in str(error.value)


def test_mistakes_are_said_at_their_lines_and_all_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(CONFIG.replace("microbatches: 4", "microbatches: 0").replace("2048", "2047\n  tensor_parallel: 3"))
    with pytest.raises(ConfigError) as error:
        load(path)
    lines = str(error.value).splitlines()
    assert [line.split(":")[1] for line in lines] == ["2", "7"]
    path.write_text(CONFIG.replace("kind: transformer", "kind: transformers"))
    with pytest.raises(ConfigError) as error:
        load(path)
    assert str(error.value) == (  # what its other keys mean isn't known, then
        f"{path}:4:3: costs.kind: 'transformers' is not one of given, transformer, profile; did you mean 'transformer'?"
    )


def test_experts_need_devices_that_share_them_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="groups of expert 8 x expert tensor 1 = 8 devices don't share out"):
        changed(tmp_path, **{"costs.model": "mixtral-8x7b", "costs.expert_parallel": 8, "pipeline.data_parallel": 4})
    with pytest.raises(ConfigError, match="16 devices can't share 8 experts; at most 8"):
        changed(tmp_path, **{"costs.model": "mixtral-8x7b", "costs.expert_parallel": 16})


def test_collectives_need_a_link(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="what the devices of a rank send each other needs a link"):
        changed(tmp_path, **{"costs.tensor_parallel": 2, "cluster": {"device": "h100-80gb"}})
    changed(tmp_path, **{"costs.tensor_parallel": 2, "cluster": {"device": "h100-80gb", "intra_node": "free"}})
    measured = {"collective": "300 GB/s"}
    changed(tmp_path, **{"costs.tensor_parallel": 2, "costs.efficiency": measured, "cluster": {"device": "h100-80gb"}})


def test_a_model_file_is_beside_its_config(tmp_path: Path) -> None:
    """Its sizes stand in the resolved config, which needs the file no more."""
    content = {"model_type": "llama", "hidden_size": 512, "intermediate_size": 2048, "num_attention_heads": 8,
               "num_hidden_layers": 4, "vocab_size": 1000}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(content))
    path = tmp_path / "x.yaml"
    path.write_text(CONFIG.replace("{like: llama-3-8b, layers: 4}", "config.json"))
    experiment = load(path)
    (tmp_path / "config.json").unlink()
    again = tmp_path / "resolved.yaml"
    again.write_text(text(experiment))
    assert load(again).costs == experiment.costs


def test_a_model_file_that_is_missing_is_told_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(CONFIG.replace("like: llama-3-8b", "like: config.json"))
    with pytest.raises(ConfigError, match=r"x.yaml:5:\d+: costs.model: .*config.json: no such file"):
        load(path)


def test_the_resolved_config_reads_back_as_itself(tmp_path: Path) -> None:
    experiment = changed(tmp_path, **{"costs.efficiency": {"matmul": [{"flops": "1 TFLOP", "efficiency": 0.4}]}})
    again = tmp_path / "resolved.yaml"
    again.write_text(text(experiment))
    assert load(again).model_copy(update={"name": experiment.name}) == experiment


def messages(experiment: Experiment) -> dict[str, str]:
    return {notice.key: notice.message for notice in notices(experiment, experiment.problem())}


def test_guesses_are_said(tmp_path: Path) -> None:
    found = messages(changed(tmp_path))
    assert "products reach 50% of the peak rate" in found["costs.efficiency"]
    assert "`ppsim calibrate`" in found["costs.efficiency"]
    measured = {"matmul": 0.4, "memory": 0.8}
    assert "costs.efficiency" not in messages(changed(tmp_path, **{"costs.efficiency": measured}))


@pytest.mark.parametrize(
    ("memory", "key", "helps"),
    [
        # A rank has a billion parameters of some 18 bytes, 17.8 GB, and beside them activations of two microbatches.
        (
            "19 GB",
            "cluster.device.memory",
            "a shorter schedule.warmup, pipeline.recompute: full, more costs.tensor_parallel",
        ),
        (
            "10 GB",
            "costs.weights",
            "more pipeline.ranks, each with a smaller part of the model, or more costs.tensor_parallel",
        ),
    ],
)
def test_what_would_fit_a_model_into_memory_is_said(tmp_path: Path, memory: str, key: str, helps: str) -> None:
    device = {"memory": memory, "peak_flops": "989 TFLOP/s", "memory_bandwidth": "3 TB/s"}
    result = ppsim.simulate(changed(tmp_path, **{"cluster.device": device}))
    (message,) = [notice.message for notice in result.notices if notice.key == key]
    assert message.endswith(f"; what helps: {helps}")
    sharded = changed(
        tmp_path, **{"cluster.device": device, "pipeline.data_parallel": 4, "costs.optimizer_sharding": "none"}
    )
    (message,) = [notice.message for notice in ppsim.simulate(sharded).notices if notice.key == key]
    assert message.endswith("costs.optimizer_sharding: optimizer")


def test_what_has_no_effect_is_said(tmp_path: Path) -> None:
    found = messages(changed(tmp_path, **{"costs.recompute_modules": ["mlp"]}))
    assert found["costs.recompute_modules"] == "has no effect: pipeline.recompute isn't selective"


def test_a_run_says_tokens_and_the_share_of_the_peak_rate(tmp_path: Path) -> None:
    """4 microbatches of 2048 tokens; 6 operations per parameter and token but the embedding's, and attention's."""
    summary = ppsim.simulate(changed(tmp_path)).summary
    step = summary["step_time_s"]
    assert summary["tokens_per_s"] == pytest.approx(4 * 2048 / step)
    layer = 2 * 4096 * (4096 + 1024) + 3 * 4096 * 14336
    products = 4 * layer + 128256 * 4096  # four layers and the head
    operations = 6 * products + 3 * 4 * 4 * 2048 * 4096  # 4·s·h per token and layer, three times
    assert summary["device_flop_per_s"] == pytest.approx(operations * 4 * 2048 / 2 / step, rel=1e-9)
    assert summary["mfu"] == pytest.approx(summary["device_flop_per_s"] / 989e12)


def test_mfu_does_not_depend_on_how_the_model_is_cut_where_nothing_is_lost(tmp_path: Path) -> None:
    """Without links, norms and bubbles (one rank, free collectives, endless memory bandwidth) it is the efficiency.

    A flash kernel computes half of the square that is counted, in its backward 5/4 of it; so attention is left out
    by a short sequence.
    """
    for tensor in (1, 4):
        whole = changed(tmp_path, **{
            "costs.tensor_parallel": tensor, "costs.sequence": 4, "costs.efficiency": 0.5, "pipeline.ranks": 1,
            "pipeline.micro_batch_size": 512,
            "cluster": {"device": {"peak_flops": "989 TFLOP/s"}, "intra_node": "free"},
        })  # fmt: skip
        assert ppsim.simulate(whole).summary["mfu"] == pytest.approx(0.5, rel=2e-3)


def test_devices_of_a_node_say_how_many_ranks_it_holds(tmp_path: Path) -> None:
    """8 devices hold two ranks of 4, so that every other message crosses nodes; with two replicas, one rank."""
    cluster = {"device": "h100-80gb", "devices_per_node": 8, "intra_node": "nvlink4", "inter_node": "ib-ndr"}
    given = {"cluster": cluster, "costs.tensor_parallel": 4, "pipeline.ranks": 4}
    topology = changed(tmp_path, **given).topology()
    assert [topology.near(r, r + 1) for r in range(3)] == [True, False, True]
    pair = changed(tmp_path, **given, **{"pipeline.data_parallel": 2}).topology()
    assert not any(pair.near(r, r + 1) for r in range(3))
    assert pair.replica_route(0).link.like == "nvlink4"  # its copy is on the same node
    four = changed(tmp_path, **given, **{"pipeline.data_parallel": 4}).topology()
    assert four.replica_route(0).link.like == "ib-ndr"


def test_a_group_that_reaches_beyond_a_node_uses_the_link_between_nodes(tmp_path: Path) -> None:
    """16 tensor parallel devices on nodes of 8: an eighth of NVLink's 450 GB/s, so collectives take nine times."""
    cluster = {"device": "h100-80gb", "intra_node": "nvlink4", "inter_node": {"bandwidth": "50 GB/s"}}
    given = {"costs.tensor_parallel": 16, "costs.efficiency": {"link": 1}}
    near, far = (
        changed(tmp_path, cluster={**cluster, "devices_per_node": per_node}, **given).problem().costs.forward[0]
        for per_node in (16, 8)
    )
    sent = 15 * 2 * 4096 * 2048 / 16  # bytes of each all-gather and reduce-scatter
    hops = 15 * 3.4e-6  # NVLink's latency
    count = 1 + 4 * 2  # the embedding's, four in each of two layers
    # Without a latency of its own the far link's hops take none.
    assert float(far - near) == pytest.approx(count * (sent / 50e9 - sent / 450e9 - hops), rel=1e-6)


@pytest.mark.parametrize("mode", ["full", "selective", "except_last"])
def test_recomputation_trades_memory_for_time(mode: str, tmp_path: Path) -> None:
    given = {"costs.attention": "unfused", "pipeline.recompute_when": "late"}
    plain, again = (changed(tmp_path, **given, **{"pipeline.recompute": what}) for what in ("none", mode))
    before, after = ppsim.simulate(plain), ppsim.simulate(again)
    assert after.summary["step_time_s"] > before.summary["step_time_s"]
    assert after.per_rank()[0]["recompute_s"] > 0
    if mode != "except_last":  # which spares the last microbatch, and has it whole
        assert after.per_rank()[0]["peak_memory_bytes"] < before.per_rank()[0]["peak_memory_bytes"]


def test_inside_the_backward_one_layer_is_rebuilt_after_the_other(tmp_path: Path) -> None:
    """Late: two inputs and one layer's rest. Early, a recomputation by itself: all of both layers."""
    given = {"pipeline.recompute": "full", "pipeline.ranks": 2, "pipeline.microbatches": 1}
    late, early = (
        ppsim.simulate(changed(tmp_path, **given, **{"pipeline.recompute_when": when})).per_rank()[0]
        for when in ("late", "early")
    )
    costs = changed(tmp_path).costs
    row = costs.layer_costs(changed(tmp_path).setting(), "full").layers[1]
    ids = 8 * 2048
    assert early["peak_by_category"]["activations"] == 2 * row.activation + ids
    assert late["peak_by_category"]["activations"] == row.activation + row.kept + ids


def test_given_costs_say_themselves_what_selective_recomputation_keeps() -> None:
    given = {"schedule": "1f1b", "pipeline": {"ranks": 2, "microbatches": 2, "recompute": "selective"}}
    costs = {"forward": "2 ms", "backward": "4 ms", "activation": "10 B"}
    with pytest.raises(ConfigError, match=r"costs.recompute: missing; 'pipeline.recompute: selective' needs"):
        Experiment(**given, costs=costs)
    run = Experiment(**given, costs={**costs, "recompute": "1 ms", "stage_input": "4 B"})
    assert ppsim.simulate(run).per_rank()[0]["recompute_s"] == 0.002  # two microbatches


def test_check_prints_the_terms_and_is_still_a_config(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(CONFIG)
    shown = call("check", str(path))
    for expected in ("# layer x 4", "#   feed-forward up", "117.4 M", "what these follow from:", "FlashAttention-2"):
        assert expected in shown.stdout  # 2 x 4096 x 14336 parameters
    again = tmp_path / "again.yaml"
    again.write_text(shown.stdout)
    assert load(again).costs == load(path).costs


def test_the_schema_knows_both_kinds_of_costs() -> None:
    kinds = ppsim.Experiment.model_json_schema()["properties"]["costs"]
    assert len(kinds.get("oneOf", kinds.get("anyOf", []))) >= 2


@pytest.mark.slow
def test_a_sweep_varies_how_a_model_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(CONFIG + "sweep:\n  grid: {costs.tensor_parallel: [1, 2, 4]}\n")
    call("sweep", str(path), "--out", str(tmp_path / "out"))
    table = (tmp_path / "out" / "results.csv").read_text().splitlines()
    steps = [float(row["step_time_s"]) for row in csv.DictReader(table)]
    assert len(set(steps)) == 3 and max(steps) > 3 * min(steps)  # on four devices a quarter, and what they send
