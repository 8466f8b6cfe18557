"""The Chrome trace, read back as Perfetto reads it, says what the Timeline says."""

from __future__ import annotations

import dataclasses
import io
import json
from collections import defaultdict
from fractions import Fraction
from typing import Any

import pytest

from ppsim.analysis.result import Result
from ppsim.formats import chrome_trace
from ppsim.formats.torch_live import ExplicitOrders
from ppsim.metrics import Run, memory, waits
from ppsim.ops import MOVES
from ppsim.plan.table import CATEGORIES
from tests.simulated import simulate

SHARED_NICS = {
    "ranks_per_node": 2,
    "ranks_per_nic": 2,
    "intra_node": {"bandwidth": "4 GB/s", "latency": "333 ns"},
    "inter_node": {"bandwidth": "1 GB/s", "latency": "50 us", "overhead": "7 ns"},
}
MESSAGES = {"message": "300 kB"}
ZERO = {"forward": "0 ms", "backward": "0 ms"}
WITH_COMMS = ExplicitOrders(
    order="0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n"
)
RUNS: dict[str, Any] = {
    "free links": ("1f1b", 4, 8, {}),
    "odd times": ("1f1b", 3, 5, {"costs": {"forward": "333.333 us", "backward": "666.667 us"}}),
    "latency alone": ("gpipe", 3, 4, {"cluster": {"ranks_per_node": 1, "inter_node": {"latency": "1.5 us"}}}),
    "shared NICs": ("interleaved_1f1b", 4, 8, {"cluster": SHARED_NICS, "costs": MESSAGES}),
    "NICs of their own": (
        "1f1b", 4, 8, {"cluster": {**SHARED_NICS, "ranks_per_nic": 1}, "costs": MESSAGES},
    ),
    "steps": ("1f1b", 2, 3, {"pipeline": {"steps": 3}, "cluster": SHARED_NICS, "costs": MESSAGES}),
    "fused pairs": ("dualpipev", 3, 7, {"cluster": SHARED_NICS, "costs": MESSAGES}),
    "evictions": ("bpipe", 8, 16, {"cluster": SHARED_NICS, "costs": {**MESSAGES, "activation": "10 kB"}}),
    "messages of no bytes": (
        "bpipe", 8, 16,
        {"cluster": {**SHARED_NICS, "inter_node": {"bandwidth": "1 GB/s"}}, "costs": {"activation": "10 kB"}},
    ),
    "recompute": ("1f1b", 2, 4, {"pipeline": {"recompute": "full"}, "cluster": SHARED_NICS, "costs": MESSAGES}),
    "gradient sync": (
        "1f1b", 2, 4,
        {"pipeline": {"data_parallel": 2}, "cluster": SHARED_NICS, "costs": {**MESSAGES, "weights": "90 MB"}},
    ),
    "blocking": ("1f1b", 4, 8, {"runtime": {"send": "blocking"}, "cluster": SHARED_NICS, "costs": MESSAGES}),
    "sends and receives": (WITH_COMMS, 2, 2, {"cluster": SHARED_NICS, "costs": MESSAGES}),
    "rendezvous": ("gpipe", 4, 4, {"runtime": {"send": "rendezvous"}, "cluster": SHARED_NICS, "costs": MESSAGES}),
    "no time at all": ("1f1b", 4, 6, {"costs": ZERO}),
    "forwards of no time": ("interleaved_1f1b", 3, 6, {"costs": {"forward": "0 ms"}, "cluster": SHARED_NICS}),
    "one rank": ("1f1b", 1, 2, {}),
}  # fmt: skip


@pytest.fixture(scope="module", params=RUNS)
def result(request: pytest.FixtureRequest) -> Result:
    schedule, ranks, microbatches, sections = RUNS[request.param]
    return simulate(schedule, ranks, microbatches, **sections)


