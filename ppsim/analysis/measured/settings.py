"""A calibrated experiment: a measured run's constants as settings of a config, with a comment on each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ppsim.analysis.measured.lanes import Lanes
from ppsim.analysis.measured.order import Order
from ppsim.analysis.measured.replay import Hops, Replay
from ppsim.analysis.measured.values import Value, Values, stragglers, value
from ppsim.ops import Kind
from ppsim.units import show

Place = tuple[str | int, ...]
_KEYS = {Kind.F: "forward", Kind.B: "backward", Kind.I: "input_grad", Kind.W: "weight_grad", Kind.R: "recompute"}
_ALIKE = 0.25
"""Links whose times differ by less are one link."""


class Known(NamedTuple):
    """What a launch file or the user tells beside the trace."""

    message_bytes: int | None = None
    layers: int | None = None
    micro_batch_size: int | None = None
    ranks: int | None = None
    source: str = ""


@dataclass
class Calibrated:
    """Settings as a config has them, a remark on each value, and the order where no schedule of ppsim's has it."""

    settings: dict[str, Any]
    comments: dict[Place, str] = field(default_factory=dict)


def calibrated(replay: Replay, found: Values, order: Order, replica: int, known: Known) -> Calibrated:
    """One replica's pipeline with constant times, as an experiment."""
    measured = replay.lanes.measured
    pipeline: dict[str, Any] = {"ranks": measured.ranks, "microbatches": measured.microbatches}
    out = Calibrated({"schedule": order.setting, "pipeline": pipeline})
    if known.micro_batch_size is not None:
        pipeline["micro_batch_size"] = known.micro_batch_size
        out.comments["pipeline", "micro_batch_size"] = known.source
    if measured.replicas > 1:
        pipeline["data_parallel"] = measured.replicas
        out.comments["pipeline", "data_parallel"] = (
            f"replicas in the trace; times are those of replica {replica}, the slowest"
        )
    if found.weights is not None:
        pipeline["microbatch_weights"] = list(found.weights)
        out.comments["pipeline", "microbatch_weights"] = (
            "medians over stages, steps and replicas, over the workers' own"
        )
    speed = _speed(replay.lanes, found, replica)
    out.settings["costs"] = _costs(out, (replay, found), replica, speed)
    cluster = _cluster(out, replay, known)
    if any(each != 1 for each in speed):
        cluster["speed"] = list(speed)
        out.comments["cluster", "speed"] = "of a straggler: the same stage's median in the other replicas, over its own"
    if cluster:
        out.settings["cluster"] = cluster
    if found.overhead.ns >= 1:
        out.settings["runtime"] = {"op_overhead": _time(found.overhead.ns)}
        out.comments["runtime", "op_overhead"] = f"gap before an op: {found.overhead.said()}"
    return out


def _time(ns: float) -> str:
    """To six digits, which is more than any clock is good for."""
    return show(Fraction(round(float(f"{ns:.6g}")), 10**9), "time")


def _bytes(size: float) -> str:
    """To a MB, where it is many."""
    return show(Fraction(round(size, -6) if size > 10**9 else round(size)), "size")


def _bandwidth(size: float, ns: float) -> str:
    """Bytes per ns are GB/s."""
    rate = f"{size / ns:.6g}"
    return f"{rate} GB/s" if "e" not in rate else show(Fraction(round(size * 10**9 / ns)), "bandwidth")


def _speed(lanes: Lanes, found: Values, replica: int) -> list[float]:
    """By rank, 1 or what a straggler of this replica is slower by."""
    slow = stragglers(found, lanes.measured.replicas)
    return [
        round(1 / max((slow.get((stage, replica), 1.0) for stage in held), default=1.0), 4)
        for held in lanes.measured.stages_of
    ]


