"""Questions that people asked in public, with their right answers; numbers and units are ours, 1 u = 1 ms.

f and b are per rank (``per: rank``): with v chunks a stage takes f/v and b/v.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ppsim
from tests.simulated import between_nodes, ms, simulate


def ask(schedule: Any, p: int, m: int, f: str = "1 ms", b: str = "2 ms", **sections: Any) -> ppsim.Result:
    costs = {"per": "rank", "forward": f, "backward": b, **sections.pop("costs", {})}
    return simulate(schedule, p, m, costs=costs, **sections)


def interleaved(v: int, **settings: Any) -> dict[str, Any]:
    return {"name": "interleaved_1f1b", "virtual_stages": v, **settings}


def in_flight(result: ppsim.Result) -> list[int]:
    return [row["peak_in_flight"] for row in result.summary["per_rank"]]


def codes(result: ppsim.Result) -> set[str]:
    return {warning["code"] for warning in result.summary["warnings"]}


LATENCY = {"cluster": between_nodes(latency="100 us")}

ANSWERS: list[tuple[str, Callable[[], Any], Any]] = [
    # D01, algolocal#95 claimed 71 steps for 1F1B: no schedule with an unsplit backward beats (p-1)f + m(f+b) + (p-1)b = 78.
    ("D01 1F1B is as long as GPipe", lambda: [ms(ask(s, 8, 32, b="1 ms")) for s in ("gpipe", "1f1b")], [78, 78]),
    ("D01 bubble", lambda: ask("1f1b", 8, 32, b="1 ms").summary["bubble_ratio"], pytest.approx(0.17949, abs=5e-6)),
    ("D01 memory", lambda: [in_flight(ask(s, 8, 32, b="1 ms"))[0] for s in ("gpipe", "1f1b")], [32, 8]),
    # D02, DualPipe#15 and marin#6532 use the two definitions: (p-1)/(m+p-1) = 3/11 and (p-1)/m = 3/8.
    ("D02 makespan (m+p-1)(f+b)", lambda: ms(ask("1f1b", 4, 8)), 33),
    ("D02 bubble_ratio", lambda: ask("1f1b", 4, 8).summary["bubble_ratio"], pytest.approx(3 / 11)),
    ("D02 bubble_overhead", lambda: ask("1f1b", 4, 8).summary["bubble_overhead"], pytest.approx(3 / 8)),
    # D03, DeepSpeed#4477: min(m, p-r) activations; GPU 0 needs most, which is no bug.
    ("D03 first stage's memory", lambda: in_flight(ask("1f1b", 8, 32)), [8, 7, 6, 5, 4, 3, 2, 1]),
    # D04, torchtitan#775: m < p is legal; (m+p-1)(f+b) = 33, bubble 7/11.
    ("D04 m < p", lambda: [ms(ask(s, 8, 4)) for s in ("gpipe", "1f1b")], [33, 33]),
    ("D04 bubble", lambda: ask("1f1b", 8, 4).summary["bubble_ratio"], pytest.approx(7 / 11)),
    ("D04 memory", lambda: in_flight(ask("1f1b", 8, 4)), [4, 4, 4, 4, 4, 3, 2, 1]),
    ("D04 warning", lambda: "few_microbatches" in codes(ask("1f1b", 8, 4)), True),
    # D06, Megatron-LM#169: m(f+b) + (p-1)(f+b)/v = 24 + 4.5; chunks in flight 2(p-r-1) + (v-1)p + 1.
    ("D06 interleaved", lambda: ms(ask(interleaved(2), 4, 8)), 28.5),
    ("D06 bubble (p-1)/(vm+p-1)", lambda: ask(interleaved(2), 4, 8).summary["bubble_ratio"], pytest.approx(3 / 19)),
    ("D06 memory in chunks", lambda: in_flight(ask(interleaved(2), 4, 8)), [11, 9, 7, 5]),
    # D08, pytorch#129597: m(f+b) + (p-1)(f+b)/v holds where every group, the last included, has at least p microbatches.
    (
        "D08 m no multiple of the group",
        lambda: [ms(ask(interleaved(2, group=g), 4, m)) for m, g in ((10, 4), (10, 5), (9, 4), (9, 5), (12, 4))],
        [39.5, 34.5, 37.0, 31.5, 40.5],
    ),
    # D10, Megatron-LM#466: 1F1B pays 2c(p-1)/p per microbatch, (67)(3) + 2(0.1)(48+2) = 211; GPipe 201 + 2(3)(0.1).
    (
        "D10 1F1B exposes latency",
        lambda: [ms(ask(s, 4, 64, **LATENCY)) for s in ("gpipe", "1f1b", "eager_1f1b")],
        [201.6, 211.0, 201.6],
    ),
    ("D10 without latency", lambda: ms(ask("1f1b", 4, 64)), 201),
    ("D10 memory", lambda: [in_flight(ask(s, 4, 64, **LATENCY))[0] for s in ("1f1b", "eager_1f1b")], [4, 7]),
    # D14, zero-bubble#10: with f = 1 and b = 2, p-1 + m·3 = 199 is the bound of one step, so at most 213/199.
    ("D14 1F1B", lambda: ms(ask("1f1b", 8, 64)), 213),
    ("D14 max_speedup", lambda: ask("1f1b", 8, 64).summary["max_speedup"], pytest.approx(1.0704, abs=5e-5)),
    # D16, zero-bubble#24: bubble 3/67; over many steps at best 15.15 s · 64/67 = 14.47 s.
    ("D16 bubble", lambda: ask("1f1b", 4, 64).summary["bubble_ratio"], pytest.approx(0.044776, abs=5e-7)),
    (
        "D16 max_speedup_stream",
        lambda: ask("1f1b", 4, 64).summary["max_speedup_stream"],
        pytest.approx(1.0469, abs=5e-5),
    ),
    (
        "D16 best possible step",
        lambda: 15.15 / ask("1f1b", 4, 64).summary["max_speedup_stream"],
        pytest.approx(14.47, abs=5e-3),
    ),
    # D28, unsloth#10280: ideal efficiency m/(m+1); the gain from m = 4 to 64 is 0.9846/0.8.
    (
        "D28 efficiency at p = 2",
        lambda: [1 - ask("1f1b", 2, m).summary["bubble_ratio"] for m in (4, 8, 16, 32, 64)],
        pytest.approx([0.8, 8 / 9, 16 / 17, 32 / 33, 64 / 65]),
    ),
    # D30, LLMKube#1423: 32 tokens · 12288 · 2 B = 786,432 B at 109 Gbit/s = 13.625 GB/s take 57.72 us.
    (
        "D30 Gbit, not GByte",
        lambda: (
            lambda r: (int(r.transfers["bytes"][0]), round((r.transfers.left_s - r.transfers.start_s)[0] * 1e6, 2))
        )(
            ask(
                "1f1b",
                2,
                1,
                costs={"message": {"sequence": 32, "hidden": 12288, "dtype": "bf16"}},
                cluster=between_nodes(bandwidth="109 Gbit/s"),
            )
        ),
        (786432, 57.72),
    ),
]


@pytest.mark.parametrize(("name", "question", "answer"), ANSWERS, ids=[name for name, _, _ in ANSWERS])
def test_public_question(name: str, question: Callable[[], Any], answer: Any) -> None:
    assert question() == answer


def test_d29_latency_is_flight_and_does_not_hold_the_link() -> None:
    """Three messages of 10 MB (10 ms at 1 GB/s) ready together arrive 100 ms after they have left: 110, 120, 130 ms."""
    link = {"bandwidth": "1 GB/s", "latency": "100 ms"}
    result = simulate(
        "gpipe", 2, 3,
        costs={"forward": "0 s", "backward": "0 s", "message": "10 MB"},
        cluster=between_nodes(**link),
    )  # fmt: skip
    forward = result.transfers[result.transfers.src == 0]
    assert (forward.arrive_s * 1e3).round(6).tolist() == [110, 120, 130]


def test_d29_messages_of_no_size_all_arrive_after_the_latency() -> None:
    result = simulate(
        "gpipe", 2, 3,
        costs={"forward": "0 s", "backward": "0 s", "message": "0 B"},
        cluster=between_nodes(bandwidth="1 GB/s", latency="100 ms"),
    )  # fmt: skip
    forward = result.transfers[result.transfers.src == 0]
    assert (forward.arrive_s * 1e3).round(6).tolist() == [100, 100, 100]
