"""What people feed such tools, and the answer: a table of (what, file, exact message)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import ppsim
from ppsim.errors import PpsimError
from ppsim.hardware import catalog
from ppsim.schedules import known

BASE = """\
schedule: 1f1b
pipeline: {ranks: 4, microbatches: 8}
costs: {forward: 10 ms, backward: 20 ms}
"""


def changed(old: str, new: str) -> str:
    assert old in BASE
    return BASE.replace(old, new)


def added(text: str) -> str:
    return BASE + text


TABLE: list[tuple[str, str, list[str]]] = [
    ("unknown key", changed("ranks", "rankz"), [
        "x.yaml:2:1: pipeline.ranks: missing",
        "x.yaml:2:12: pipeline.rankz: unknown key; did you mean 'ranks'?",
    ]),
    ("unknown section", added("clutser: {}\n"), ["x.yaml:4:1: clutser: unknown key; did you mean 'cluster'?"]),
    ("key of a schedule", changed("1f1b", "{name: 1f1b, warmpu: 3}"), [
        "x.yaml:1:24: schedule.warmpu: unknown key; did you mean 'warmup'?",
    ]),
    ("several mistakes at once", "schedule: 1f1b\npipeline: {ranks: 0, microbatches: x}\ncosts: {forward: 10}\n", [
        "x.yaml:2:12: pipeline.ranks: 0 is too small; at least 1",
        "x.yaml:2:22: pipeline.microbatches: 'x' is not a whole number",
        "x.yaml:3:9: costs.forward: 10 is a bare number; write the unit, e.g. '10 ms'",
    ]),
    ("mistakes within and between parts", added("foo: 1\n").replace("10 ms", "[1 ms, 2 ms]"), [
        "x.yaml:3:9: costs.forward: the list has 2 values, there are 4 ranks",
        "x.yaml:4:1: foo: unknown key; known: cluster, costs, name, partition, pipeline, runtime, schedule, sweep, uncertainty",
    ]),
    ("bits for bytes", changed("}\ncosts: {", "}\ncosts: {message: 3 Gb, "), [
        "x.yaml:3:9: costs.message: '3 Gb': unknown unit 'Gb'; did you mean 'Gbit' or 'GB'?",
    ]),
    ("wrong dimension", changed("10 ms", "10 GB"), [
        "x.yaml:3:9: costs.forward: '10 GB' is a size, here a time is due, e.g. '10 ms'",
    ]),
    ("negative time", changed("10 ms", "-10 ms"), [
        "x.yaml:3:9: costs.forward: '-10 ms' is negative; a time is 0 or more",
    ]),
    ("not a number", changed("10 ms", ".nan"), [
        "x.yaml:3:9: costs.forward: nan is not a finite number; a time is due, e.g. '10 ms'",
    ]),
    ("empty value", changed("10 ms", ""), [
        "x.yaml:3:9: costs.forward: an empty value, where a time is due, e.g. '10 ms'",
    ]),
    ("list for a scalar", changed("ranks: 4", "ranks: [4]"), [
        "x.yaml:2:12: pipeline.ranks: a list is not a whole number",
    ]),
    ("a text for a number", changed("ranks: 4", "ranks: '4'"), [
        "x.yaml:2:12: pipeline.ranks: '4' is not a whole number, but text; write 4",
    ]),
    ("underscores in a number", changed("ranks: 4", "ranks: 1_000"), [
        "x.yaml:2:12: pipeline.ranks: '1_000' is not a whole number, but text; write 1000",
    ]),
    ("a part of a rank", changed("ranks: 4", "ranks: 4.5"), [
        "x.yaml:2:12: pipeline.ranks: 4.5 is not a whole number; 4 and 5 are",
    ]),
    ("truth value for a number", changed("ranks: 4", "ranks: true"), [
        "x.yaml:2:12: pipeline.ranks: true is not a whole number",
    ]),
    ("duplicate key", added("costs: {}\n"), ["x.yaml:4:1: duplicate key 'costs'; line 3 has it, too"]),
    ("backward forgotten", changed(", backward: 20 ms", ""), [
        "x.yaml:3:1: costs.backward: missing; write 'backward: 20 ms', or its halves input_grad: and weight_grad:",
    ]),
    ("half a backward", changed("backward: 20 ms", "input_grad: 20 ms"), [
        "x.yaml:3:1: costs.weight_grad: 'input_grad' is given, so 'weight_grad' is needed, too",
    ]),
    ("backward against its halves", changed("20 ms", "20 ms, input_grad: 10 ms, weight_grad: 5 ms"), [
        "x.yaml:3:25: costs.backward: 20 ms is not input_grad + weight_grad = 15 ms; leave 'backward' out, it is their sum",
    ]),
    ("list with per: model", changed("10 ms", "[1 ms, 2 ms, 3 ms, 4 ms], per: model"), [
        "x.yaml:3:9: costs.forward: a list can't be shared out with per: model; use 'per: stage' with 4 values",
    ]),
    ("group larger than m", changed("1f1b", "{name: interleaved_1f1b, group: 9}"), [
        "x.yaml:1:36: schedule.group: 9 is more than the 8 microbatches; at most 8",
    ]),
    ("missing link class", added("cluster: {ranks_per_node: 2, intra_node: nvlink3}\n"), [
        "x.yaml:4:1: cluster.inter_node: missing: 4 ranks at 2 per node are on 2 nodes; name the link between nodes, or "
        "write 'free'",
    ]),
    ("zero bandwidth", added("cluster: {intra_node: {bandwidth: 0 GB/s}}\n"), [
        "x.yaml:4:24: cluster.intra_node.bandwidth: zero bandwidth carries nothing; write 'free' for a link without cost",
    ]),
    ("override of an unknown rank", added("cluster: {intra_node: nvlink3, links: [{ranks: [3, 4]}]}\n"), [
        "x.yaml:4:41: cluster.links.0.ranks: rank 4 is unknown; the ranks are 0 to 3",
    ]),
    ("only a pair's link", added("cluster: {links: [{ranks: [2, 3], like: ib-hdr}]}\n"), [
        "x.yaml:4:1: cluster.intra_node: missing: ranks share a node (4 per node); name their link, or write 'free'",
    ]),
    ("no link in others' words", added("cluster: {intra_node: none}\n"), [
        "x.yaml:4:11: cluster.intra_node: unknown link 'none'; did you mean 'free', a link without cost?",
    ]),
    ("a setting of other schedules", changed("1f1b", "{name: 1f1b, virtual_stages: 2}"), [
        "x.yaml:1:24: schedule.virtual_stages: unknown key; known: name, warmup; greedy, interleaved_1f1b, interleaved_zb, "
        "looped_bfs have it",
    ]),
    ("sizes that DualPipe can't have, with those nearest", changed("1f1b", "dualpipe").replace("ranks: 4", "ranks: 5"), [
        "x.yaml:2:12: pipeline.ranks: dualpipe needs an even number of ranks; 5 is odd, 6 would do",
        "x.yaml:2:22: pipeline.microbatches: dualpipe needs 2 · 6 = 12 microbatches or more; 8 is too few, 12 would do",
    ]),
    ("a sweep's values", added("sweep: {grid: {schedule: [gpipe, gpip], pipeline.ranks: [2, x]}}\n"), [
        "x.yaml:4:34: sweep.grid.schedule.1: unknown schedule 'gpip'; did you mean 'gpipe'? known: "
        + ", ".join(sorted(known())),
        "x.yaml:4:61: sweep.grid.pipeline.ranks.1: 'x' is not a whole number",
    ]),
    ("override by an unknown link", added("cluster: {links: [{ranks: [2, 3], like: nvlnk3}]}\n"), [
        "x.yaml:4:35: cluster.links.0.like: unknown link 'nvlnk3'; did you mean 'nvlink3'? Known: "
        + ", ".join(catalog.links()),
    ]),
    ("more stages than can be meant", changed("1f1b", "{name: interleaved_1f1b, virtual_stages: 1e9}"), [
        "x.yaml:1:1: schedule: 1,000,000,000 stages on each of 4 ranks are more than the limit of 1,000,000 stages; at "
        "most 250,000 per rank",
    ]),
    ("more waves than can be meant", changed("1f1b", "{name: hanayo, waves: 1e9}"), [
        "x.yaml:1:1: schedule: 2,000,000,000 stages on each of 4 ranks are more than the limit of 1,000,000 stages; at "
        "most 250,000 per rank",
    ]),
    ("a stage on no rank", changed("1f1b", "{name: pipedream, replicas: [0, 4]}"), [
        "x.yaml:1:29: schedule.replicas.0: stage 0 is on 0 ranks; at least 1",
    ]),
    ("a stage on too many ranks", changed("1f1b", "{name: pipedream, replicas: [1e9]}"), [
        "x.yaml:1:29: schedule.replicas: 1000000000 = 1000000000 ranks, the pipeline has 4",
    ]),
    ("name too long", added(f"name: {'a' * 200}\n"), ["x.yaml:4:1: name: a text of 200 characters; at most 100"]),
    ("override of one direction", added("cluster: {intra_node: nvlink3, links: [{src: 3, dst: 2}]}\n"), [
        "x.yaml:4:40: cluster.links.0: a pair's link holds in both directions; write 'ranks: [3, 2]'",
    ]),
    ("the same pair twice", added("cluster: {intra_node: free, links: [{ranks: [3, 2]}, {ranks: [2, 3]}]}\n"), [
        "x.yaml:4:55: cluster.links.1.ranks: the pair 2, 3 is given twice (links.0, too); it holds both ways",
    ]),
    (
        "NVLink across nodes",
        added(
            "cluster: {ranks_per_node: 2, intra_node: nvlink3, inter_node: ib-hdr, links: [{ranks: [1, 2], like: nvlink3}]}\n"
        ),
        [
            "x.yaml:4:80: cluster.links.0.ranks: ranks 1 and 2 are on different nodes, where NVLink does not reach; "
            "declare them as one domain with 'nvlink_domain', or put them on one node with 'placement'",
        ],
    ),
    ("too few devices", added("cluster: {nodes: 1, ranks_per_node: 2, intra_node: free, inter_node: free}\n"), [
        "x.yaml:4:11: cluster.nodes: 1 nodes of 2 ranks hold 2 ranks, the pipeline has 4; 2 nodes would do",
    ]),
    ("name that leaves the folder", added("name: ../up\n"), [
        "x.yaml:4:1: name: '../up' can't name a folder; letters, digits, '.', '_' and '-' can, beginning with a letter "
        "or digit",
    ]),
    ("runtime preset", added("runtime: megatorn\n"), [
        "x.yaml:4:1: runtime: unknown preset 'megatorn'; did you mean 'megatron'? known: ideal, pytorch, megatron",
    ]),
    ("escape sequences are shown", added('"\\e[31mred": 1\n'), [
        "x.yaml:4:1: \\x1b[31mred: unknown key; known: cluster, costs, name, partition, pipeline, runtime, schedule, sweep, uncertainty",
    ]),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("what", "text", "expected"), TABLE, ids=[row[0] for row in TABLE])
def test_answer(what: str, text: str, expected: list[str]) -> None:
    Path("x.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ppsim.ConfigError) as error:
        ppsim.load("x.yaml")
    assert str(error.value).splitlines() == expected


def test_names_what_there_is() -> None:
    """A misspelt schedule, device or link is answered with the nearest one and all that there are."""
    for text, near in (
        (changed("1f1b", "1f1bb"), "unknown schedule '1f1bb'; did you mean '1f1b'? known: 1f1b, "),
        (added("cluster: {device: a100-80g}\n"), "unknown device 'a100-80g'; did you mean 'a100-80gb'? Known: k80, "),
        (added("cluster: {inter_node: ib-hdrr}\n"), "unknown link 'ib-hdrr'; did you mean 'ib-hdr'? Known: ethernet-"),
    ):
        Path("x.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(ppsim.ConfigError) as error:
            ppsim.load("x.yaml")
        assert near in str(error.value)


def test_python_gets_the_same_answers() -> None:
    with pytest.raises(
        ppsim.ConfigError, match=r"^costs\.forward: 10 is a bare number; write the unit, e\.g\. '10 ms'$"
    ):
        ppsim.Experiment(
            schedule="1f1b", pipeline={"ranks": 2, "microbatches": 2}, costs={"forward": 10, "backward": "20 ms"}
        )


def test_accepted() -> None:
    """Plain exponents are numbers, 010 is ten (YAML 1.2), links may be free."""
    Path("x.yaml").write_text(
        "schedule: 1f1b\npipeline: {ranks: 010, microbatches: 1e2}\ncosts: {forward: 1e1 ms, backward: 5e-3 s}\n"
        "cluster: {ranks_per_node: 8, intra_node: free, inter_node: free}\n",
        encoding="utf-8",
    )
    found = ppsim.load("x.yaml")
    assert (found.pipeline.ranks, found.pipeline.microbatches) == (10, 100)
    assert [found.costs.forward, found.costs.backward] == [pytest.approx(0.01), pytest.approx(0.005)]


PIECES = [
    "schedule", "pipeline", "costs", "cluster", "runtime", "ranks", "1f1b", "{", "}", "[", "]", ":", ",", "&a", "*a",
    "10 ms", "-1", "0", "1e999", ".nan", "null", "\t", "\n", "  ", "'", '"', "#", "!!python/object", "[/x]", "$x_{$",
    "<script>", "\x1b[31m", "é", "interleaved_1f1b", "virtual_stages: 3", "links: [{ranks: [0, 9]}]", "speed: [1, 2]",
    "ib-hdr", "intra_node", "device", "per: model", "message: {sequence: 8, hidden: 8}", "99999999999999999999",
]  # fmt: skip


def mutated(seed: int) -> str:
    """The base with some lines cut, doubled, or strewn with pieces; the same for a seed on every machine."""
    rng = random.Random(seed)
    text = BASE + "cluster: {intra_node: nvlink3, ranks_per_node: 8}\nruntime: ideal\n"
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(text) + 1)
        upto = min(len(text), at + rng.choice([0, 0, 1, 3, 12]))
        text = text[:at] + rng.choice([*PIECES, ""]) + text[upto:]
    return text


def test_no_traceback_for_a_thousand_mutated_configs() -> None:
    """Each is either an experiment, or an error of ours in which every line names the file."""
    legal = 0
    for seed in range(1000):
        Path("x.yaml").write_text(mutated(seed), encoding="utf-8")
        try:
            ppsim.load("x.yaml")
            legal += 1
        except PpsimError as error:
            assert all(line.startswith("x.yaml:") for line in str(error).splitlines()), str(error)
    assert 0 < legal < 1000


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (BASE.replace("microbatches: 8", "microbatches: 3").replace("1f1b", "gpipe"), "pipeline.microbatches"),
        (
            added(
                "cluster: {intra_node: free, links: [{ranks: [0, 1], like: ib-hdr, bandwidth: 25 Gbit/s}]}\n"
            ).replace("20 ms", "20 ms, message: 1 MB"),
            "cluster.links.0.bandwidth",
        ),
        (added("cluster: {intra_node: nvlink3}\n"), "costs.message"),
        (added("cluster: {device: a100-80gb}\n"), "costs.activation"),
        (added("cluster: {intra_node: free, links: [{ranks: [0, 1]}]}\n"), "cluster.links.0"),
        (
            added("cluster: {intra_node: free, links: [{ranks: [0, 3], latency: 1 ms}]}\n"),  # 1F1B sends to neighbours
            "cluster.links.0",
        ),
        (changed("20 ms", "20 ms, recompute: 5 ms"), "costs.recompute"),
        (changed("20 ms", "20 ms, overlapped: 25 ms"), "costs.overlapped"),
        (changed("10 ms", "0.4 ns"), "costs.forward"),
    ],
)
def test_legal_but_costly_is_a_warning(text: str, key: str) -> None:
    """GPipe with m < p, too; a pair's link a factor 8 off the row it changes (25 GB/s); a bandwidth without messages, a
    memory without activations, a pair's link that isn't told or that nothing is sent over, a recomputation or fused pairs that aren't there, a time
    below 1 ns.
    """
    Path("x.yaml").write_text(text, encoding="utf-8")
    assert [warning["key"] for warning in ppsim.simulate(ppsim.load("x.yaml")).summary["warnings"]] == [key]


@pytest.mark.parametrize(
    ("name", "ours"),
    [("interleaved", "interleaved_1f1b"), ("VPP", "interleaved_1f1b"), ("1F1B-flush", "1f1b"), ("zb1p", "zb_h1")],
)
def test_others_names_of_schedules(name: str, ours: str) -> None:
    """Megatron's words, PipeDream-Flush's and Zero Bubble's for schedules that we call otherwise."""
    Path("x.yaml").write_text(changed("1f1b", name), encoding="utf-8")
    with pytest.raises(PpsimError, match=f"unknown schedule '{name}'; did you mean '{ours}'?"):
        ppsim.load("x.yaml")