def _costs(out: Calibrated, about: tuple[Replay, Values], replica: int, speed: Sequence[float]) -> dict[str, Any]:
    """Times per stage (per rank where each rank has one stage), activations and what is held throughout."""
    replay, found = about
    measured = replay.lanes.measured
    single = measured.virtual_stages == 1 and measured.stages == measured.ranks
    rank_of = {stage: rank for rank, held in enumerate(measured.stages_of) for stage in held}
    costs: dict[str, Any] = {"kind": "given", "per": "rank" if single else "stage"}
    for kind, key in _KEYS.items():
        times = found.stage_times(kind, replica)
        if len(times) < measured.stages or (kind == Kind.B and _halves(found, replica, measured.stages)):
            continue
        costs[key] = [_time(times[stage].ns * speed[rank_of[stage]]) for stage in range(measured.stages)]
        spreads = ", ".join(f"{times[stage].spread:.1%}" for stage in range(min(measured.stages, 16)))
        samples = min(times[stage].samples for stage in range(measured.stages))
        out.comments["costs", key] = f"medians of {samples:,} per stage, middle halves within ±{spreads}"
    if (overlapped := _pairs(replay, found, replica)) is not None:
        costs["overlapped"] = _time(overlapped.ns)
        out.comments["costs", "overlapped"] = f"fused pairs: {overlapped.said()}"
    if found.syncs:
        total = sum(each.ns for each in found.syncs.values())
        costs["optimizer"] = _time(total / measured.virtual_stages)
        parts = "; ".join(
            f"{name} {_time(each.ns)} ({each.said()})" for name, each in found.syncs.items() if each.ns >= 1
        )
        out.comments["costs", "optimizer"] = f"all that is outside the compute ops, without waiting: {parts}"
    if found.memory is not None:
        held = found.memory
        costs["activation"] = _bytes(held.activation)
        costs["weights"] = [
            _bytes(held.static[rank_of[s]] / len(measured.stages_of[rank_of[s]])) for s in range(measured.stages)
        ]
        costs["gradients"] = "0 B"
        out.comments["costs", "activation"] = (
            f"slope of the ranks' peaks over what each has in flight, middle half within ±{held.spread / 2:.1%}"
        )
        out.comments["costs", "weights"] = "all that is held throughout: weights, gradients, optimizer, buffers"
        out.comments["costs", "gradients"] = "in weights"
    return costs


def _halves(found: Values, replica: int, stages: int) -> bool:
    """Whether every stage's backward was seen in halves, whose sum the full one is then."""
    return all(len(found.stage_times(kind, replica)) == stages for kind in (Kind.I, Kind.W))


def _pairs(replay: Replay, found: Values, replica: int) -> Value | None:
    """The time of a fused pair, where there are any and it isn't the sum of its two ops'."""
    lanes = replay.lanes
    second = np.flatnonzero(lanes.seconds)
    if not len(second):
        return None
    pairs = value(lanes.duration[second, replica].astype(float).ravel())
    halves = _halves(found, replica, lanes.measured.stages)

    def alone(op: int) -> float:
        kind = Kind(int(lanes.kind[op]))
        parts = (Kind.I, Kind.W) if kind == Kind.B and halves else (kind,)
        return sum(found.compute[replica, int(lanes.stage[op]), part].ns for part in parts)

    apart = [alone(node) + alone(int(lanes.partner[node])) for node in second.tolist()]
    return None if abs(pairs.ns - float(np.median(apart))) <= 1 else pairs