class Trace:
    """A trace, its times as ns, its spans with a start, an end, and the name of their track."""

    def __init__(self, text: str) -> None:
        self.events = json.loads(text, parse_float=Fraction)["traceEvents"]
        self.process: dict[int, str] = {}
        self.thread: dict[tuple[int, int], str] = {}
        for event in self.events:
            if event["name"] == "process_name":
                self.process[event["pid"]] = event["args"]["name"]
            elif event["name"] == "thread_name":
                self.thread[event["pid"], event["tid"]] = event["args"]["name"]
        self.timed = [event for event in self.events if event["ph"] != "M"]
        self.spans = [event for event in self.timed if event["ph"] == "X"]
        for event in self.timed:
            event["start"] = ns(event["ts"])
            event["end"] = event["start"] + ns(event.get("dur", Fraction(0)))

    def of(self, thread: str) -> list[tuple[int, str, int, int]]:
        """Process, name, start and end of the spans on the threads of that name, sorted."""
        found = (s for s in self.spans if self.thread[s["pid"], s["tid"]] == thread)
        return sorted((s["pid"], s["name"], s["start"], s["end"]) for s in found)


def ns(micros: Fraction) -> int:
    """Times are given to the nanosecond, so that this is exact."""
    value = micros * 1000
    assert value.denominator == 1
    return int(value)


def read(source: Run | Result) -> Trace:
    return Trace(chrome_trace.text(source))


def test_every_op_is_a_span_of_its_rank(result: Result) -> None:
    """An atomic pair is one span, named by its cell."""
    plan, timeline = result.plan, result.timeline
    expected: list[tuple[int, str, int, int]] = []
    for row in range(len(plan.ops)):
        if plan.tail[row]:
            rank, _, start, end = expected.pop()
            expected.append((rank, f"PP:({plan.ops[row - 1]};{plan.ops[row]})OVERLAP_F_B", start, end))
        else:
            start, end = int(timeline.start[row]), int(timeline.end[row])
            expected.append((int(plan.ops.rank[row]), f"PP:{plan.ops[row]}", start, end))
    assert read(result).of("compute") == sorted(expected)


def test_every_transfer_is_a_span_of_each_of_its_ports(result: Result) -> None:
    table, trace = result.transfers, read(result)
    for side in ("egress", "ingress"):
        for port, rows in table[table[side] != ""].groupby(side):
            times = [(round(s * 1e9), round(e * 1e9)) for s, e in zip(rows.start_s, rows.left_s, strict=True)]
            assert [(start, end) for _, _, start, end in sorted(trace.of(str(port)), key=lambda x: x[2:])] == sorted(
                times
            )


def test_events_are_sorted_and_spans_of_a_track_never_overlap(result: Result) -> None:
    trace = read(result)
    times = [event["start"] for event in trace.timed]
    assert times == sorted(times)
    free: dict[tuple[int, int], int] = defaultdict(int)
    for span in trace.spans:
        assert span["start"] >= free[span["pid"], span["tid"]], span
        free[span["pid"], span["tid"]] = span["end"]


def test_flows_lead_from_the_op_that_makes_a_message_to_the_one_that_uses_it(result: Result) -> None:
    """Read one by one, as Perfetto does: an end of a flow belongs to the span that its track began last."""
    last: dict[tuple[int, int], Any] = {}
    begun: dict[int, Any] = {}
    found = []
    for event in read(result).timed:
        track = (event["pid"], event.get("tid", 0))
        if event["ph"] == "X":
            last[track] = event
        elif event["ph"] in "sf":
            assert last[track]["start"] <= event["start"] <= last[track]["end"]
            assert event["start"] < last[track]["end"] or last[track]["start"] == last[track]["end"]
            if event["ph"] == "s":
                assert begun.setdefault(event["id"], last[track]) is last[track]
            else:
                found.append((begun.pop(event["id"])["args"]["op"], last[track]["args"]["op"]))
    assert not begun
    plan, transfers = result.plan, result.plan.transfers
    head = [row - int(plan.tail[row]) for row in range(len(plan.ops))]
    span = {row: span_name(result, row) for row in head}
    pairs = zip(transfers.producer.tolist(), transfers.consumer.tolist(), strict=True)
    assert sorted(found) == sorted((span[head[maker]], span[head[user]]) for maker, user in pairs if user >= 0)