def test_forwards_alone_need_no_backward() -> None:
    """(m + p - 1) F = 11 · 10 ms, and nothing is said of backwards; with one that learns, it is missing."""
    text = changed(", backward: 20 ms", "").replace("1f1b", "forward_only")
    Path("x.yaml").write_text(text, encoding="utf-8")
    summary = ppsim.simulate(ppsim.load("x.yaml")).summary
    assert (summary["makespan_s"], summary["warnings"]) == (pytest.approx(0.110), [])
    with pytest.raises(PpsimError, match="backward: missing"):
        ppsim.load("x.yaml", {"schedule": "1f1b"})


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        ("1f1b", "the bubble is at least 50.0%"),  # (p-1)/(m+p-1) = 3/6
        # chunks of F/2, B/2: (pv + m-1) of them, of which a rank is busy for vm: 1 - 6/10
        ("interleaved_1f1b", "the bubble is at least 40.0%"),
        ("zb_h1", "1F1B's bubble would be 50.0%"),  # W fills some of it: (p-1)(F+I) - (m-1)W of 110 ms is less
    ],
)
def test_bubble_of_few_microbatches(schedule: str, told: str) -> None:
    Path("x.yaml").write_text(changed("microbatches: 8", "microbatches: 3").replace("1f1b", schedule), encoding="utf-8")
    summary = ppsim.simulate(ppsim.load("x.yaml")).summary
    message = next(w["message"] for w in summary["warnings"] if w["code"] == "few_microbatches")
    assert told in message
    if "at least" in told:
        assert f"{summary['bubble_ratio']:.1%}" in message


def test_free_is_a_link_that_can_be_changed() -> None:
    """{like: free, latency: …} is a latency alone: the 330 ms of free links end 6 hops of 1 ms later (fill and drain)."""
    Path("x.yaml").write_text(
        BASE.replace("1f1b", "gpipe") + "cluster: {intra_node: {like: free, latency: 1 ms}}\n", encoding="utf-8"
    )
    assert ppsim.simulate(ppsim.load("x.yaml")).summary["makespan_s"] == pytest.approx(0.330 + 0.006)