def _cluster(out: Calibrated, replay: Replay, known: Known) -> dict[str, Any]:
    """The links between ranks: a time of flight, or with known sizes a bandwidth too; and the message."""
    hops = replay.hops
    if not hops.measured:
        return {}
    size = _message(out, hops, known)
    pairs = {(min(a, b), max(a, b)) for a, b in zip(hops.src.tolist(), hops.dst.tolist(), strict=True)}
    fits = {pair: _link(replay, pair, size) for pair in sorted(pairs)}
    times = np.array([each.ns for _, each in fits.values()])
    near = np.abs(times[:, None] - times) <= _ALIKE * times
    middle = list(fits)[int(np.argmax(near.sum(axis=0)))]
    typical = fits[middle][1].ns
    cluster: dict[str, Any] = {"ranks_per_node": replay.lanes.measured.ranks, "intra_node": fits[middle][0]}
    out.comments["cluster", "ranks_per_node"] = "where nodes end isn't in a trace: each pair of ranks has its own link"
    odd = {pair: each for pair, each in fits.items() if abs(each[1].ns - typical) > _ALIKE * typical}
    alike = [each for pair, (_, each) in fits.items() if pair not in odd]
    what = f"{len(alike)} links alike; of the typical one {fits[middle][1].said()}"
    out.comments["cluster", "intra_node", next(iter(fits[middle][0]))] = f"{what}{_apart(replay, size)}"
    if odd:
        cluster["links"] = [{"ranks": list(pair), **link} for pair, (link, _) in odd.items()]
        for i, (_, each) in enumerate(odd.values()):
            out.comments["cluster", "links", i, "ranks"] = each.said()
    return cluster


def _message(out: Calibrated, hops: Hops, known: Known) -> int | None:
    sizes = {*hops.bytes[hops.bytes >= 0].tolist()}
    size, why = (known.message_bytes, known.source) if known.message_bytes else (None, "")
    if sizes:
        size, why = (
            round(float(np.median(hops.bytes[hops.bytes >= 0]))),
            "as recorded" + (f", the median of {len(sizes)} sizes" if len(sizes) > 1 else ""),
        )
    if not size:
        return None
    out.settings["costs"]["message"] = _bytes(size)
    out.comments["costs", "message"] = why
    return size


def _apart(replay: Replay, size: int | None) -> str:
    if size is None:
        return "; without the messages' size it is all taken as flight"
    if replay.hops.held is not None:
        return ""
    return "; with messages of one size, latency and bandwidth can't be told apart: all of it is taken as bandwidth"


def _link(replay: Replay, pair: tuple[int, int], size: int | None) -> tuple[dict[str, str], Value]:
    """A pair's link, and the time that a message is on its way over it."""
    hops = replay.hops
    mine = (np.minimum(hops.src, hops.dst) == pair[0]) & (np.maximum(hops.src, hops.dst) == pair[1])
    way = value(hops.transit[mine].ravel())
    if size is None or way.ns < 1:
        return {"latency": _time(way.ns)}, way
    held, flight = way.ns, 0.0
    if hops.held is not None:
        held, flight = (
            value(hops.held[mine].ravel()).ns,
            value(hops.flight[mine].ravel()).ns if hops.flight is not None else 0.0,
        )
    elif (split := _regression(hops, mine)) is not None:
        held, flight = size * split[1], split[0]
    link: dict[str, str] = {}
    if held >= 1:
        link["bandwidth"] = _bandwidth(size, held)
    if flight >= 1 or not link:
        link["latency"] = _time(flight)
    return link, way


def _regression(hops: Hops, mine: np.ndarray) -> tuple[float, float] | None:
    """(α in ns, β in ns per byte) of a link with messages of several sizes; None where there is one size."""
    sizes = hops.bytes[mine].astype(float)
    if len({*sizes.tolist()}) < 2 or np.any(sizes < 0):
        return None
    times = np.nanmedian(hops.transit[mine].reshape(len(sizes), -1), axis=1)
    slope, level = np.polyfit(sizes, times, 1)
    return (max(float(level), 0.0), max(float(slope), 0.0))


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with some changed, section by section; a change of None takes a key away."""
    out = {key: dict(part) if isinstance(part, Mapping) else part for key, part in base.items()}
    for key, change in changes.items():
        old = out.get(key)
        if isinstance(change, Mapping) and isinstance(old, Mapping) and "name" not in change:
            both = {**old, **change}
            out[key] = {k: v for k, v in both.items() if v is not None}
        elif change is None:
            out.pop(key, None)
        else:
            out[key] = change
    return out
