"""What limits a step: constructed causes, alone and in pairs, each figure held against a run of the mended experiment."""

from __future__ import annotations

from typing import Any

import pytest

import ppsim
from ppsim.analysis.limit import limits, lines
from tests.simulated import between_nodes, simulate

Settings = dict[str, Any]
Named = tuple[str, str, Settings]
"""A cause, words of its line, and the settings that make it go."""

PAIR_0_1 = {**between_nodes(bandwidth="50 GB/s"), "links": [{"ranks": [0, 1], "bandwidth": "300 MB/s"}]}
FREED_0_1 = {**PAIR_0_1, "links": [{"ranks": [0, 1], "like": "free"}]}
BLOCKING = {"costs": {"message": "1 MB"}, "cluster": between_nodes(bandwidth="2 GB/s"), "runtime": {"send": "blocking"}}
THIRDS = ("forward", "input_grad", "weight_grad")
ZERO_BUBBLE = {"costs": {**dict.fromkeys(THIRDS, "1 ms"), "activation": "1 GiB"}}

# p = 4, m = 32, F = 1 ms, B = 2 ms per stage unless said otherwise: 35·3 = 105 ms by the closed form.
ALONE: list[tuple[str, Settings, Named]] = [
    # Work 3, 3, 3 and 1.12·3: the mean is 3.09, rank 3 is 3.36 / 3.09 - 1 = 8.7 % above it.
    (
        "a head", {"costs": {"forward": [*["1 ms"] * 3, "1.12 ms"], "backward": [*["2 ms"] * 3, "2.24 ms"]}},
        ("work", "rank 3 has 9 % more work than the mean (head?)",
         {"costs": {"forward": "1.03 ms", "backward": "2.06 ms"}}),
    ),
    # Mean (4·3 + 1.5) / 4 = 3.375: rank 0's 4.5 is 33 % above it; balanced, every stage has 1.125 + 2.25.
    (
        "an embedding", {"costs": {"forward": ["1.5 ms", *["1 ms"] * 3], "backward": ["3 ms", *["2 ms"] * 3]}},
        ("work", "rank 0 has 33 % more work than the mean (embedding?)",
         {"costs": {"forward": "1.125 ms", "backward": "2.25 ms"}}),
    ),
    (
        "a heavy stage in the middle", {"costs": {"forward": ["1 ms", "2 ms", "1 ms", "1 ms"], "backward": ["2 ms", "4 ms", "2 ms", "2 ms"]}},
        ("work", "rank 1 has 60 % more work than the mean", {"costs": {"forward": "1.25 ms", "backward": "2.5 ms"}}),
    ),
    ("a straggler", {"cluster": {"speed": [1, 1, 0.8, 1]}}, ("straggler", "the straggler rank 2 takes 1.25 times", {"cluster": {"speed": 1}})),
    ("stragglers that differ", {"cluster": {"speed": [0.5, 1, 1, 0.9]}}, ("straggler", "the stragglers, ranks 0, 3, take up to 2 times as long", {"cluster": {"speed": 1}})),
    ("two stragglers", {"cluster": {"speed": [1, 0.5, 1, 0.5]}}, ("straggler", "stragglers, ranks 1, 3", {"cluster": {"speed": 1}})),
    (
        "slow links", {"costs": {"message": "1 MB"}, "cluster": between_nodes(bandwidth="500 MB/s")},
        ("messages", "take 2 ms, as 0→1, longer than the forward (1 ms) that they should hide behind", {"cluster": None}),
    ),
    (
        "one slow link", {"costs": {"message": "1 MB"}, "cluster": PAIR_0_1},
        ("messages", "messages 0→1 take 3.333 ms, longer than the forward", {"cluster": FREED_0_1}),
    ),
    ("a long latency", {"cluster": between_nodes(latency="300 us")}, ("messages", "take 300 us", {"cluster": None})),
    (
        "the link between nodes", {"costs": {"message": "1 MB"}, "cluster": {"ranks_per_node": 2, "intra_node": {"bandwidth": "100 GB/s"}, "inter_node": {"bandwidth": "400 MB/s"}}},
        ("messages", "messages 1→2 take 2.5 ms", {"cluster": {"ranks_per_node": 2, "intra_node": {"bandwidth": "100 GB/s"}, "inter_node": "free"}}),
    ),
    (
        "a shared NIC, whose messages queue",  # every hop leaves its node by the one NIC
        {"costs": {"message": "1 MB"}, "cluster": {"ranks_per_node": 2, "ranks_per_nic": 2, "placement": [0, 2, 1, 3], "intra_node": "free", "inter_node": {"bandwidth": "800 MB/s"}}},
        ("queue", "NICs that 2 ranks share", {"cluster": {"ranks_per_node": 2, "placement": [0, 2, 1, 3], "intra_node": "free", "inter_node": {"bandwidth": "800 MB/s"}}}),
    ),
    ("blocking sends", BLOCKING, ("sending", "runtime.send: blocking", {"runtime": {"send": "overlapped"}})),
    (
        "batched sends", {"costs": {"message": "1 MB"}, "cluster": between_nodes(bandwidth="1 GB/s"), "runtime": {"p2p": "fused"}},
        ("sending", "runtime.p2p: fused", {"runtime": {"p2p": "separate"}}),
    ),
    ("recomputation", {"pipeline": {"recompute": "full"}}, ("recomputation", "recomputation is 25 % of all work", {"pipeline": {"recompute": "none"}})),
    ("the optimizer", {"costs": {"optimizer": "5 ms"}}, ("optimizer", "the optimizer takes 5 ms", {"costs": {"optimizer": "0 ms"}})),
    ("op overhead", {"runtime": {"op_overhead": "0.2 ms"}}, ("overhead", "every op takes 200 us more", {"runtime": {"op_overhead": "0 ms"}})),
    (
        "gradient sync", {"pipeline": {"data_parallel": 4}, "costs": {"gradients": "10 MB"}, "cluster": {**between_nodes(bandwidth="1 GB/s")}},
        ("sync", "gradients are summed", {"costs": {"gradients": "0 B"}, "pipeline": {"data_parallel": 1}}),
    ),
    (
        "microbatches of unequal length", {"pipeline": {"microbatch_weights": [1] * 31 + [9]}},
        ("microbatches differ", "from 0.8 to 7.2 of the mean", {"costs": {"forward": "1.25 ms", "backward": "2.5 ms"}, "pipeline": {"microbatch_weights": None}}),
    ),
    ("ranks that take turns", {"schedule": "naive"}, ("order", "the order (naive) leaves ranks idle", {"schedule": "1f1b"})),
    # Three ops of 1 ms per microbatch within two activations: a rank's third forward waits for its first W.
    (
        "a memory limit", {**ZERO_BUBBLE, "schedule": {"name": "greedy", "memory_limit": "2 GiB"}},
        ("memory limit", "the order (greedy) keeps within schedule.memory_limit (2 GiB)", {"schedule": {"name": "greedy", "memory_limit": None, "max_in_flight": 32}}),
    ),
    (
        "a small device", {**ZERO_BUBBLE, "schedule": "zb", "cluster": {"device": {"memory": "2 GiB"}}},
        ("memory limit", "the order (zb) keeps within the device's memory (2 GiB)", {"schedule": {"name": "zb", "max_in_flight": 32}}),
    ),
    # An order that was made for a heavy head: with equal stages another one is best.
    (
        "a head, in an order by costs", {"schedule": "greedy", "costs": {key: [*["1 ms"] * 3, "1.4 ms"] for key in THIRDS}},
        ("work", "rank 3 has 27 % more work than the mean (head?)", {"costs": dict.fromkeys(THIRDS, "1.1 ms")}),
    ),
    ("stages that wait for whole batches", {"schedule": "gpipe", "pipeline": {"batch_sync": "all"}}, ("batch sync", "pipeline.batch_sync", {"pipeline": {"batch_sync": []}})),
]  # fmt: skip