def span_name(result: Result, row: int) -> str:
    plan = result.plan
    paired = row + 1 < len(plan.ops) and plan.tail[row + 1]
    return f"({plan.ops[row]};{plan.ops[row + 1]})OVERLAP_F_B" if paired else str(plan.ops[row])


def test_counters_are_the_memory_curves_and_return_to_their_start(result: Result) -> None:
    """The start is what is held throughout; the first op's activation is there from time 0 on."""
    curves = result.run.once(memory.curves)
    counters = [event for event in read(result).timed if event["ph"] == "C"]
    shown = [name for c, name in enumerate(CATEGORIES) if curves.bytes[:, c].any()]
    expected = sorted(
        (rank, time, [values[CATEGORIES.index(name)] for name in shown])
        for rank, time, values in zip(curves.rank.tolist(), curves.time.tolist(), curves.bytes.tolist(), strict=True)
    )
    assert sorted((e["pid"], e["start"], [e["args"][name] for name in shown]) for e in counters) == expected
    for rank in range(result.plan.ops.ranks):
        last = [event["args"] for event in counters if event["pid"] == rank][-1]
        assert last == {name: result.plan.static[CATEGORIES.index(name), rank] for name in shown}


def test_waits_are_those_of_the_metrics(result: Result) -> None:
    wait, cause, blocker = result.run.once(waits.per_op)
    expected = {
        (int(result.plan.ops.rank[row]), span_name(result, row)): (
            int(wait[row]),
            waits.CAUSES[cause[row]] if cause[row] >= 0 else None,
            str(result.plan.ops[int(blocker[row])]) if blocker[row] >= 0 else None,
        )
        for row in range(len(result.plan.ops))
        if not result.plan.tail[row]
    }
    trace = read(result)
    for span in trace.spans:
        if trace.thread[span["pid"], span["tid"]] == "compute":
            args = span["args"]
            found = (ns(args["wait_us"]), args.get("wait_cause"), args.get("blocked_by"))
            assert found == expected[span["pid"], args["op"]]


def test_the_same_run_gives_the_same_bytes() -> None:
    first, second = (simulate("interleaved_1f1b", 4, 8, cluster=SHARED_NICS, costs=MESSAGES) for _ in range(2))
    text = chrome_trace.text(first)
    assert text == chrome_trace.text(second)
    assert text.isascii()


def test_a_small_trace_by_hand() -> None:
    """p = 2, m = 1, F = 1, B = 2 ms, an activation of 1 byte, free links: 0F0 0-1, 1F0 1-2, 1B0 2-4, 0B0 4-6 ms.

    A flow begins a nanosecond before its op ends.
    """
    result = simulate("1f1b", 2, 1)
    lines = chrome_trace.text(result).splitlines()
    assert lines[0] == '{"displayTimeUnit":"ms","otherData":{"by":"ppsim","name":"experiment"},"traceEvents":['
    assert lines[-1] == "]}"
    assert [line.rstrip(",") for line in lines[1:-1] if '"ph":"M"' not in line] == [
        '{"ph":"C","name":"memory_bytes","pid":0,"ts":0.000,"args":{"activations":1}}',
        '{"ph":"X","name":"PP:0F0","cat":"compute","pid":0,"tid":1,"ts":0.000,"dur":1000.000,"args":{"op":"0F0",'
        '"stage":0,"microbatch":0,"step":0,"wait_us":0.000}}',
        '{"ph":"C","name":"memory_bytes","pid":1,"ts":0.000,"args":{"activations":0}}',
        '{"ph":"s","id":0,"name":"message","cat":"message","pid":0,"tid":1,"ts":999.999}',
        '{"ph":"X","name":"PP:1F0","cat":"compute","pid":1,"tid":2,"ts":1000.000,"dur":1000.000,"args":{"op":"1F0",'
        '"stage":1,"microbatch":0,"step":0,"wait_us":1000.000,"wait_cause":"fill","blocked_by":"0F0"}}',
        '{"ph":"f","bp":"e","id":0,"name":"message","cat":"message","pid":1,"tid":2,"ts":1000.000}',
        '{"ph":"C","name":"memory_bytes","pid":1,"ts":1000.000,"args":{"activations":1}}',
        '{"ph":"X","name":"PP:1B0","cat":"compute","pid":1,"tid":2,"ts":2000.000,"dur":2000.000,"args":{"op":"1B0",'
        '"stage":1,"microbatch":0,"step":0,"wait_us":0.000}}',
        '{"ph":"s","id":1,"name":"message","cat":"message","pid":1,"tid":2,"ts":3999.999}',
        '{"ph":"X","name":"PP:0B0","cat":"compute","pid":0,"tid":1,"ts":4000.000,"dur":2000.000,"args":{"op":"0B0",'
        '"stage":0,"microbatch":0,"step":0,"wait_us":3000.000,"wait_cause":"upstream","blocked_by":"1B0"}}',
        '{"ph":"f","bp":"e","id":1,"name":"message","cat":"message","pid":0,"tid":1,"ts":4000.000}',
        '{"ph":"C","name":"memory_bytes","pid":1,"ts":4000.000,"args":{"activations":0}}',
        '{"ph":"C","name":"memory_bytes","pid":0,"ts":6000.000,"args":{"activations":0}}',
    ]


