"""What would pay: a measured run's experiment with one thing changed, simulated, the largest gains first.

A change that does another amount of work per step (more microbatches) is judged by the time per microbatch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ppsim.analysis.measured.settings import Known, merged
from ppsim.analysis.result import Result
from ppsim.analysis.simulate import simulate
from ppsim.config.experiment import Experiment
from ppsim.errors import PpsimError
from ppsim.schedules import Schedule
from ppsim.units import parse, show

MOST = 5
CHUNKS = (2, 4)
"""Stages per rank that are tried."""
_TIMES = ("forward", "backward", "input_grad", "weight_grad", "recompute")
_HELD = ("activation", "weights", "gradients", "optimizer_state")
_NONE = Fraction(0)


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
        return {key: getattr(self, key) for key in ("change", "step_s", "gain", "peak_memory_bytes")}


@dataclass(frozen=True)
class _Proposal:
    slug: str
    change: str
    settings: dict[str, Any]
    note: str = ""


def changes(base: Result, settings: Mapping[str, Any], known: Known, schedule: Schedule | None) -> list[Change]:
    """The changes that gain most, at most five; ``schedule`` is the run's own where no config can name it."""
    before = base.timeline.makespan / base.experiment.pipeline.microbatches
    out: list[Change] = []
    for one in _Proposals(settings, known).all():
        own = {"schedule": schedule} if one.settings.get("schedule") is None else {}
        try:
            result = simulate(Experiment(**{**one.settings, **own}))
        except PpsimError:
            continue  # these sizes don't allow it
        after = result.timeline.makespan / result.experiment.pipeline.microbatches
        peak = result.summary["peak_memory_bytes"] if "activation" in settings["costs"] else None
        step = result.timeline.makespan / 1e9
        out.append(Change(one.change, step, 1 - after / before, peak, one.slug, one.settings, one.note))
    out.sort(key=lambda change: -change.gain)
    return [change for change in out if change.gain > 0][:MOST]