def _merged(*parts: Settings) -> Settings:
    out: Settings = {}
    for part in parts:
        for key, value in part.items():
            if isinstance(value, dict) and isinstance(out.get(key), dict) and key != "cluster":
                out[key] = {**out[key], **value}
            else:
                out[key] = value
    return {key: value for key, value in out.items() if value is not None}


def _run(settings: Settings, microbatches: int = 32) -> ppsim.Result:
    sections = {key: value for key, value in settings.items() if key != "schedule"}
    return simulate(settings.get("schedule", "1f1b"), 4, microbatches, **sections)


@pytest.mark.parametrize(("settings", "named"), [case[1:] for case in ALONE], ids=[case[0] for case in ALONE])
def test_a_cause_alone_is_named_with_the_step_without_it(settings: Settings, named: Named) -> None:
    cause, words, mended = named
    found = {limit.cause: limit for limit in limits(_run(settings))}
    assert cause in found, found
    assert words in found[cause].text
    assert found[cause].without == _run(_merged(settings, mended)).timeline.makespan


@pytest.mark.parametrize(
    "name", ["a head", "a straggler", "slow links", "one slow link", "recomputation", "ranks that take turns"]
)
def test_the_one_cause_comes_first(name: str) -> None:
    """m = 32 = 8p: few microbatches aren't the answer where anything else is wrong."""
    settings, (cause, _, _) = next(case[1:] for case in ALONE if case[0] == name)
    assert limits(_run(settings))[0].cause == cause


def test_too_few_microbatches() -> None:
    """1F1B p = 4, m = 4: (4 + 3)·3 = 21 ms; with 8 it is 33 ms for twice the work."""
    (only,) = limits(_run({}, microbatches=4))
    assert (only.cause, only.without) == ("microbatches", 16_500_000)
    assert only.text == "too few microbatches (4 for 4 ranks); with 8 the same work would take 16.5 ms"