def test_processes_and_threads_are_named_and_sorted() -> None:
    """Two ranks per node share its NIC; stages s and s + 4 are on rank s. Threads are numbered from 1 on."""
    trace = read(simulate("interleaved_1f1b", 4, 4, cluster=SHARED_NICS, costs=MESSAGES))
    assert list(trace.process.items()) == [
        (0, "rank 0 (stages 0, 4)"),
        (1, "rank 1 (stages 1, 5)"),
        (2, "rank 2 (stages 2, 6)"),
        (3, "rank 3 (stages 3, 7)"),
        (4, "node 0 nic 0"),
        (5, "node 1 nic 0"),
    ]
    assert [name for (pid, _), name in trace.thread.items() if pid == 0] == [
        "compute",
        "rank 0 egress",
        "rank 0 ingress",
    ]
    assert [name for (pid, _), name in trace.thread.items() if pid == 4] == [
        "node 0 nic 0 egress",
        "node 0 nic 0 ingress",
    ]
    order = [(e["pid"], e["tid"], e["args"]["sort_index"]) for e in trace.events if e["name"] == "thread_sort_index"]
    assert [tid for _, tid, _ in order] == [index for _, _, index in order] == list(range(1, len(order) + 1))
    single = read(simulate("1f1b", 2, 2))
    assert single.process == {0: "rank 0 (stage 0)", 1: "rank 1 (stage 1)"}


def test_messages_at_ports_are_called_as_pytorch_calls_them() -> None:
    trace = read(
        simulate("1f1b", 2, 1, cluster={"ranks_per_node": 2, "intra_node": {"bandwidth": "1 GB/s"}}, costs=MESSAGES)
    )
    named = {thread: [name for _, name, _, _ in trace.of(thread)] for thread in trace.thread.values()}
    assert named["rank 0 egress"] == ["PP:0SEND_F0"]
    assert named["rank 1 ingress"] == ["PP:1RECV_F0"]
    assert named["rank 1 egress"] == ["PP:1SEND_B0"]
    assert named["rank 0 ingress"] == ["PP:0RECV_B0"]
    span = next(s for s in trace.spans if s["name"] == "PP:0SEND_F0")
    assert span["args"] == {"op": "0F0", "src": 0, "dst": 1, "bytes": 300_000, "wait_us": 0}


