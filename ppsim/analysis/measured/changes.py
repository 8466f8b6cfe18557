"""What would pay: a measured run's experiment with one thing changed, simulated, the largest gains first.

A change that does another amount of work per step (more microbatches) is judged by the time per microbatch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ppsim.analysis.measured.settings import Known, merged
from ppsim.analysis.result import Result
from ppsim.analysis.simulate import simulate
from ppsim.config.experiment import Experiment
from ppsim.errors import PpsimError
from ppsim.ops.placement import loop
from ppsim.schedules import Schedule
from ppsim.units import parse, show

MOST = 5
_TIMES = ("forward", "backward", "input_grad", "weight_grad", "recompute")
_HELD = ("activation", "weights", "gradients", "optimizer_state")


@dataclass(frozen=True)
class Change:
    """One change: what it is, the step and the peak with it, and the settings to run it."""

    change: str
    step_s: float
    gain: float
    """The share of the time per microbatch that is saved."""
    peak_memory_bytes: int | None
    slug: str
    """A word for the name of a file."""
    settings: dict[str, Any]
    note: str = ""

    def row(self) -> dict[str, Any]:
        """The change without its settings."""
        return {"change": self.change, "step_s": self.step_s, "gain": self.gain, "peak_memory_bytes": self.peak_memory_bytes}


Proposal = tuple[str, str, dict[str, Any], str]
"""(word, what it is, the settings, a note)."""


def changes(base: Result, settings: Mapping[str, Any], known: Known, schedule: Schedule | None) -> list[Change]:
    """The changes that gain most, at most five; ``schedule`` is the run's own where no config can name it."""
    before = base.timeline.makespan / base.experiment.pipeline.microbatches
    out: list[Change] = []
    for word, what, changed, note in _proposals(settings, known):
        try:
            own = schedule if changed.get("schedule") is None else None
            full = {**changed, "schedule": schedule} if own is not None else changed
            result = simulate(Experiment(**full))
        except PpsimError:
            continue  # these sizes don't allow it
        after = result.timeline.makespan / result.experiment.pipeline.microbatches
        peak = result.summary["peak_memory_bytes"] if "activation" in settings["costs"] else None
        out.append(Change(what, result.timeline.makespan / 1e9, 1 - after / before, peak, word, changed, note))
    out.sort(key=lambda change: -change.gain)
    return [change for change in out if change.gain > 0][:MOST]


def _proposals(settings: Mapping[str, Any], known: Known) -> Iterator[Proposal]:
    """What could be changed, one at a time."""
    makers: Sequence[Callable[[Mapping[str, Any], Known], Iterator[Proposal]]] = (
        _balanced, _healthy, _interleaved, _zero_bubble, _more_microbatches, _faster_links, _without_gaps,
    )  # fmt: skip
    for maker in makers:
        yield from maker(settings, known)


def _values(settings: Mapping[str, Any], key: str) -> list[Fraction] | None:
    value = settings["costs"].get(key)
    dimension = "size" if key in _HELD else "time"
    return [parse(each, dimension) for each in value] if isinstance(value, list) else None  # type: ignore[arg-type]


def _work(settings: Mapping[str, Any]) -> list[Fraction]:
    """By stage, all that a microbatch takes there."""
    columns = [values for key in _TIMES if (values := _values(settings, key)) is not None]
    return [sum(values, Fraction(0)) for values in zip(*columns, strict=True)] if columns else []