def test_a_memory_limit_is_not_blamed_on_the_order() -> None:
    """1F1B would be faster, but holds four activations where two are allowed."""
    limit = {**ZERO_BUBBLE, "schedule": {"name": "zb", "memory_limit": "2 GiB"}}
    assert "order" not in [found.cause for found in limits(_run(limit))]


def test_another_order_is_named_with_what_it_holds() -> None:
    """Ranks that take turns hold one microbatch, 1F1B's first rank four."""
    assert "by 1f1b (with 4 microbatches in flight instead of 1) it would be" in lines(_run({"schedule": "naive"}))[0]


def test_more_microbatches_have_batches_of_their_own() -> None:
    """With m = 2 rank 0 warms up with two forwards, with 4 with three: (4 + 3)·3 / 2 = 10.5 ms for the same work."""
    (only,) = limits(_run({"runtime": {"p2p": "fused"}}, microbatches=2))
    assert (only.cause, only.without) == ("microbatches", 10_500_000)


def test_links_between_stages_are_told_from_those_of_gradients() -> None:
    """Gradients go by links to other pipelines, which stay as they are."""
    settings = {
        "pipeline": {"data_parallel": 4}, "costs": {"gradients": "10 MB", "message": "1 MB"},
        "cluster": between_nodes(bandwidth="1 GB/s"),
    }  # fmt: skip
    assert any("with free links between stages it would be" in line for line in lines(_run(settings)))


PAIRS: list[tuple[str, Settings, list[str]]] = [
    # The link of 3.3 ms each way hides rank 3's 4.5 ms of work: without the link the imbalance is left.
    (
        "a slow link before a heavy rank",
        {"costs": {"message": "1 MB", "forward": [*["1 ms"] * 3, "1.5 ms"], "backward": [*["2 ms"] * 3, "3 ms"]}, "cluster": PAIR_0_1},
        ["messages", "work"],
    ),
    # Rank 2 takes 6 ms for each microbatch, rank 3 4.5: balancing wins less than the straggler, and both are named.
    (
        "a straggler before a heavy rank",
        {"costs": {"forward": [*["1 ms"] * 3, "1.5 ms"], "backward": [*["2 ms"] * 3, "3 ms"]}, "cluster": {"speed": [1, 1, 0.5, 1]}},
        ["straggler", "work"],
    ),
    # Two ranks of 6 ms for different reasons: neither's end alone wins more than what is left of the other's.
    (
        "a straggler and a heavy rank that are equally slow",
        {"costs": {"forward": [*["1 ms"] * 3, "2 ms"], "backward": [*["2 ms"] * 3, "4 ms"]}, "cluster": {"speed": [0.5, 1, 1, 1]}},
        ["straggler", "work"],
    ),
    ("recomputation and blocking sends", _merged(BLOCKING, {"pipeline": {"recompute": "full"}}), ["recomputation", "sending"]),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "causes"), [case[1:] for case in PAIRS], ids=[case[0] for case in PAIRS])
def test_pairs_of_causes_are_both_named(settings: Settings, causes: list[str]) -> None:
    found = [limit.cause for limit in limits(_run(settings))]
    assert len(found) <= 3
    assert set(causes) <= set(found), found


def test_figures_fall_in_the_order_of_what_they_win() -> None:
    settings = _merged(BLOCKING, {"pipeline": {"recompute": "full"}, "costs": {"optimizer": "8 ms"}})
    alone = [limit.without for limit in limits(_run(settings)) if not limit.text.startswith("behind that")]
    assert alone == sorted(alone)


def test_nothing_to_name() -> None:
    """One rank is never idle, and nothing is between it and its work."""
    assert limits(simulate("1f1b", 1, 8)) == ()
    assert lines(simulate("1f1b", 1, 8)) == ["nothing is idle"]


def test_a_heavy_rank_of_eight_is_the_answer_not_the_sends_it_blocks() -> None:
    """The last of 8 ranks has 12 % more work and sends block: ranks wait for it, whatever they wait for at the moment."""
    result = simulate(
        "1f1b", 8, 64,
        costs={"forward": [*["10 ms"] * 7, "11.2 ms"], "backward": [*["20 ms"] * 7, "22.4 ms"], "message": "16 MB"},
        cluster={"ranks_per_node": 8, "intra_node": {"bandwidth": "100 GB/s"}}, runtime={"send": "blocking"},
    )  # fmt: skip
    assert "rank 7 has 10 % more work than the mean (head?); balanced it would be" in lines(result)[0]


def test_gradient_sync_is_not_blamed_on_the_links_between_stages() -> None:
    """Messages of a byte hide; 10 MB of gradients of four pipelines at 1 GB/s take 2·3/4·10 = 15 ms behind the last op."""
    result = _run(
        {
            "pipeline": {"data_parallel": 4},
            "costs": {"gradients": "10 MB", "message": "1 B"},
            "cluster": between_nodes(bandwidth="1 GB/s"),
        }
    )
    assert [limit.cause for limit in limits(result)] == ["sync"]
    assert result.timeline.makespan - limits(result)[0].without == pytest.approx(15e6, rel=1e-3)
