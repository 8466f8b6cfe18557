"""The shipped configs of PipeDream, BPipe and recomputation show what their first lines say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ppsim
from ppsim.display.headline import headline
from tests.simulated import ms

CONFIGS = Path(__file__).parent.parent / "configs"
BPIPE = tuple(f"seed-bpipe-{which}" for which in ("nvlink", "infiniband", "ethernet", "neighbours", "16-stages"))
VGG = ("vgg16-model-parallel", "vgg16-data-parallel", "vgg16-pipeline-parallel", "vgg16-pipedream")


def result_of(name: str, **changes: Any) -> ppsim.Result:
    changes = {key.replace("__", "."): value for key, value in changes.items()}
    return ppsim.simulate(ppsim.load(CONFIGS / f"{name}.yaml", changes), engine="simpy")


def per_rank(result: ppsim.Result, key: str) -> list[Any]:
    return [row[key] for row in result.summary["per_rank"]]


@pytest.mark.parametrize("name", [*BPIPE, *VGG, "seed-gpipe-recompute", "seed-pipedream"])
def test_a_config_says_what_it_shows(name: str) -> None:
    assert (CONFIGS / f"{name}.yaml").read_text(encoding="utf-8").startswith("# ")


def test_gpipe_with_recomputation() -> None:
    """The last stage works until 7 + 4·(1+2) = 19, its last gradient goes up three ranks, 2 ms each: 25, not 21.

    A rank keeps 3 inputs of 10 MB and one activation of 100 MB, instead of 400 MB.
    """
    again, plain = result_of("seed-gpipe-recompute"), result_of("seed-gpipe-recompute", pipeline__recompute="none")
    assert (ms(again), ms(plain)) == (25, 21)
    assert [row["activations"] for row in per_rank(again, "peak_by_category")] == [130_000_000] * 4
    assert [row["activations"] for row in per_rank(plain, "peak_by_category")] == [400_000_000] * 4
    assert again.summary["per_rank"][0]["recompute_s"] == 0.004


def test_pipedream_drawing() -> None:
    result = result_of("seed-pipedream")
    assert ms(result) == 3 * (20 + 3)
    assert result.summary["period_s"] == 0.003
    assert result.summary["steady_bubble_ratio"] == 0
    assert per_rank(result, "weight_versions") == [4, 3, 2, 1]
    assert per_rank(result, "staleness") == [3, 2, 1, 0]
    assert dict(headline(result)) | {
        "stream": "69 ms for 20 minibatches",
        "steady state": "3 ms a minibatch, 0.0 % idle",
        "versions": "of the weights: 4, 3, 2, 1",
    } == dict(headline(result))
    # All but the current version are stashed, 200 MB each.
    assert [row["stash"] for row in per_rank(result, "peak_by_category")] == [600_000_000, 400_000_000, 200_000_000, 0]


def test_bpipe_over_the_two_link_structures() -> None:
    """1F1B needs 60 + 4·5.5 = 82 GB on stage 0 and doesn't fit; BPipe 76.5 GB and its messages.

    Over NVLink a move of 5.5 GB takes 18.3 ms, hidden behind F and B. Over InfiniBand (25 GB/s) 220 ms, over Ethernet
    (1.25 GB/s) 4.4 s: a swap's two moves are waited for, with 57 ms to hide in.
    """
    fast, infiniband, ethernet = (result_of(name) for name in BPIPE[:3])
    plain = result_of(BPIPE[0], schedule="1f1b")
    assert not plain.summary["fits"]
    assert all(result.summary["fits"] for result in (fast, infiniband, ethernet))
    assert ms(fast) <= ms(plain)
    assert ms(infiniband) > 3 * ms(fast)
    assert ms(ethernet) > 50 * ms(fast)
    # What the moves cost, and where: rank 0 waits for its loads.
    assert [row["memory"] for row in per_rank(fast, "waits_s")] == [0] * 4
    assert infiniband.summary["per_rank"][0]["waits_s"]["memory"] > 1


def test_neighbours_have_nothing_to_lend() -> None:
    result = result_of("seed-bpipe-neighbours")
    assert per_rank(result, "peak_in_flight") == [4, 3, 2, 1]
    assert not result.summary["fits"]
    assert [warning["code"] for warning in result.summary["warnings"]] == ["nothing_to_balance", "does_not_fit"]


def test_sixteen_stages_with_the_first_beside_the_last() -> None:
    """Limit ceil(18/2) = 9: at most 40 + 9·3 = 67 GB and messages; 1F1B needs 40 + 16·3 = 88 on stage 0."""
    result, plain = result_of("seed-bpipe-16-stages"), result_of("seed-bpipe-16-stages", schedule="1f1b")
    topology = result.experiment.topology()
    assert topology.near(0, 15)
    assert topology.near(1, 14)
    assert max(per_rank(result, "peak_in_flight")) == 9
    assert result.summary["peak_memory_bytes"] < 67.2e9
    assert plain.summary["peak_memory_bytes"] > 88e9
    # Moves of 10 ms are hidden in the 57 ms that a swap has; messages to the next stage on the node queue behind them.
    assert ms(plain) < ms(result) < 1.03 * ms(plain)
    assert all(row["memory"] == 0 for row in per_rank(result, "waits_s"))


def test_four_ways_to_train_vgg16_on_four_machines() -> None:
    """Per minibatch: model parallelism alone is slower than one machine (168.1 ms), data parallelism is held up by its
    553 MB of gradients, a pipeline sends little, and PipeDream spreads its slow stage over two machines.
    """
    results = [result_of(name) for name in VGG]
    periods = [result.summary["period_s"] for result in results]
    assert periods == sorted(periods, reverse=True)
    assert periods[0] > 0.1681 > periods[1]
    # A round of 4 minibatches: 58.48 + 109.66 ms, 2·3/4·553.43 MB at 3.125 GB/s in buckets, and a flight of 14 us.
    share = 4 * periods[1] * 1000
    assert share == pytest.approx(58.48 + 109.66 + 2 * 3 / 4 * 553.43 / 3.125 + 0.014, abs=1e-3)
    # Communication share: what devices wait for messages and sync, of all their time.
    waits = [
        sum(row["waits_s"][cause] for row in result.summary["per_rank"] for cause in ("transfer", "queue", "sync"))
        / (4 * result.summary["makespan_s"])
        for result in results
    ]
    assert waits[1] == pytest.approx(1 - 168.14 / share, abs=1e-3)
    assert waits[3] < waits[2] < waits[1]
    assert all(result.summary["fits"] for result in results)