def _balanced(settings: Mapping[str, Any], known: Known) -> Iterator[Proposal]:
    """Layers from the slowest stages to the others."""
    work = _work(settings)
    if len(work) < 2 or known.layers is None:
        if len(work) > 1 and sum(work):
            mean = sum(work) / len(work)
            worst = max(range(len(work)), key=lambda stage: work[stage])
            share = float((work[worst] - mean) / work[worst])
            what = f"balance the stages (stage {worst} gives {share:.0%} of its work away)"
            yield "balance", what, _shared(settings, [mean / each if each else Fraction(1) for each in work]), "without layers, to any fraction"
        return
    stages, layers = len(work), known.layers
    if layers < stages:
        return
    held = [layers // stages + (stage < layers % stages) for stage in range(stages)]
    layer = sorted(work)[(stages - 1) // 2] / max(sorted(held)[stages // 2], 1)
    beside = [max(each - n * layer, Fraction(0)) for each, n in zip(work, held, strict=True)]
    counts = _spread(beside, layer, layers)
    if counts == held:
        return
    moved = [(stage, n - h) for stage, (n, h) in enumerate(zip(counts, held, strict=True)) if n != h]
    gives = ", ".join(f"stage {stage} {difference:+d}" for stage, difference in moved)
    target = [b + n * layer for b, n in zip(beside, counts, strict=True)]
    factors = [t / each if each else Fraction(1) for t, each in zip(target, work, strict=True)]
    yield "balance", f"balance the layers ({gives})", _shared(settings, factors), f"{layers} layers, taken as even before"


def _spread(beside: Sequence[Fraction], layer: Fraction, layers: int) -> list[int]:
    """Layers per stage, at least one each, one after the other to the stage that is then the shortest."""
    counts = [1] * len(beside)
    for _ in range(layers - len(beside)):
        stage = min(range(len(beside)), key=lambda s: beside[s] + (counts[s] + 1) * layer)
        counts[stage] += 1
    return counts


def _shared(settings: Mapping[str, Any], factors: Sequence[Fraction]) -> dict[str, Any]:
    """The settings with each stage's times multiplied."""
    costs: dict[str, Any] = {}
    for key in _TIMES:
        if (values := _values(settings, key)) is not None:
            costs[key] = [_time(value * factor) for value, factor in zip(values, factors, strict=True)]
    return merged(settings, {"costs": costs})


def _healthy(settings: Mapping[str, Any], known: Known) -> Iterator[Proposal]:
    """No straggler."""
    speed = settings.get("cluster", {}).get("speed")
    if speed:
        slow = min(range(len(speed)), key=lambda rank: speed[rank])
        what = f"without the straggler (rank {slow} runs at {speed[slow]:.0%} of its stage's speed elsewhere)"
        yield "no-straggler", what, merged(settings, {"cluster": {"speed": None}}), ""


def _pieces(settings: Mapping[str, Any], parts: int) -> dict[str, Any]:
    """Costs of stages cut into so many: what the first stage has more than the typical one stays with its first piece,
    what the last has more with its last (embedding and loss), the rest is shared evenly."""
    costs: dict[str, Any] = {"per": "stage"}
    for key in (*_TIMES, *_HELD):
        values = _values(settings, key)
        if values is None:
            continue
        typical = sorted(values)[len(values) // 2]
        out = [value / parts for value in values for _ in range(parts)]
        for stage, piece in ((0, 0), (len(values) - 1, -1)):
            if (more := values[stage] - typical) > 0:
                for place in range(stage * parts, (stage + 1) * parts):
                    out[place] = typical / parts
                out[piece] += more
        costs[key] = [_size(value) if key in _HELD else _time(value) for value in out]
    for key in _HELD:
        if isinstance(settings["costs"].get(key), str):
            costs[key] = _size(parse(settings["costs"][key], "size") / parts)
    if "optimizer" in settings["costs"]:
        costs["optimizer"] = _time(parse(settings["costs"]["optimizer"], "time") / parts)
    return costs


def _interleaved(settings: Mapping[str, Any], known: Known) -> Iterator[Proposal]:
    """Several stages per rank."""
    p, m = settings["pipeline"]["ranks"], settings["pipeline"]["microbatches"]
    if settings["costs"].get("per") != "rank" or m % p or p < 2:
        return
    for v in (2, 4):
        if known.layers is not None and known.layers < p * v:
            continue
        note = "" if known.layers is None or known.layers % (p * v) == 0 else f"{known.layers} layers aren't a multiple of {p * v}"
        changed = merged(settings, {"schedule": {"name": "interleaved_1f1b", "virtual_stages": v}, "costs": _pieces(settings, v)})
        if "runtime" in changed:
            changed["runtime"].pop("p2p", None)
        yield f"interleaved-{v}", f"interleave, {v} stages per rank", _connected(changed, p), note


def _connected(settings: dict[str, Any], ranks: int) -> dict[str, Any]:
    """With a link between the last rank and the first, which a loop needs."""
    cluster = settings.get("cluster")
    if cluster and "intra_node" not in cluster and len(loop(ranks).stages_of) > 1:
        cluster["intra_node"] = "free"
    return settings


def _zero_bubble(settings: Mapping[str, Any], known: Known) -> Iterator[Proposal]:
    """The backward in two halves."""
    if settings["costs"].get("per") != "rank" or "weight_grad" in settings["costs"]:
        return
    changed = merged(settings, {"schedule": "zb_h1"})
    if "runtime" in changed:
        changed["runtime"].pop("p2p", None)
    backward = _values(settings, "backward")
    if backward is not None:
        halves = [_time(value / 2) for value in backward]
        changed["costs"].pop("backward")
        changed["costs"].update(input_grad=halves, weight_grad=list(halves))
    yield "zero-bubble", "zero bubble (zb_h1)", changed, "the backward's halves are taken as equal"


def _more_microbatches(settings: Mapping[str, Any], known: Known) -> Iterator[Proposal]:
    """Twice as many."""
    pipeline = settings["pipeline"]
    m = pipeline["microbatches"] * 2
    weights = pipeline.get("microbatch_weights")
    if settings["schedule"] is None:
        return
    change: dict[str, Any] = {"microbatches": m, "microbatch_weights": weights and [*weights, *weights]}
    yield "microbatches", f"{m} microbatches per step", merged(settings, {"pipeline": change}), "per microbatch; the global batch doubles"


def _faster_links(settings: Mapping[str, Any], known: Known) -> Iterator[Proposal]:
    """Twice as fast."""
    cluster = settings.get("cluster", {})
    if "intra_node" not in cluster:
        return

    def twice(link: Mapping[str, Any]) -> dict[str, Any]:
        out = dict(link)
        if "bandwidth" in out:
            out["bandwidth"] = show(parse(out["bandwidth"], "bandwidth") * 2, "bandwidth")
        elif "latency" in out:
            out["latency"] = _time(parse(out["latency"], "time") / 2)
        return out

    change: dict[str, Any] = {"intra_node": twice(cluster["intra_node"])}
    if "links" in cluster:
        change["links"] = [twice(link) for link in cluster["links"]]
    yield "links", "links twice as fast", merged(settings, {"cluster": change}), ""


def _without_gaps(settings: Mapping[str, Any], known: Known) -> Iterator[Proposal]:
    """Launches that don't cost anything."""
    if "op_overhead" in settings.get("runtime", {}):
        what = "no gap before an op (graphs, or launches further ahead)"
        yield "no-gaps", what, merged(settings, {"runtime": {"op_overhead": None}}), ""


def _time(value: Fraction) -> str:
    return show(Fraction(round(value * 10**9), 10**9), "time")


def _size(value: Fraction) -> str:
    return show(Fraction(round(value)), "size")