def test_moves_and_gradient_syncs_at_ports_are_called_what_they_are() -> None:
    """At the sender's and at the receiver's port; on its rank a move takes no time."""
    result = simulate(*RUNS["evictions"][:3], **RUNS["evictions"][3])
    moves = sorted(f"PP:{op}" for op in result.orders.table if op.kind in MOVES)
    assert moves[0].startswith("PP:0EVICT")
    at_ports = [s["name"] for s in read(result).spans if s["cat"] in ("evict", "load") and "bytes" in s["args"]]
    assert sorted(at_ports) == sorted([*moves, *moves])
    syncing = read(simulate(*RUNS["gradient sync"][:3], **RUNS["gradient sync"][3]))
    at_ports = [s for s in syncing.spans if s["cat"] == "reduce_grad" and "bytes" in s["args"]]
    assert {s["name"] for s in at_ports} == {"PP:0REDUCE_GRAD", "PP:1REDUCE_GRAD"}


def test_a_fused_pair_tells_of_both_its_ops() -> None:
    """DualPipeV, p = 3, m = 7: the first pair that rank 0 runs."""
    trace = read(simulate(*RUNS["fused pairs"][:3], **RUNS["fused pairs"][3]))
    pair = next(span for span in trace.spans if "OVERLAP" in span["name"] and span["pid"] == 0)
    first, second = pair["args"]["ops"]
    assert pair["name"] == f"PP:({first};{second})OVERLAP_F_B" == f"PP:{pair['args']['op']}"
    stage, microbatch = pair["args"]["stage"], pair["args"]["microbatch"]
    assert [first, second] == [f"{stage[0]}F{microbatch[0]}", f"{stage[1]}B{microbatch[1]}"]


def test_several_steps_are_told_apart() -> None:
    names = {span["name"]: span["args"]["step"] for span in read(simulate("1f1b", 2, 1, pipeline={"steps": 2})).spans}
    assert (names["PP:0F0"], names["PP:0F0@1"]) == (0, 1)


def test_a_run_of_which_only_times_are_known() -> None:
    """As of a measured run: no memory, and waits without a reason. By hand as above: 1F0 waits 1 ms, 0B0 1 + 2 ms."""
    whole = simulate("1f1b", 2, 1)
    trace = read(Run(whole.plan, whole.timeline))
    assert not [event for event in trace.timed if event["ph"] == "C"]
    waited = {span["args"]["op"]: span["args"] for span in trace.spans}
    assert {op: args["wait_us"] for op, args in waited.items()} == {"0F0": 0, "1F0": 1000, "1B0": 0, "0B0": 3000}
    assert not any("wait_cause" in args or "blocked_by" in args for args in waited.values())


HOSTILE = 'a"b\\c\n</script>\x1b[0m\u2028é\ud800'


def test_hostile_names_are_text() -> None:
    result = simulate(
        "1f1b", 2, 1, cluster={"ranks_per_node": 2, "intra_node": {"bandwidth": "1 GB/s"}}, costs=MESSAGES
    )
    plan = dataclasses.replace(result.plan, ports=tuple(f"{HOSTILE}{i}" for i in range(len(result.plan.ports))))
    timeline = dataclasses.replace(result.timeline, plan=plan)
    renamed = dataclasses.replace(
        result,
        run=dataclasses.replace(result.run, plan=plan, timeline=timeline, _made={}),
        experiment=result.experiment.model_copy(update={"name": HOSTILE}),
    )
    text = chrome_trace.text(renamed)
    assert json.loads(text)["otherData"]["name"] == HOSTILE
    assert {name for name in Trace(text).thread.values() if name != "compute"} == {*plan.ports}
    assert text.isascii()


def test_events_are_written_so_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream never gets more than that, so that a large trace is never one string; the text is the same.

    An event has two braces: its own and that of its ``args``; a write may have the one before its first.
    """

    class Stream(io.StringIO):
        longest = 0

        def write(self, text: str, /) -> int:
            self.longest = max(self.longest, text.count("{"))
            return super().write(text)

    result, stream = simulate("1f1b", 4, 16), Stream()
    whole = chrome_trace.text(result)
    monkeypatch.setattr(chrome_trace, "AT_ONCE", 3)
    chrome_trace.write(result, stream)
    assert stream.longest <= 2 * 3
    assert stream.getvalue() == whole
    assert whole.count('"ph":"X"') == 4 * 16 * 2