@dataclass(frozen=True)
class _Proposals:
    """What could be changed, one at a time."""

    settings: Mapping[str, Any]
    known: Known

    def all(self) -> Iterator[_Proposal]:
        """Every proposal."""
        yield from self.balanced()
        yield from self.without_straggler()
        yield from self.interleaved()
        yield from self.zero_bubble()
        yield from self.more_microbatches()
        yield from self.faster_links()
        yield from self.without_gaps()

    def balanced(self) -> Iterator[_Proposal]:
        """Layers from the slowest stages to the others; any fraction of a stage where the layers aren't known."""
        work = self._work()
        stages, layers = len(work), self.known.layers
        if stages < 2 or not sum(work):
            return
        if layers is None:
            mean = sum(work, _NONE) / stages
            worst = max(range(stages), key=lambda stage: work[stage])
            share = float((work[worst] - mean) / work[worst])
            what = f"balance the stages (stage {worst} gives {share:.0%} of its work away)"
            yield _Proposal(
                "balance", what, self._shared(work, [mean] * stages), "to any fraction: --layers isn't given"
            )
            return
        held = [layers // stages + (stage < layers % stages) for stage in range(stages)]
        layer = sorted(work)[(stages - 1) // 2] / max(sorted(held)[stages // 2], 1)
        beside = [max(each - n * layer, _NONE) for each, n in zip(work, held, strict=True)]
        counts = _spread(beside, layer, layers)
        moved = [f"stage {stage} {n - h:+d}" for stage, (n, h) in enumerate(zip(counts, held, strict=True)) if n != h]
        if moved:
            target = [rest + n * layer for rest, n in zip(beside, counts, strict=True)]
            what = f"balance the layers ({', '.join(moved)})"
            yield _Proposal("balance", what, self._shared(work, target), f"{layers} layers, now shared out evenly")

    def _work(self) -> list[Fraction]:
        """By stage, all that a microbatch takes there."""
        columns = [values for key in _TIMES if (values := self._values(key)) is not None]
        return [sum(values, _NONE) for values in zip(*columns, strict=True)]

    def _values(self, key: str) -> list[Fraction] | None:
        value = self.settings["costs"].get(key)
        dimension = "size" if key in _HELD else "time"
        return [parse(each, dimension) for each in value] if isinstance(value, list) else None  # type: ignore[arg-type]

    def _shared(self, work: Sequence[Fraction], target: Sequence[Fraction]) -> dict[str, Any]:
        """The settings with each stage's times scaled, so that its work is the target."""
        factors = [after / before if before else Fraction(1) for before, after in zip(work, target, strict=True)]
        costs = {
            key: [_time(value * factor) for value, factor in zip(values, factors, strict=True)]
            for key in _TIMES
            if (values := self._values(key)) is not None
        }
        return merged(self.settings, {"costs": costs})

    def without_straggler(self) -> Iterator[_Proposal]:
        """Every rank as fast as its stage is in the other replicas."""
        if speed := self.settings.get("cluster", {}).get("speed"):
            slow = min(range(len(speed)), key=lambda rank: speed[rank])
            what = f"without the straggler (rank {slow}, at {speed[slow]:.0%} of its stage's speed elsewhere)"
            yield _Proposal("no-straggler", what, merged(self.settings, {"cluster": {"speed": None}}))

    def interleaved(self) -> Iterator[_Proposal]:
        """Several stages per rank."""
        p, m = self.settings["pipeline"]["ranks"], self.settings["pipeline"]["microbatches"]
        if not self._one_stage_each() or m % p or p < 2:
            return
        layers = self.known.layers
        for v in CHUNKS:
            if layers is not None and layers < p * v:
                continue
            note = f"{layers} layers aren't a multiple of {p * v}" if layers is not None and layers % (p * v) else ""
            schedule = {"name": "interleaved_1f1b", "virtual_stages": v}
            changed = merged(self.settings, {"schedule": schedule, "costs": self._pieces(v), "runtime": {"p2p": None}})
            yield _Proposal(f"interleaved-{v}", f"interleave, {v} stages per rank", changed, note)

    def _one_stage_each(self) -> bool:
        return bool(self.settings["costs"].get("per") == "rank")

    def _pieces(self, parts: int) -> dict[str, Any]:
        """Costs of stages cut into so many.

        What the first stage has more than the typical one stays with its first piece, what the last one has more with
        its last (embedding and loss); the rest is shared evenly.
        """
        costs: dict[str, Any] = {"per": "stage"}
        for key in (*_TIMES, *_HELD):
            values = self._values(key)
            if values is None:
                continue
            typical = sorted(values)[len(values) // 2]
            out = [value / parts for value in values for _ in range(parts)]
            for stage, piece in ((0, 0), (len(values) - 1, -1)):
                if (more := values[stage] - typical) > 0:
                    out[stage * parts : (stage + 1) * parts] = [typical / parts] * parts
                    out[piece] += more
            costs[key] = [_size(value) if key in _HELD else _time(value) for value in out]
        for key in (*_HELD, "optimizer"):
            if isinstance(value := self.settings["costs"].get(key), str):
                costs[key] = (
                    _time(parse(value, "time") / parts) if key == "optimizer" else _size(parse(value, "size") / parts)
                )
        return costs

    def zero_bubble(self) -> Iterator[_Proposal]:
        """The backward in two halves."""
        backward = self._values("backward")
        if not self._one_stage_each() or backward is None:
            return
        halves = [_time(value / 2) for value in backward]
        costs = {"backward": None, "input_grad": halves, "weight_grad": list(halves)}
        changed = merged(self.settings, {"schedule": "zb_h1", "costs": costs, "runtime": {"p2p": None}})
        yield _Proposal("zero-bubble", "zero bubble (zb_h1)", changed, "the backward's halves are taken as equal")

    def more_microbatches(self) -> Iterator[_Proposal]:
        """Twice as many."""
        if self.settings["schedule"] is None:
            return
        pipeline = self.settings["pipeline"]
        m, weights = 2 * pipeline["microbatches"], pipeline.get("microbatch_weights")
        twice = {"microbatches": m, "microbatch_weights": [*weights, *weights] if weights else None}
        changed = merged(self.settings, {"pipeline": twice})
        yield _Proposal("microbatches", f"{m} microbatches per step", changed, "the global batch doubles")

    def faster_links(self) -> Iterator[_Proposal]:
        """Twice as fast."""
        cluster = self.settings.get("cluster", {})
        if "intra_node" in cluster:
            change: dict[str, Any] = {"intra_node": _twice(cluster["intra_node"])}
            if "links" in cluster:
                change["links"] = [_twice(link) for link in cluster["links"]]
            yield _Proposal("links", "links twice as fast", merged(self.settings, {"cluster": change}))

    def without_gaps(self) -> Iterator[_Proposal]:
        """Launches that cost nothing."""
        if "op_overhead" in self.settings.get("runtime", {}):
            what = "no gap before an op (graphs, or launches further ahead)"
            yield _Proposal("no-gaps", what, merged(self.settings, {"runtime": {"op_overhead": None}}))


def _spread(beside: Sequence[Fraction], layer: Fraction, layers: int) -> list[int]:
    """Layers per stage, at least one each, one after the other to the stage that is then the shortest."""
    counts = [1] * len(beside)
    for _ in range(layers - len(beside)):
        stage = min(range(len(beside)), key=lambda s: beside[s] + (counts[s] + 1) * layer)
        counts[stage] += 1
    return counts


def _twice(link: Mapping[str, Any]) -> dict[str, Any]:
    """A link of twice the bandwidth; of half the latency where that is all it has."""
    out = dict(link)
    if "bandwidth" in out:
        out["bandwidth"] = show(parse(out["bandwidth"], "bandwidth") * 2, "bandwidth")
    elif "latency" in out:
        out["latency"] = _time(parse(out["latency"], "time") / 2)
    return out


def _time(value: Fraction) -> str:
    return show(Fraction(round(value * 10**9), 10**9), "time")


def _size(value: Fraction) -> str:
    return show(Fraction(round(value)), "size")
